// SPDX-License-Identifier: Apache-2.0
//
// A product whose results the next product takes in part computes that part only, unless somebody
// else, or another core, reads the rest; what is stored stays the same.
#include "one_card.h"
#include "program.h"

#include "card/plan.h"

enum {
    ROWS = 8,
    STICK = 128,
    GIVEN = 0,                              // in LX
    MADE = 8 << 10,
    RESULT = 16 << 10,
    B_AT = 24 << 10,
    SUMS = 64 << 10,
    ROWS_BYTES = ROWS * STICK,
    MEMORY = 64 << 10,
    OUT = 32 << 10,                         // in memory
};

typedef struct {
    uint32_t depth;                         // of the second product: lanes it takes of the first
    int64_t begin;                          // the byte of a stick at which it begins
    bool stored;                            // the first result, too
    bool elsewhere;                         // by a core that has no part in the second product
    spyre_format format;                    // of what the first product multiplies
    uint32_t kept;
} program_of;

static uint8_t initial[MEMORY], exact[MEMORY];

static void copy(isa_program *p, uint32_t cores, isa_opcode opcode, int64_t lx, int64_t memory,
                 uint32_t bytes)
{
    isa_operand here = in_lx(lx, DL16), there = in_memory(0, ISA_NO_SLOT, memory, DL16);
    bool loads = opcode == ISA_LOAD;
    begin_kernel(p, cores, 0);
    emit_flat(p, opcode, bytes / 2, 2,
              (isa_operand[]){loads ? here : there, loads ? there : here});
    end_kernel(p);
}

// C = A @ B, of which B comes from memory; a row of A is so many bytes.
static void multiply(isa_program *p, uint32_t cores, spyre_format format, int64_t c, int64_t a,
                     int64_t row, uint32_t depth)
{
    uint32_t lanes = spyre_format_elements_per_stick(format);
    isa_operand sums = in_lx(SUMS, FP32), b = in_lx(B_AT, format);
    begin_kernel(p, cores, 0);
    emit_flat(p, ISA_FILL, ROWS * lanes, 1, &sums);
    signal_to(p, ISA_QUEUE_SFP, 0);
    wait_for(p, ISA_QUEUE_PT, 0);
    emit_flat(p, ISA_LOAD, depth * lanes, 2,
              (isa_operand[]){b, in_memory(0, ISA_NO_SLOT, ROWS_BYTES, format)});
    signal_to(p, ISA_QUEUE_LOAD, 1);
    wait_for(p, ISA_QUEUE_PT, 1);
    isa_instruction *i = emit(p, ISA_MATMUL);
    i->dim_count = i->operand_count = 3;
    i->extent[0] = ROWS;
    i->extent[1] = 1;
    i->extent[2] = depth;
    i->operand[0] = sums;
    i->operand[1] = in_lx(a, format);
    i->operand[2] = b;
    i->operand[0].stride[0] = 4 * (int64_t)lanes;
    i->operand[1].stride[0] = row;
    i->operand[1].stride[2] = STICK;
    i->operand[2].stride[2] = STICK;
    signal_to(p, ISA_QUEUE_PT, 2);
    wait_for(p, ISA_QUEUE_SFP, 2);
    emit_flat(p, ISA_VECTOR, ROWS * lanes, 2, (isa_operand[]){in_lx(c, DL16), sums})->op =
        OPFUNC_IDENTITY;
    end_kernel(p);
}

static isa_program *make_program(const program_of *what)
{
    isa_program *p = new_program(1);
    uint32_t cores = what->elsewhere ? 3 : 1;
    int64_t row = 2 * (int64_t)spyre_format_elements_per_stick(what->format);
    copy(p, cores, ISA_LOAD, GIVEN, 0, ROWS_BYTES);
    multiply(p, cores, what->format, MADE, GIVEN, STICK, 64);
    multiply(p, 1, DL16, RESULT, MADE + what->begin, row, what->depth);
    copy(p, 1, ISA_STORE, RESULT, OUT, ROWS_BYTES);
    if (what->elsewhere) copy(p, 1, ISA_LOAD, MADE, 0, ROWS_BYTES);
    uint32_t reader = what->elsewhere ? 2 : 1;
    if (what->stored) copy(p, reader, ISA_STORE, MADE, OUT + ROWS_BYTES, ROWS_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static const uint8_t *run(card_program *loaded, card_mode mode)
{
    card_argument argument = {128, MEMORY};
    memcpy(card_memory(the_card, 128, MEMORY), initial, MEMORY);
    card_wipe_lx(the_card);
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, &argument, 1, NULL));
    return card_memory(the_card, 128, MEMORY);
}

static uint32_t kept_by(const card_program *loaded, uint32_t kernel)
{
    const plan_step *first = loaded->phases.items[kernel].kernel->steps[ISA_QUEUE_SEQ];
    assert_non_null(first);
    assert_non_null(first->tile->product);
    return first->tile->product->kept;
}

static void drop_dead_lanes__lanes_that_the_next_product_takes(void **state)
{
    (void)state;
    static const program_of cases[] = {
        {.depth = 32, .format = DL16, .kept = 32},
        {.depth = 64, .format = DL16, .kept = 64},
        {.depth = 40, .format = DL16, .kept = 64},          // no whole registers less
        {.depth = 32, .begin = 64, .format = DL16, .kept = 64},
        {.depth = 32, .stored = true, .format = DL16, .kept = 64},
        {.depth = 32, .elsewhere = true, .format = DL16, .kept = 32},
        {.depth = 32, .stored = true, .elsewhere = true, .format = DL16, .kept = 64},
        {.depth = 128, .format = SPYRE_FORMAT_SEN143_FP8, .kept = 128}, // a line is two sticks
    };
    uint64_t seed = 3;
    // Numbers of moderate size in all formats.
    for (uint32_t n = 0; n < MEMORY; n++)
        initial[n] = (uint8_t)((next_random(&seed) & 0x9F) | 0x20);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        isa_program *p = make_program(&cases[n]);
        card_program *loaded;
        assert_ok(card_load(the_card, p, &loaded));
        assert_int_equal(kept_by(loaded, 1), cases[n].kept);
        assert_int_equal(kept_by(loaded, 2), 64);
        memcpy(exact, run(loaded, CARD_EXACT), MEMORY);
        card_program_forget_lx(loaded);
        assert_memory_equal(exact, run(loaded, CARD_FAST), MEMORY);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drop_dead_lanes__lanes_that_the_next_product_takes),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
