// SPDX-License-Identifier: Apache-2.0
//
// Large copies of one core alone, in a loop or not, by several host threads: the bytes of exact
// mode, also where iterations write over each other. What is in parts, and what is not.
#include "fast_against_exact.h"

#include "card/plan.h"
#include "support/rounds.h"

enum {
    LANES = 64, STICK = LANES * 2, STICKS = 4096,   // of all tiles of a kernel, at least
    AREA = 4 * STICKS * STICK, MOST_TILES = 3, MOST_LOOPS = 9,
};

typedef struct {
    uint32_t loops, tiles, rows;            // rows of a tile, a stick each
    int64_t row_step, from, to, from_step, to_step;
} shape;

static void set_dims(isa_instruction *i, const shape *s, int64_t memory_step)
{
    const int64_t lx_step = (int64_t)s->tiles * s->rows * STICK;
    i->dim_count = 2;
    i->extent[0] = s->rows;
    i->extent[1] = LANES;
    i->operand_count = 2;
    for (uint32_t o = 0; o < 2; o++) {
        const bool memory = i->operand[o].space == ISA_SPACE_MEMORY;
        i->operand[o].stride[0] = memory ? s->row_step : STICK;
        i->operand[o].stride[1] = 2;
        if (s->loops > 1) i->operand[o].loop_stride[0] = memory ? memory_step : lx_step;
    }
}

static void copy_tile(isa_program *p, const shape *s, uint16_t n)
{
    const int64_t bytes = s->rows * s->row_step, lx = n * (int64_t)s->rows * STICK;
    isa_instruction *load = emit(p, ISA_LOAD);
    load->operand[0] = in_lx(lx, DL16);
    load->operand[1] = in_memory(0, 0, s->from + n * bytes, DL16);
    set_dims(load, s, s->from_step);
    signal_to(p, ISA_QUEUE_LOAD, n);
    wait_for(p, ISA_QUEUE_STORE, n);
    isa_instruction *store = emit(p, ISA_STORE);
    store->operand[0] = in_memory(0, 0, s->to + n * bytes, DL16);
    store->operand[1] = in_lx(lx, DL16);
    set_dims(store, s, s->to_step);
}

static void copy_kernel(isa_program *p, const shape *s, uint32_t core)
{
    begin_kernel(p, 1u << core, 1)[core] = STICK;
    if (s->loops > 1) emit(p, ISA_LOOP)->count = s->loops;
    for (uint16_t n = 0; n < s->tiles; n++) copy_tile(p, s, n);
    if (s->loops > 1) emit(p, ISA_END_LOOP);
    end_kernel(p);
}

static shape shape_of(uint32_t loops, uint32_t tiles)
{
    shape s = {.loops = loops, .tiles = tiles, .rows = STICKS / (loops * tiles) + 1,
               .row_step = STICK, .to = AREA};
    s.from_step = s.to_step = (int64_t)s.tiles * s.rows * STICK;
    return s;
}

static void add_kernels(isa_program *p, uint64_t *seed)
{
    shape s = shape_of(1 + next_random(seed) % MOST_LOOPS, 1 + next_random(seed) % MOST_TILES);
    if (next_random(seed) % 2) s.row_step = 2 * STICK, s.from_step *= 2, s.to_step *= 2;
    if (next_random(seed) % 4 == 0) s.to_step = (int64_t)(next_random(seed) % 64) * STICK;
    copy_kernel(p, &s, next_random(seed) % ISA_CORES);
}

static void core_parts__random_copies_keep_their_bytes(void **state)
{
    (void)state;
    check_random_programs(&(random_programs){add_kernels, .seed = 31, .memory_bytes = 2 * AREA,
                                             .most_threads = 3, .programs = test_rounds(12)});
}

// Parts of the only kernel on so many threads; 0: it is whole.
static uint32_t parts_of(const shape *s, uint32_t threads)
{
    card *c = card_with_threads(threads);
    card_program *loaded;
    isa_program *p = new_program(1);
    copy_kernel(p, s, 7);
    emit(p, ISA_HALT);
    assert_ok(card_load(c, p, &loaded));
    card_program_forget_lx(loaded);
    const plan_stage *stage = loaded->phases.items[0].stage;
    const bool parted = stage && stage->actions.items[0].parts;
    const uint32_t parts = parted ? (uint32_t)__builtin_popcount(stage->cores) : 0;
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
    return parts;
}

static void core_parts__needs_iterations_that_part(void **state)
{
    (void)state;
    shape s = shape_of(8, 2);
    assert_int_equal(parts_of(&s, 2), 4);
    assert_int_equal(parts_of(&s, 1), 0);
    s.to_step -= STICK;                     // the next iteration writes over the last one
    assert_int_equal(parts_of(&s, 2), 0);
    s = shape_of(8, 2);
    s.to = AREA / 8;                        // what is read
    assert_int_equal(parts_of(&s, 2), 0);
    s = shape_of(1, 1);
    assert_int_equal(parts_of(&s, 3), 6);
    s.rows /= 4;
    assert_int_equal(parts_of(&s, 3), 0);
    s = shape_of(3, 1);
    assert_int_equal(parts_of(&s, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_parts__random_copies_keep_their_bytes),
        cmocka_unit_test(core_parts__needs_iterations_that_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
