// SPDX-License-Identifier: Apache-2.0
//
// Sums over rows of what 16 bits make in float32, whose sticks have 32 lanes: of each core's own,
// or of what cores that divide rows have sent to cores that divide sticks. They go back to 16 bits
// where two of the latter have the halves of a stick. Bytes are those of element-by-element
// execution, and all kernels are one row fusion.
#include "one_card.h"
#include "program.h"
#include "support/rounds.h"

#include "card/plan.h"
#include "card/row_fusion/row_fusion.h"

enum {
    MOST_ROWS = 256,
    MOST_STICKS = 8,                        // of 16 bits
    BYTES = MOST_ROWS * MOST_STICKS * 128,  // of an argument, of what all cores have of it
    MADE = 0,                               // in LX: in float32, as senders have it
    RECEIVED = MADE + 2 * BYTES,
    SUMS = RECEIVED + 2 * BYTES,
    SCALE = SUMS + MOST_STICKS * 256,
    VALUES = SCALE + 128,                   // sums, scaled and rounded
    HALVES = VALUES + MOST_STICKS * 256,    // as cores have them for sticks of 16 bits
    SLOTS = 80,
    OUT = 79,                               // slot of an argument's address
};
_Static_assert(HALVES + MOST_STICKS * 256 <= (int)ISA_LX_BYTES, "");

static uint8_t initial[2 * BYTES], exact[2 * BYTES];

typedef struct {
    isa_program *p;
    uint64_t seed;
    uint32_t rows, sticks;                  // of a core that makes; of 16 bits
    uint32_t makers, adders, lasts;         // cores
} maker;

static uint32_t below(maker *m, uint32_t end)
{
    return next_random(&m->seed) % end;
}

static uint32_t all(uint32_t cores)
{
    return (uint32_t)((1ull << cores) - 1);
}

static isa_instruction *emit_dims(maker *m, isa_opcode opcode, uint8_t operands,
                                  const isa_operand *operand, uint32_t dims, const uint32_t *extent,
                                  const int64_t (*stride)[4])
{
    isa_instruction *i = emit(m->p, opcode);
    i->operand_count = operands;
    i->dim_count = (uint8_t)dims;
    for (uint32_t d = 0; d < dims; d++) i->extent[d] = extent[d];
    for (uint32_t o = 0; o < operands; o++) {
        i->operand[o] = operand[o];
        for (uint32_t d = 0; d < dims; d++) i->operand[o].stride[d] = stride[o][d];
    }
    return i;
}

// f(x, x) of the rows of a core: sticks of 16 bits outside of rows, in LX those of float32.
static void make_kernel(maker *m)
{
    static const opfunc ops[] = {OPFUNC_MUL, OPFUNC_ADD, OPFUNC_SUB};
    const int64_t all_rows = m->makers * m->rows, run = 128 * (int64_t)m->rows;
    const int64_t strides[3][4] = {{2 * run, run, 128, 4}, {128 * all_rows, 64, 128, 2},
                                   {128 * all_rows, 64, 128, 2}};
    const isa_operand operands[] = {in_lx(MADE, FP32), in_memory(0, OUT, 0, DL16),
                                    in_memory(0, OUT, 0, DL16)};
    int64_t *parameters = begin_kernel(m->p, all(m->makers), SLOTS);
    for (uint32_t core = 0; core < m->makers; core++) parameters[core * SLOTS + OUT] = core * run;
    emit_dims(m, ISA_VECTOR, 3, operands, 4, (uint32_t[]){m->sticks, 2, m->rows, 32},
              strides)->op = ops[below(m, 3)];
    end_kernel(m->p);
}

typedef struct {
    uint32_t sends, receives, from, to;     // messages of a core; cores
    uint32_t elements;                      // of a message
    int64_t sent, received;                 // in LX, the first; others one behind the other
} messages;

// Message n of core c goes to core (c * sends + n) / receives, or, where all cores send to all, to
// core n.
static void message_kernels(maker *m, const messages *s, bool to_all)
{
    const bool one = s->from == s->to;
    const uint32_t sent_by[2] = {s->from, 0}, received_by[2] = {0, s->to};
    for (uint32_t k = 0; k < (one ? 1 : 2); k++) {
        const uint32_t senders = one ? s->from : sent_by[k];
        const uint32_t receivers = one ? s->to : received_by[k];
        int64_t *parameters = begin_kernel(m->p, all(senders ? senders : receivers), SLOTS);
        for (uint32_t n = 0; senders && n < s->sends; n++) {
            const isa_operand from = in_lx(s->sent + 4 * (int64_t)n * s->elements, FP32);
            emit_flat(m->p, ISA_SEND, s->elements, 1, &from)->token = (uint16_t)n;
            for (uint32_t core = 0; core < senders; core++)
                parameters[core * SLOTS + n] = to_all ? n : (core * s->sends + n) / s->receives;
        }
        for (uint32_t n = 0; receivers && n < s->receives; n++) {
            const isa_operand to = in_lx(s->received + 4 * (int64_t)n * s->elements, FP32);
            emit_flat(m->p, ISA_RECEIVE, s->elements, 1, &to)->token =
                (uint16_t)(one * s->sends + n);
            for (uint32_t core = 0; core < receivers; core++)
                parameters[core * SLOTS + one * s->sends + n] =
                    to_all ? n : (core * s->receives + n) / s->sends;
        }
        end_kernel(m->p);
    }
}

// Sums of all rows, times a number, in VALUES.
static void add_kernel(maker *m)
{
    const uint32_t own = 2 * m->sticks / m->adders, rows = m->rows * m->makers;
    const bool sent = m->makers > 1;
    const isa_operand sums = in_lx(SUMS, FP32), number = in_lx(SCALE, FP32);
    const isa_operand from = in_lx(sent ? RECEIVED : MADE, FP32), to = in_lx(VALUES, FP32);
    const int64_t outer = sent ? 128 * m->rows : 128 * rows;
    const int64_t strides[2][4] = {{128, 0, 0, 4}, {outer, 128 * (int64_t)m->rows * own, 128, 4}};
    begin_kernel(m->p, all(m->adders), SLOTS);
    emit_flat(m->p, ISA_FILL, own * 32, 1, &sums)->constant[0] = 0;
    emit_dims(m, ISA_REDUCE, 2, (isa_operand[]){sums, from}, 4,
              (uint32_t[]){own, m->makers, m->rows, 32}, strides)->op = OPFUNC_SUM;
    if (below(m, 2)) {
        const int64_t by[3][4] = {{4}, {4}, {0}};
        emit_flat(m->p, ISA_FILL, 1, 1, &number)->constant[0] = 0.25F + (float)below(m, 4);
        emit_dims(m, ISA_VECTOR, 3, (isa_operand[]){sums, sums, number}, 1,
                  (uint32_t[]){own * 32}, by)->op = OPFUNC_MUL;
    }
    emit_flat(m->p, ISA_VECTOR, own * 32, 2, (isa_operand[]){to, sums})->op = OPFUNC_IDENTITY;
    end_kernel(m->p);
}

static void value_kernel(maker *m)
{
    static const opfunc ops[] = {OPFUNC_ABS, OPFUNC_NEG, OPFUNC_SQRT};
    const isa_operand values = in_lx(VALUES, FP32);
    begin_kernel(m->p, all(m->adders), SLOTS);
    emit_flat(m->p, ISA_VECTOR, 2 * m->sticks / m->adders * 32, 2,
              (isa_operand[]){values, values})->op = ops[below(m, 3)];
    end_kernel(m->p);
}

static void last_kernel(maker *m)
{
    const uint32_t own = m->sticks / m->lasts;
    const isa_operand from = in_lx(m->lasts == m->adders ? VALUES : HALVES, FP32);
    int64_t *parameters = begin_kernel(m->p, all(m->lasts), SLOTS);
    for (uint32_t core = 0; core < m->lasts; core++)
        parameters[core * SLOTS + OUT] = 128 * (int64_t)own * core;
    const isa_operand operands[] = {in_memory(1, OUT, 0, DL16), from};
    emit_flat(m->p, ISA_VECTOR, own * 64, 2, operands)->op = OPFUNC_FP32TODL16;
    end_kernel(m->p);
}

// Returns how many kernels there are.
static uint32_t random_program(uint64_t *seed, isa_program **out)
{
    maker m = {.p = new_program(2), .seed = *seed};
    m.sticks = 2 + below(&m, MOST_STICKS - 1);
    m.rows = 1 + below(&m, 8);
    m.makers = 1u << below(&m, 6);
    do m.adders = 1 + below(&m, 2 * m.sticks);
    while (2 * m.sticks % m.adders || (m.makers == 1 && m.adders > 1));
    const bool whole = m.sticks % m.adders == 0 && below(&m, 2);
    m.lasts = whole ? m.adders : m.sticks;
    make_kernel(&m);
    const uint32_t own = 2 * m.sticks / m.adders;
    if (m.makers > 1) message_kernels(&m, &(messages){m.adders, m.makers, m.makers, m.adders,
                                                      32 * m.rows * own, MADE, RECEIVED}, true);
    add_kernel(&m);
    if (below(&m, 2)) value_kernel(&m);
    if (!whole) message_kernels(&m, &(messages){own, 2, m.adders, m.lasts, 32, VALUES, HALVES},
                                false);
    last_kernel(&m);
    emit(m.p, ISA_HALT);
    *seed = m.seed;
    *out = m.p;
    return m.p->kernels.count;
}

static const card_argument arguments[2] = {{0, BYTES}, {BYTES, BYTES}};

static const uint8_t *run(card_program *loaded, card_mode mode)
{
    memcpy(card_memory(the_card, 0, 2 * BYTES), initial, 2 * BYTES);
    card_wipe_lx(the_card);
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, arguments, 2, NULL));
    return card_memory(the_card, 0, 2 * BYTES);
}

static bool is_one_fusion(const card_program *loaded, uint32_t kernels)
{
    const row_fusion *rows = loaded->phases.items[0].kernel->rows;
    return rows && rows->kernels == kernels;
}

static void wide_sums__sums_of_both_runs_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 5, fill = 3;
    uint32_t whole = 0, rounds = test_rounds(400);
    for (uint32_t n = 0; n < 2 * BYTES; n++) initial[n] = (uint8_t)next_random(&fill);
    for (uint32_t round = 0; round < rounds; round++) {
        const uint64_t start = seed;
        isa_program *p;
        card_program *loaded;
        const uint32_t kernels = random_program(&seed, &p);
        assert_ok(card_load(the_card, p, &loaded));
        card_program_forget_lx(loaded);
        memcpy(exact, run(loaded, CARD_EXACT), 2 * BYTES);
        if (memcmp(exact, run(loaded, CARD_FAST), 2 * BYTES))
            fail_msg("program of seed %llu", (unsigned long long)start);
        whole += is_one_fusion(loaded, kernels);
        card_unload(the_card, loaded);
        free_program(p);
    }
    assert_true(whole > rounds / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_sums__sums_of_both_runs_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
