// SPDX-License-Identifier: Apache-2.0
//
// Products of rows that an exchange hands on: read with the senders or copied, they leave the bytes
// of exact mode; and when copies must be made.
#include "program.h"

#include <stdlib.h>

#include "card/plan.h"
#include "tensor/numeric.h"

enum {
    CORES = 4,
    ROWS = 8,                               // of A, in each core; a product has as many
    PART = ROWS / CORES,                    // rows that go from one core to another
    STICKS = 2,                             // of k
    DEPTH = STICKS * 64,
    STICK = 128,
    A_BYTES = ROWS * STICKS * STICK,
    SENT = 0,                               // in LX: [stick of k][row][lane]
    RECEIVED = 16 << 10,
    B_AT = 32 << 10,
    SUMS = 64 << 10,
    RESULT = 96 << 10,
    MEMORY = 64 << 10,
};

typedef struct {
    bool twisted;                           // every core gets rows in an order of its own
    bool read_later;                        // what was received is stored, too
    bool overwrites;                        // the result lies where rows were sent from
    bool reads_through;
} program_of;

static uint8_t initial[3][MEMORY], exact[MEMORY];

static int64_t *begin_on_all(isa_program *p, uint32_t slots)
{
    return begin_kernel(p, (1u << CORES) - 1, slots);
}

static void copy(isa_program *p, isa_opcode opcode, uint16_t arg, int64_t lx, uint32_t bytes)
{
    int64_t *parameters = begin_on_all(p, 1);
    for (uint32_t core = 0; core < CORES; core++) parameters[core] = core * bytes;
    isa_operand here = in_lx(lx, DL16), there = in_memory(arg, 0, 0, DL16);
    bool loads = opcode == ISA_LOAD;
    emit_flat(p, opcode, bytes / 2, 2,
              (isa_operand[]){loads ? here : there, loads ? there : here});
    end_kernel(p);
}

static void emit_rows(isa_program *p, isa_opcode opcode, int64_t at, uint16_t slot)
{
    isa_instruction *i = emit(p, opcode);
    i->token = slot;
    i->dim_count = 2;
    i->extent[0] = STICKS;
    i->extent[1] = PART * 64;
    i->operand_count = 1;
    i->operand[0] = in_lx(at, DL16);
    i->operand[0].stride[0] = ROWS * STICK;
    i->operand[0].stride[1] = 2;
}

// Rows [n * PART, (n + 1) * PART) of every core go to core n.
static void exchange_parts(isa_program *p, bool twisted)
{
    int64_t *peers = begin_on_all(p, 2 * CORES);
    for (uint32_t core = 0; core < CORES; core++) {
        for (uint32_t n = 0; n < CORES; n++) {
            peers[core * 2 * CORES + n] = n;
            peers[core * 2 * CORES + CORES + n] = twisted ? n ^ core : n;
        }
    }
    for (uint16_t n = 0; n < CORES; n++) emit_rows(p, ISA_SEND, SENT + n * PART * STICK, n);
    for (uint16_t n = 0; n < CORES; n++)
        emit_rows(p, ISA_RECEIVE, RECEIVED + n * PART * STICK, (uint16_t)(CORES + n));
    end_kernel(p);
}

static void multiply(isa_program *p, const program_of *what)
{
    isa_operand sums = in_lx(SUMS, FP32), b = in_lx(B_AT, DL16);
    isa_operand result = in_lx(what->overwrites ? SENT : RESULT, DL16);
    int64_t *parameters = begin_on_all(p, 1);
    for (uint32_t core = 0; core < CORES; core++) parameters[core] = core * ROWS * STICK;
    emit_flat(p, ISA_FILL, ROWS * 64, 1, &sums);
    signal_to(p, ISA_QUEUE_SFP, 0);
    wait_for(p, ISA_QUEUE_PT, 0);
    emit_flat(p, ISA_LOAD, DEPTH * 64, 2,
              (isa_operand[]){b, in_memory(1, ISA_NO_SLOT, 0, DL16)});
    signal_to(p, ISA_QUEUE_LOAD, 1);
    wait_for(p, ISA_QUEUE_PT, 1);
    isa_instruction *i = emit(p, ISA_MATMUL);
    i->dim_count = i->operand_count = 3;
    i->extent[0] = ROWS;
    i->extent[1] = 1;
    i->extent[2] = DEPTH;
    i->operand[0] = sums;
    i->operand[1] = in_lx(RECEIVED, DL16);
    i->operand[2] = b;
    i->operand[0].stride[0] = 256;
    i->operand[1].stride[0] = STICK;
    i->operand[1].stride[2] = ROWS * STICK;
    i->operand[2].stride[2] = STICK;
    signal_to(p, ISA_QUEUE_PT, 2);
    wait_for(p, ISA_QUEUE_SFP, 2);
    emit_flat(p, ISA_VECTOR, ROWS * 64, 2, (isa_operand[]){result, sums})->op = OPFUNC_IDENTITY;
    signal_to(p, ISA_QUEUE_SFP, 3);
    wait_for(p, ISA_QUEUE_STORE, 3);
    emit_flat(p, ISA_STORE, ROWS * 64, 2, (isa_operand[]){in_memory(2, 0, 0, DL16), result});
    end_kernel(p);
}

static isa_program *make_program(const program_of *what)
{
    isa_program *p = new_program(3);
    copy(p, ISA_LOAD, 0, SENT, A_BYTES);
    exchange_parts(p, what->twisted);
    multiply(p, what);
    if (what->read_later) copy(p, ISA_STORE, 0, RECEIVED, A_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static const uint8_t *run(card *c, card_program *loaded, card_mode mode)
{
    card_argument arguments[3];
    for (uint32_t n = 0; n < 3; n++) {
        arguments[n] = (card_argument){n * MEMORY, MEMORY};
        memcpy(card_memory(c, n * MEMORY, MEMORY), initial[n], MEMORY);
    }
    card_wipe_lx(c);
    card_set_mode(c, mode);
    assert_ok(card_launch(c, loaded, arguments, 3, NULL));
    return card_memory(c, 2 * MEMORY, MEMORY);
}

static void fill(void)
{
    uint64_t seed = 11;
    for (uint32_t arg = 0; arg < 2; arg++) {
        for (uint32_t n = 0; n < MEMORY; n += 2) {
            uint16_t code = dl16_from_float((float)(next_random(&seed) % 4001) / 2000.0f - 1.0f);
            memcpy(initial[arg] + n, &code, sizeof code);
        }
    }
}

static void remote_operands__products_read_what_nobody_else_wants_with_the_senders(void **state)
{
    (void)state;
    static const program_of cases[] = {
        {.reads_through = true},
        {.twisted = true},
        {.read_later = true},
        {.overwrites = true},
    };
    fill();
    for (uint32_t threads = 1; threads <= 3; threads++) {
        card *c = card_with_threads(threads);
        for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
            isa_program *p = make_program(&cases[n]);
            card_program *loaded;
            assert_ok(card_load(c, p, &loaded));
            const remote_operand *t = loaded->phases.items[1].kernel->remote;
            assert_int_equal(t != NULL, cases[n].reads_through);
            if (t) assert_int_equal(t->from[3], SENT + 3 * PART * STICK);
            memcpy(exact, run(c, loaded, CARD_EXACT), MEMORY);
            // LX is kept and copies are made; then nobody reads it afterwards.
            assert_memory_equal(exact, run(c, loaded, CARD_FAST), MEMORY);
            card_program_forget_lx(loaded);
            assert_memory_equal(exact, run(c, loaded, CARD_FAST), MEMORY);
            card_unload(c, loaded);
            free_program(p);
        }
        card_destroy(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remote_operands__products_read_what_nobody_else_wants_with_the_senders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
