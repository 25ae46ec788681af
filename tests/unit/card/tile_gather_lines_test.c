// SPDX-License-Identifier: Apache-2.0
//
// Elements of lines of a table, each named by its own index: random tables, formats, orders of dims
// and lengths leave the bytes of element-by-element execution. Long lines of which much is taken
// are copied before; others are not.
#include "one_card.h"
#include "program.h"
#include "support/rounds.h"

enum {
    MOST_LINES = 12, MOST_STICKS = 40, MOST_TAKEN = 5,      // sticks
    TABLE = MOST_LINES * MOST_STICKS * 128,
    INDEX = MOST_LINES * MOST_TAKEN * 256,  // int32
    TAKEN = MOST_LINES * MOST_TAKEN * 256,
    IN_LX = INDEX,                          // what is taken, behind the index
    MEMORY = TABLE + INDEX + TAKEN,
};

static uint8_t initial[MEMORY], exact[MEMORY];

typedef struct {
    spyre_format format;
    uint32_t lanes, lines, sticks, rows, taken;
    bool one_index;                         // for all lines
} gather;

static uint32_t below(uint64_t *seed, uint32_t end)
{
    return next_random(seed) % end;
}

static gather random_gather(uint64_t *seed)
{
    gather g = {.format = below(seed, 2) ? DL16 : FP32};
    g.lanes = g.format == DL16 ? 64 : 32;
    g.lines = 1 + below(seed, MOST_LINES);
    g.sticks = 1 + below(seed, MOST_STICKS);
    g.rows = g.sticks * g.lanes - below(seed, g.lanes);
    g.taken = 1 + below(seed, MOST_TAKEN);
    g.one_index = below(seed, 4) == 0;
    return g;
}

// Sticks of a table's line lie as far apart as there are lines; so do those of what is taken.
static void emit_gather(isa_program *p, const gather *g, uint64_t *seed)
{
    static const uint32_t orders[2][2] = {{0, 1}, {1, 0}};
    const uint32_t *place = orders[below(seed, 2)];
    const int64_t line = g->format == DL16 ? 256 : 128;     // bytes of the index of a stick
    isa_instruction *i = emit(p, ISA_GATHER);
    i->operand_count = 3;
    i->operand[0] = in_lx(IN_LX, g->format);
    i->operand[1] = in_memory(0, ISA_NO_SLOT, 0, g->format);
    i->operand[2] = in_lx(0, SPYRE_FORMAT_IEEE_INT32);
    i->dim_count = 3;
    i->extent[place[0]] = g->taken;
    i->extent[place[1]] = g->lines;
    i->extent[2] = g->lanes;
    i->operand[0].stride[place[0]] = 128 * (int64_t)g->lines;
    i->operand[0].stride[place[1]] = 128;
    i->operand[0].stride[2] = 128 / g->lanes;
    i->operand[1].stride[place[1]] = 128;
    i->operand[2].stride[place[0]] = line * (g->one_index ? 1 : g->lines);
    i->operand[2].stride[place[1]] = g->one_index ? 0 : line;
    i->operand[2].stride[2] = 4;
    i->row_lanes = g->lanes;
    i->row_stride = 128 * (int64_t)g->lines;
    i->row_count = g->rows;
}

static isa_program *gather_program(const gather *g, uint64_t *seed)
{
    isa_program *p = new_program(3);
    const isa_operand taken = in_lx(IN_LX, g->format);
    const isa_operand index[] = {in_lx(0, SPYRE_FORMAT_IEEE_INT32),
                                 in_memory(1, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_INT32)};
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_LOAD, INDEX / 4, 2, index);
    emit_gather(p, g, seed);
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_STORE, 0);
    emit_flat(p, ISA_STORE, g->taken * g->lines * g->lanes, 2,
              (isa_operand[]){in_memory(2, ISA_NO_SLOT, 0, g->format), taken});
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

static void fill_memory(const gather *g, uint64_t *seed)
{
    for (uint32_t n = 0; n < MEMORY; n++) initial[n] = (uint8_t)next_random(seed);
    for (uint32_t n = 0; n < INDEX / 4; n++) {
        const uint32_t row = below(seed, g->rows);
        memcpy(initial + TABLE + 4 * (size_t)n, &row, sizeof row);
    }
}

static const card_argument arguments[3] = {{0, TABLE}, {TABLE, INDEX}, {TABLE + INDEX, TAKEN}};

static const uint8_t *run(card_program *loaded, card_mode mode)
{
    memcpy(card_memory(the_card, 0, MEMORY), initial, MEMORY);
    card_wipe_lx(the_card);
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, arguments, 3, NULL));
    return card_memory(the_card, 0, MEMORY);
}

static void tile_gather_lines__elements_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (uint32_t round = test_rounds(200); round > 0; round--) {
        const uint64_t start = seed;
        const gather g = random_gather(&seed);
        card_program *loaded;
        isa_program *p = gather_program(&g, &seed);
        fill_memory(&g, &seed);
        assert_ok(card_load(the_card, p, &loaded));
        card_program_forget_lx(loaded);
        memcpy(exact, run(loaded, CARD_EXACT), MEMORY);
        if (memcmp(exact, run(loaded, CARD_FAST), MEMORY))
            fail_msg("gather of seed %llu", (unsigned long long)start);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_gather_lines__elements_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
