// SPDX-License-Identifier: Apache-2.0
#include "unit/bundle/golden.h"

#include "bundle/files.h"

// add_scalar with 4 rows on two cores, of which a launch may choose 2.
static bundle *open_rows(arena *memory)
{
    bundle *b = golden_add_scalar(memory);
    bundle_symbol rows = {.name = "rows", .granularity = 2, .most = 4};
    assert_ok(VEC_PUSH(memory, &b->symbols, rows));
    b->steps.items[0].symbol[0] = 1;
    b->steps.items[0].symbol_size[0] = (bundle_symbol_size){rows.most, rows.granularity};
    return b;
}

static void symbols__slices_begin_where_the_size_says(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = open_rows(memory), *bound;
    const bundle_step *whole = &b->steps.items[0];
    assert_ok(bundle_bind(memory, b, (const int64_t[]){4}, &bound));
    for (uint32_t t = 0; t < 3; t++)
        assert_int_equal(bundle_start(&bound->steps.items[0].tensors[t], 1),
                         bundle_start(&whole->tensors[t], 1));
    assert_ok(bundle_bind(memory, b, (const int64_t[]){2}, &bound));
    const bundle_step *step = &bound->steps.items[0];
    assert_int_equal(step->size[0], 2);
    assert_int_equal(bundle_start(&step->tensors[0], 1), bundle_start(&whole->tensors[0], 1) / 2);
    assert_int_equal(bundle_start(&step->tensors[1], 1), bundle_start(&whole->tensors[1], 1));
    assert_int_equal(whole->size[0], 4);
    bundle_geometry narrow, wide;
    assert_ok(bundle_tensor_geometry(bound, step, 0, &narrow));
    assert_ok(bundle_tensor_geometry(b, whole, 0, &wide));
    assert_int_equal(2 * narrow.stride[1], wide.stride[1]);
    arena_destroy(memory);
}

// Four rows less than the size has.
static void symbols__sizes_that_are_sums(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = open_rows(memory), *bound;
    b->symbols.items[0].most = 8;
    assert_ok(bundle_bind(memory, b, (const int64_t[]){8}, &bound));
    assert_int_equal(bound->steps.items[0].size[0], 4);
    assert_ok(bundle_bind(memory, b, (const int64_t[]){6}, &bound));
    assert_int_equal(bound->steps.items[0].size[0], 2);
    assert_error(bundle_bind(memory, b, (const int64_t[]){4}, &bound), SPYRE_INVALID_ARGUMENT,
                 "dim mb has 0 strides");
    arena_destroy(memory);
}

static void symbols__refusals(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = open_rows(memory), *bound;
    static const int64_t refused[] = {0, 1, 3, 6, -2};
    for (size_t n = 0; n < sizeof refused / sizeof *refused; n++)
        assert_error(bundle_bind(memory, b, &refused[n], &bound), SPYRE_INVALID_ARGUMENT,
                     "possible are multiples of 2 up to 4");
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols__slices_begin_where_the_size_says),
        cmocka_unit_test(symbols__sizes_that_are_sums),
        cmocka_unit_test(symbols__refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
