// SPDX-License-Identifier: Apache-2.0
//
// Tiles in loops and behind them, as row fusions collect them.
#include "row_fusion_programs.h"

// All of a buffer in seven tiles, two by two in a loop of three and one behind them; with `gap`
// bytes more from pair to pair it is not all.
static void seven_tiles(isa_program *p, const shape *tile, int64_t gap)
{
    const layout layouts[ISA_MAX_OPERANDS] = {WHOLE, WHOLE};
    const int64_t step = 128 * (int64_t)(tile->rows * tile->sticks);
    isa_operand operand[] = {buffer(1), buffer(0)};
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = 3;
    emit(p, ISA_LOOP)->count = 2;
    isa_instruction *i = emit_whole(p, tile, OPFUNC_ABS, 2, operand, layouts, false);
    for (uint32_t o = 0; o < 2; o++) {
        i->operand[o].loop_stride[0] = 2 * step + gap;
        i->operand[o].loop_stride[1] = step;
        operand[o].offset += 6 * step;
    }
    emit(p, ISA_END_LOOP);
    emit(p, ISA_END_LOOP);
    emit_whole(p, tile, OPFUNC_ABS, 2, operand, layouts, false);
    end_kernel(p);
}

static void collect_tiles__loops_and_what_stands_behind_are_one(void **state)
{
    (void)state;
    const shape whole = {14, 2, false, 2, false, false, 0, 0};
    const shape tile = {2, 2, false, 2, false, false, 0, 0};
    for (int64_t gap = 0; gap <= 256; gap += 128) {
        isa_program *p = new_program(1);
        fill_memory();
        copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
        seven_tiles(p, &tile, gap);
        begin_kernel(p, 1, 0);
        emit_whole(p, &whole, OPFUNC_WHERE3, 4,
                   (isa_operand[]){buffer(2), buffer(1), buffer(0), buffer(1)},
                   (layout[ISA_MAX_OPERANDS]){WHOLE, WHOLE, WHOLE, WHOLE}, false);
        end_kernel(p);
        copy_kernel(p, ISA_STORE, 0, 0, BUFFERS * BUFFER_BYTES);
        emit(p, ISA_HALT);
        assert_int_equal(check(p, 0), gap == 0);
        free_program(p);
    }
}

// Two of three sticks, and the last one, whose input lies so many bytes further on.
static void two_sticks_and_one(isa_program *p, const shape *whole, int64_t gap)
{
    const layout layouts[ISA_MAX_OPERANDS] = {WHOLE, WHOLE};
    isa_operand operand[] = {buffer(1), buffer(0)};
    begin_kernel(p, 1, 0);
    emit_whole(p, whole, OPFUNC_ABS, 2, operand, layouts, false)->extent[0] = 2;
    for (uint32_t o = 0; o < 2; o++) operand[o].offset += 2 * 128 * (int64_t)whole->rows;
    operand[1].offset += gap;
    emit_whole(p, whole, OPFUNC_ABS, 2, operand, layouts, false)->extent[0] = 1;
    end_kernel(p);
}

static void collect_tiles__what_is_left_of_a_dim_is_part_of_it(void **state)
{
    (void)state;
    const shape whole = {14, 3, true, 2, false, false, 0, 0};
    for (int64_t gap = 0; gap <= 256; gap += 128) {
        isa_program *p = new_program(1);
        fill_memory();
        copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
        two_sticks_and_one(p, &whole, gap);
        begin_kernel(p, 1, 0);
        emit_whole(p, &whole, OPFUNC_ADD, 3, (isa_operand[]){buffer(2), buffer(1), buffer(1)},
                   (layout[ISA_MAX_OPERANDS]){WHOLE, WHOLE, WHOLE}, false);
        end_kernel(p);
        copy_kernel(p, ISA_STORE, 0, 0, BUFFERS * BUFFER_BYTES);
        emit(p, ISA_HALT);
        assert_int_equal(check(p, 0), gap == 0);
        free_program(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collect_tiles__loops_and_what_stands_behind_are_one),
        cmocka_unit_test(collect_tiles__what_is_left_of_a_dim_is_part_of_it),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
