// SPDX-License-Identifier: Apache-2.0
//
// One core's values of rows for all cores: on any number of host threads as in exact mode, whether
// they are fused with what the receivers do or not. And the rows of one core that threads share.
#include "program.h"

#include <stdlib.h>

#include "card/machine.h"
#include "card/row_fusion/run/run_rows.h"

enum {
    CORES = 8,
    STICKS = 4,
    MOST_ROWS = 512,
    ROW_BYTES = STICKS * 128,
    MEMORY = MOST_ROWS * ROW_BYTES,
    STAGE = 0,                              // in LX
    SUMS = STAGE + MEMORY,
    VALUES = SUMS + MOST_ROWS * 256,
    RECEIVED = VALUES + MOST_ROWS * 128,
    RESULT = RECEIVED + MOST_ROWS * 128,
};

typedef struct {
    uint32_t rows;
    bool in_place;                          // the result replaces what maxima are made of
    bool twice;                             // each core gets rows of the next one too
    bool lacking;                           // no core gets the last core's rows
    bool looks_back;                        // cores read where the maxima were made
    bool over;                              // what only a fusion reads lies where they were made
    bool joins;                             // it is one row fusion of all cores
} program_of;

static uint8_t initial[MEMORY], exact[MEMORY];

static isa_instruction *emit_rows(isa_program *p, isa_opcode opcode, uint32_t rows,
                                  uint8_t operands, const isa_operand *operand)
{
    isa_instruction *i = emit(p, opcode);
    i->dim_count = 3;
    i->extent[0] = rows;
    i->extent[1] = STICKS;
    i->extent[2] = 64;
    i->operand_count = operands;
    for (uint8_t o = 0; o < operands; o++) {
        i->operand[o] = operand[o];
        bool by_row = operand[o].offset >= VALUES && operand[o].offset < RESULT;
        bool sums = operand[o].format == FP32;
        i->operand[o].stride[0] = by_row ? 128 : sums ? 256 : ROW_BYTES;
        i->operand[o].stride[1] = by_row || sums ? 0 : 128;
        i->operand[o].stride[2] = by_row ? 0 : sums ? 4 : 2;
    }
    return i;
}

static void load_rows(isa_program *p, uint32_t rows, uint16_t slot)
{
    isa_operand stage = in_lx(STAGE, DL16), memory = in_memory(0, slot, 0, DL16);
    emit_flat(p, ISA_LOAD, rows * STICKS * 64, 2, (isa_operand[]){stage, memory});
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
}

static void make_maxima(isa_program *p, uint32_t rows)
{
    isa_operand sums = in_lx(SUMS, FP32), values = in_lx(VALUES, DL16);
    begin_kernel(p, 1, 0);
    load_rows(p, rows, ISA_NO_SLOT);
    emit_flat(p, ISA_FILL, rows * 64, 1, &sums)->constant[0] =
        opfunc_reduction_identity(OPFUNC_MAX);
    emit_rows(p, ISA_REDUCE, rows, 2, (isa_operand[]){sums, in_lx(STAGE, DL16)})->op = OPFUNC_MAX;
    isa_instruction *fold = emit_flat(p, ISA_FOLD, rows, 1, &sums);
    fold->op = OPFUNC_MAX;
    fold->dim_count = 2;
    fold->extent[1] = 64;
    fold->operand[0].stride[0] = 256;
    fold->operand[0].stride[1] = 4;
    isa_instruction *round = emit_flat(p, ISA_VECTOR, rows, 2, (isa_operand[]){values, sums});
    round->op = OPFUNC_IDENTITY;
    round->operand[0].stride[0] = 128;
    round->operand[1].stride[0] = 256;
    end_kernel(p);
}

static void hand_out(isa_program *p, const program_of *what, uint32_t rows)
{
    uint32_t messages = CORES - what->lacking, count = (what->twice ? 2 : 1) * rows;
    int64_t *peers = begin_kernel(p, 1, CORES);
    for (uint32_t core = 0; core < messages; core++) {
        peers[core] = core;
        uint32_t first = core * rows + count <= what->rows ? core * rows : what->rows - count;
        isa_operand values = in_lx(VALUES + (int64_t)first * 128, DL16);
        emit_flat(p, ISA_SEND, count * 64, 1, &values)->token = (uint16_t)core;
    }
    end_kernel(p);
    begin_kernel(p, (1u << messages) - 1, 1);
    isa_operand received = in_lx(RECEIVED, DL16);
    emit_flat(p, ISA_RECEIVE, count * 64, 1, &received)->token = 0;
    end_kernel(p);
}

static void take_maxima(isa_program *p, const program_of *what, uint32_t rows)
{
    isa_operand result = in_lx(what->over ? VALUES - 128 : RESULT, DL16);
    isa_operand stage = in_lx(STAGE, DL16);
    isa_operand maxima = in_lx(what->looks_back ? VALUES : RECEIVED, DL16);
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 1);
    for (uint32_t core = 0; core < CORES; core++) parameters[core] = core * rows * ROW_BYTES;
    load_rows(p, rows, 0);
    emit_rows(p, ISA_VECTOR, rows, 3, (isa_operand[]){result, stage, maxima})->op = OPFUNC_SUB;
    end_kernel(p);
    parameters = begin_kernel(p, (1u << CORES) - 1, 1);
    for (uint32_t core = 0; core < CORES; core++) parameters[core] = core * rows * ROW_BYTES;
    emit_rows(p, ISA_VECTOR, rows, 2, (isa_operand[]){stage, result})->op = OPFUNC_NEG;
    signal_to(p, ISA_QUEUE_SFP, 0);
    wait_for(p, ISA_QUEUE_STORE, 0);
    isa_operand out = in_memory(what->in_place ? 0 : 1, 0, 0, DL16);
    emit_flat(p, ISA_STORE, rows * STICKS * 64, 2, (isa_operand[]){out, stage});
    end_kernel(p);
}

static isa_program *make_program(const program_of *what)
{
    isa_program *p = new_program(2);
    uint32_t rows = what->rows / CORES;
    make_maxima(p, what->rows);
    hand_out(p, what, rows);
    take_maxima(p, what, rows);
    emit(p, ISA_HALT);
    return p;
}

static const card_argument arguments[2] = {{0, MEMORY}, {MEMORY, MEMORY}};

static const uint8_t *run(card *c, card_program *loaded, card_mode mode, uint32_t result)
{
    memcpy(card_memory(c, 0, MEMORY), initial, MEMORY);
    memset(card_memory(c, MEMORY, MEMORY), 0, MEMORY);
    card_wipe_lx(c);
    card_set_mode(c, mode);
    assert_ok(card_launch(c, loaded, arguments, 2, NULL));
    return card_memory(c, arguments[result].base, MEMORY);
}

static void fill(void)
{
    uint64_t seed = 3;
    for (uint32_t n = 0; n < MEMORY; n++) initial[n] = (uint8_t)next_random(&seed);
}

static void shared_rows__rows_that_messages_hand_out(void **state)
{
    (void)state;
    static const program_of cases[] = {
        {.rows = 512, .joins = true},
        {.rows = 256, .joins = true},
        {.rows = 96, .joins = true},
        {.rows = 512, .in_place = true, .joins = true},
        {.rows = 512, .twice = true},
        {.rows = 512, .lacking = true},
        {.rows = 512, .looks_back = true},
        {.rows = 512, .over = true, .joins = true},
        {.rows = 512, .over = true, .twice = true},
    };
    fill();
    for (uint32_t threads = 1; threads <= 3; threads++) {
        card *c = card_with_threads(threads);
        for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
            isa_program *p = make_program(&cases[n]);
            card_program *loaded;
            assert_ok(card_load(c, p, &loaded));
            card_program_forget_lx(loaded);
            const row_fusion *rows = loaded->phases.items[0].kernel->rows;
            assert_int_equal(rows && rows->joined, cases[n].joins);
            if (cases[n].joins) assert_int_equal(rows->kernels, loaded->phases.count);
            uint32_t result = cases[n].in_place ? 0 : 1;
            memcpy(exact, run(c, loaded, CARD_EXACT, result), MEMORY);
            assert_memory_equal(exact, run(c, loaded, CARD_FAST, result), MEMORY);
            card_unload(c, loaded);
            free_program(p);
        }
        card_destroy(c);
    }
}

// Maxima that stay on one core: threads make some each.
static void shared_rows__threads_share_the_rows_of_one_core(void **state)
{
    (void)state;
    fill();
    for (uint32_t threads = 1; threads <= 3; threads++) {
        card *c = card_with_threads(threads);
        isa_program *p = new_program(2);
        make_maxima(p, MOST_ROWS);
        begin_kernel(p, 1, 0);
        isa_operand values = in_lx(VALUES, DL16), out = in_memory(1, ISA_NO_SLOT, 0, DL16);
        isa_instruction *store = emit_flat(p, ISA_STORE, MOST_ROWS, 2,
                                           (isa_operand[]){out, values});
        store->operand[1].stride[0] = 128;
        end_kernel(p);
        emit(p, ISA_HALT);
        card_program *loaded;
        assert_ok(card_load(c, p, &loaded));
        card_program_forget_lx(loaded);
        const row_fusion *made = loaded->phases.items[0].kernel->rows;
        assert_non_null(made);
        assert_true(made->divisible && made->block < MOST_ROWS);
        memcpy(exact, run(c, loaded, CARD_EXACT, 1), MEMORY);
        assert_memory_equal(exact, run(c, loaded, CARD_FAST, 1), MEMORY);
        card_unload(c, loaded);
        free_program(p);
        card_destroy(c);
    }
}

// Rows plus one number, from memory to memory.
static isa_program *sums_with_a_number(uint32_t rows)
{
    isa_program *p = new_program(2);
    isa_operand number = in_lx(VALUES, FP32), stage = in_lx(STAGE, DL16);
    isa_operand result = in_lx(RESULT, DL16), out = in_memory(1, ISA_NO_SLOT, 0, DL16);
    begin_kernel(p, 1, 0);
    load_rows(p, rows, ISA_NO_SLOT);
    emit_flat(p, ISA_FILL, 1, 1, &number)->constant[0] = 0.5f;
    const isa_operand operands[] = {result, stage, number};
    isa_instruction *add = emit_rows(p, ISA_VECTOR, rows, 3, operands);
    add->op = OPFUNC_ADD;
    memset(add->operand[2].stride, 0, sizeof add->operand[2].stride);
    emit_rows(p, ISA_VECTOR, rows, 2, (isa_operand[]){stage, result})->op = OPFUNC_NEG;
    signal_to(p, ISA_QUEUE_SFP, 0);
    wait_for(p, ISA_QUEUE_STORE, 0);
    emit_flat(p, ISA_STORE, rows * STICKS * 64, 2, (isa_operand[]){out, stage});
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

// A host thread may take the last rows, fewer than a block has, and then others of the same stage.
static void shared_rows__few_rows_may_come_first(void **state)
{
    (void)state;
    fill();
    card *c = card_with_threads(1);
    isa_program *p = sums_with_a_number(71);
    card_program *loaded;
    assert_ok(card_load(c, p, &loaded));
    card_program_forget_lx(loaded);
    const plan_phase *first = loaded->phases.items;
    const row_fusion *made = first->kernel->rows;
    assert_non_null(made);
    assert_true(made->divisible && made->block < made->rows && made->rows % made->block);
    memcpy(exact, run(c, loaded, CARD_EXACT, 1), MEMORY);
    uint8_t *result = card_memory(c, MEMORY, MEMORY);
    memset(result, 0, MEMORY);
    core_run one = {.owner = c, .kernel = first->kernel, .scratch = &c->scratch[0],
                    .arguments = arguments, .lx = card_lx(c, 0)};
    c->stages++;
    const uint32_t last = made->rows / made->block * made->block;
    rows_run(&one, made, first, (row_range){last, made->rows});
    rows_run(&one, made, first, (row_range){0, last});
    assert_memory_equal(exact, result, MEMORY);
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
}

// Of two runs of 32 lanes that lie apart, both, in all rows and sticks.
static void shared_rows__a_step_touches_both_halves_of_sticks_of_float32(void **state)
{
    (void)state;
    const row_fusion c = {.rows = 2, .sticks = 3};
    rows_step s = {.op = VECTOR_WIDE_X,
                   .place = {.space = ISA_SPACE_LX,
                             .format = FP32,
                             .offset = 1024,
                             .upper = 4096,
                             .row = nested_strides_even(2, 128),
                             .stick = nested_strides_even(3, 512)}};
    assert_true(rows_step_in_lx(&s));
    byte_range all = rows_step_range(&c, &s);
    assert_int_equal(all.low, 1024);
    assert_int_equal(all.high, 1024 + 4096 + 128 + 2 * 512 + 128);
    s.place.own = true;
    assert_false(rows_step_in_lx(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_rows__rows_that_messages_hand_out),
        cmocka_unit_test(shared_rows__threads_share_the_rows_of_one_core),
        cmocka_unit_test(shared_rows__few_rows_may_come_first),
        cmocka_unit_test(shared_rows__a_step_touches_both_halves_of_sticks_of_float32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
