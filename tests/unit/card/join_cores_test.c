// SPDX-License-Identifier: Apache-2.0
//
// Cores that do in one tile what each would do in its own leave the bytes that they leave one by
// one, however their shares lie between each other, on any number of host threads; and the fault of
// a row that does not exist is that of the core that wants it.
#include "fast_against_exact.h"

#include "card/plan.h"
#include "support/rounds.h"

#define INT32 SPYRE_FORMAT_IEEE_INT32
enum {
    RUN = 96,                               // elements of a row, at most
    ROWS = 6,
    PLACES = 16 * ROWS,                     // rows of an argument, a stick apart from each other
    STEP = 256,
    BYTES = PLACES * STEP,
    KERNELS = 3,
    GIVEN = 0, INDEX = 1, RESULT = 2, OTHER = 3, ARGUMENTS = 4,
};

// How cores share out the rows of an argument.
typedef enum { IN_TURN, IN_BLOCKS, IN_PAIRS, BACKWARDS, AT_RANDOM, SHARES } share;

typedef struct {
    uint32_t cores, active, rows;
    share how;
    uint32_t order[ISA_CORES];              // AT_RANDOM
} division;

static division random_division(uint64_t *seed)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 6, 8, 12, 16};
    division d = {.cores = counts[next_random(seed) % 8], .rows = 1 + next_random(seed) % ROWS};
    d.how = (share)(next_random(seed) % SHARES);
    uint32_t skip = next_random(seed) % 2, first = next_random(seed) % (ISA_CORES - 16);
    for (uint32_t n = 0; n < d.cores; n++) d.active |= 1u << (first + (n << skip) % 16 + n / 8);
    d.cores = (uint32_t)__builtin_popcount(d.active);
    for (uint32_t n = 0; n < d.cores; n++) {
        uint32_t other = next_random(seed) % (n + 1);
        d.order[n] = d.order[other];
        d.order[other] = n;
    }
    return d;
}

// The row of the argument at which the share of core number n begins, and from row to row of it.
static uint32_t first_row(const division *d, uint32_t n)
{
    switch (d->how) {
    case IN_TURN: return n;
    case IN_BLOCKS: return n * d->rows;
    case IN_PAIRS: return d->cores % 2 ? n : n / 2 * 2 * d->rows + n % 2;
    case BACKWARDS: return d->cores - 1 - n;
    case AT_RANDOM:
    case SHARES: break;
    }
    return d->order[n] * d->rows;
}

static uint32_t row_step(const division *d)
{
    switch (d->how) {
    case IN_TURN:
    case BACKWARDS: return d->cores;
    case IN_PAIRS: return d->cores % 2 ? d->cores : 2;
    case IN_BLOCKS:
    case AT_RANDOM:
    case SHARES: break;
    }
    return 1;
}

static int64_t *begin(isa_program *p, const division *d, const division *read)
{
    int64_t *parameters = begin_kernel(p, d->active, 3);
    uint32_t n = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!(d->active >> core & 1u)) continue;
        parameters[core * 3] = (int64_t)first_row(d, n) * STEP;
        parameters[core * 3 + 1] = (int64_t)first_row(read, n) * STEP;
        parameters[core * 3 + 2] = first_row(d, n) * 4;
        n++;
    }
    return parameters;
}

static isa_instruction *emit_rows(isa_program *p, isa_opcode opcode, uint32_t rows, uint32_t count,
                                  isa_operand to, int64_t to_row, isa_operand from,
                                  int64_t from_row)
{
    isa_instruction *i = emit(p, opcode);
    i->dim_count = i->operand_count = 2;
    i->extent[0] = rows;
    i->extent[1] = count;
    i->operand[0] = to;
    i->operand[1] = from;
    i->operand[0].stride[0] = to_row;
    i->operand[1].stride[0] = from_row;
    i->operand[0].stride[1] = i->operand[1].stride[1] = 2;
    return i;
}

// result = given or -given.
static void random_copy(isa_program *p, uint64_t *seed)
{
    division d = random_division(seed), read = d;
    read.how = (share)(next_random(seed) % SHARES);
    uint16_t to = next_random(seed) % 4 ? RESULT : OTHER;
    uint16_t from = to == RESULT || next_random(seed) % 2 ? GIVEN : RESULT;
    uint32_t count = next_random(seed) % 2 ? 64 : 1 + next_random(seed) % RUN;
    int64_t shift = 2 * (next_random(seed) % 3 * 8);
    bool negates = next_random(seed) % 2;
    begin(p, &d, &read);
    emit_rows(p, ISA_LOAD, d.rows, count, in_lx(0, DL16), STEP, in_memory(from, 1, shift, DL16),
              row_step(&read) * (int64_t)STEP);
    signal_to(p, ISA_QUEUE_LOAD, 0);
    if (negates) {
        wait_for(p, ISA_QUEUE_SFP, 0);
        emit_rows(p, ISA_VECTOR, d.rows, count, in_lx(8192, DL16), STEP, in_lx(0, DL16), STEP)->op =
            OPFUNC_NEG;
        signal_to(p, ISA_QUEUE_SFP, 1);
    }
    wait_for(p, ISA_QUEUE_STORE, negates);
    emit_rows(p, ISA_STORE, d.rows, count, in_memory(to, 0, 0, DL16), row_step(&d) * (int64_t)STEP,
              in_lx(negates ? 8192 : 0, DL16), STEP);
    end_kernel(p);
}

// result = given at the rows that the index names, in one or two iterations.
static void random_gather(isa_program *p, uint64_t *seed)
{
    division d = random_division(seed);
    uint32_t loops = d.rows % 2 == 0 && next_random(seed) % 2 ? 2 : 1, rows = d.rows / loops;
    uint32_t count = next_random(seed) % 2 ? 64 : 1 + next_random(seed) % RUN;
    begin(p, &d, &d);
    if (loops > 1) emit(p, ISA_LOOP)->count = loops;
    isa_instruction *i = emit_flat(p, ISA_LOAD, rows, 2,
                                   (isa_operand[]){in_lx(0, INT32), in_memory(INDEX, 2, 0, INT32)});
    i->operand[1].stride[0] = row_step(&d) * 4;
    if (loops > 1) i->operand[1].loop_stride[0] = rows * row_step(&d) * 4;
    i = emit_rows(p, ISA_GATHER, rows, count, in_lx(1024, DL16), STEP,
                  in_memory(GIVEN, ISA_NO_SLOT, 0, DL16), 0);
    i->operand_count = 3;
    i->operand[2] = in_lx(0, INT32);
    i->operand[2].stride[0] = 4;
    i->row_stride = STEP;
    i->row_count = PLACES;
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_STORE, 0);
    i = emit_rows(p, ISA_STORE, rows, count, in_memory(RESULT, 0, 0, DL16),
                  row_step(&d) * (int64_t)STEP, in_lx(1024, DL16), STEP);
    if (loops > 1) {
        i->operand[0].loop_stride[0] = rows * row_step(&d) * (int64_t)STEP;
        signal_to(p, ISA_QUEUE_STORE, 1);
        wait_for(p, ISA_QUEUE_LOAD, 1);
        emit(p, ISA_END_LOOP);
    }
    end_kernel(p);
}

static isa_program *random_program(uint64_t *seed)
{
    isa_program *p = new_program(ARGUMENTS);
    for (uint32_t n = 1 + next_random(seed) % KERNELS; n > 0; n--) {
        if (next_random(seed) % 3) random_copy(p, seed);
        else random_gather(p, seed);
    }
    emit(p, ISA_HALT);
    return p;
}

static uint8_t initial[ARGUMENTS * BYTES], exact[ARGUMENTS * BYTES];

// The text of the fault, or "".
static card_fault launch_as(card *c, card_program *loaded, card_mode mode)
{
    card_argument arguments[ARGUMENTS];
    card_fault fault = {0};
    for (uint32_t n = 0; n < ARGUMENTS; n++) arguments[n] = (card_argument){n * BYTES, BYTES};
    memcpy(card_memory(c, 0, sizeof initial), initial, sizeof initial);
    card_program_forget_lx(loaded);
    card_wipe_lx(c);
    card_set_mode(c, mode);
    spyre_status_free(card_launch(c, loaded, arguments, ARGUMENTS, &fault));
    return fault;
}

static uint32_t count_joined(const card_program *loaded)
{
    uint32_t joined = 0;
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_stage *stage = loaded->phases.items[n].stage;
        for (uint32_t a = 0; stage && a < stage->actions.count; a++)
            joined += stage->actions.items[a].joined.count > 0;
    }
    return joined;
}

static uint32_t check_program(card *c, isa_program *p, uint64_t seed)
{
    card_program *loaded;
    assert_ok(card_load(c, p, &loaded));
    uint32_t joined = count_joined(loaded);
    card_fault expected = launch_as(c, loaded, CARD_EXACT);
    memcpy(exact, card_memory(c, 0, sizeof exact), sizeof exact);
    card_fault found = launch_as(c, loaded, CARD_FAST);
    bool same = strcmp(expected.text, found.text) == 0 && expected.core == found.core;
    if (!*expected.text)
        same = same && memcmp(exact, card_memory(c, 0, sizeof exact), sizeof exact) == 0;
    if (!same) {
        text out = {0};
        isa_print(p, &out);
        fail_msg("seed %llu: \"%s\" on core %u, not \"%s\" on %u\n%s", (unsigned long long)seed,
                 found.text, found.core, expected.text, expected.core, text_string(&out));
    }
    card_unload(c, loaded);
    return joined;
}

// Rows of the index that exist, but for one now and then.
static void fill(uint64_t *seed, bool faulty)
{
    for (size_t n = 0; n < sizeof initial; n++) initial[n] = (uint8_t)next_random(seed);
    for (uint32_t n = 0; n < PLACES; n++) {
        int32_t row = (int32_t)(next_random(seed) % PLACES);
        if (faulty && n % 37 == 5) row = PLACES + (int32_t)n;
        memcpy(initial + INDEX * BYTES + n * sizeof row, &row, sizeof row);
    }
}

static void join_cores__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 4200;
    uint32_t joined = 0;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        card *c = card_with_threads(threads);
        for (uint32_t round = 0; round < test_rounds(400); round++) {
            fill(&seed, round % 4 == 0);
            uint64_t start = seed;
            isa_program *p = random_program(&seed);
            joined += check_program(c, p, start);
            free_program(p);
        }
        card_destroy(c);
    }
    assert_true(joined > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_cores__random_programs_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
