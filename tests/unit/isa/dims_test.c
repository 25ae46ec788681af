// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "isa/dims.h"

// [3, 8] of two operands, the second of which repeats the same 8 elements; in a loop.
static isa_instruction begin(void)
{
    return (isa_instruction){
        .opcode = ISA_VECTOR, .operand_count = 2, .dim_count = 2, .extent = {3, 8},
        .operand = {{.stride = {16, 2}, .loop_stride = {48}},
                    {.stride = {0, 2}, .loop_stride = {0}}}};
}

static void assert_dims(const isa_instruction *i, uint32_t count, const uint32_t *extent,
                        const int64_t *first, const int64_t *second)
{
    assert_int_equal(i->dim_count, count);
    assert_memory_equal(i->extent, extent, count * sizeof *extent);
    assert_memory_equal(i->operand[0].stride, first, count * sizeof *first);
    assert_memory_equal(i->operand[1].stride, second, count * sizeof *second);
}

static void dims__insert_and_remove(void **state)
{
    (void)state;
    isa_instruction i = begin(), before = begin();
    isa_insert_dim(&i, 1, 5);
    assert_dims(&i, 3, (uint32_t[]){3, 5, 8}, (int64_t[]){16, 0, 2}, (int64_t[]){0, 0, 2});
    isa_remove_dim(&i, 1);
    assert_memory_equal(&i, &before, sizeof i);
    isa_remove_dim(&i, 1);
    assert_dims(&i, 1, (uint32_t[]){3}, (int64_t[]){16}, (int64_t[]){0});
}

static void dims__split(void **state)
{
    (void)state;
    isa_instruction i = begin();
    isa_split_dim(&i, 1, 2);
    assert_dims(&i, 3, (uint32_t[]){3, 4, 2}, (int64_t[]){16, 4, 2}, (int64_t[]){0, 4, 2});
}

static void dims__single_dims_make_room(void **state)
{
    (void)state;
    isa_instruction i = begin();
    for (uint32_t n = 0; n < 3; n++) isa_insert_dim(&i, n, 1);
    isa_insert_dim(&i, i.dim_count, 1);
    isa_remove_single_dims(&i);
    assert_dims(&i, 3, (uint32_t[]){3, 8, 1}, (int64_t[]){16, 2, 0}, (int64_t[]){0, 2, 0});
}

static void dims__a_loop_becomes_the_outermost_dim(void **state)
{
    (void)state;
    isa_instruction i = begin(), once = begin();
    assert_true(isa_absorb_loop(&i, 0, 4));
    assert_dims(&i, 3, (uint32_t[]){4, 3, 8}, (int64_t[]){48, 16, 2}, (int64_t[]){0, 0, 2});
    assert_int_equal(i.operand[0].loop_stride[0], 0);
    assert_true(isa_absorb_loop(&once, 0, 1));
    assert_int_equal(once.dim_count, 2);
    assert_int_equal(once.operand[0].loop_stride[0], 0);
    while (i.dim_count < ISA_MAX_DIMS) isa_insert_dim(&i, 0, 2);
    assert_false(isa_absorb_loop(&i, 0, 2));
}

static void dims__what_is_alike(void **state)
{
    (void)state;
    isa_instruction a = begin(), b = begin();
    isa_split_dim(&b, 1, 2);
    b.operand[0].offset = 64;
    assert_true(isa_same_work(&a, &b));
    assert_true(isa_same_memory(&a.operand[0], &b.operand[0]));
    b.operand[0].loop_stride[0]++;
    b.constant[0] = 1.0f;
    assert_false(isa_same_work(&a, &b));
    assert_false(isa_same_memory(&a.operand[0], &b.operand[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dims__insert_and_remove),
        cmocka_unit_test(dims__split),
        cmocka_unit_test(dims__single_dims_make_room),
        cmocka_unit_test(dims__a_loop_becomes_the_outermost_dim),
        cmocka_unit_test(dims__what_is_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
