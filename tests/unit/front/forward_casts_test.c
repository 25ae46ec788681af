// SPDX-License-Identifier: Apache-2.0
//
// What a sum in float32 reads. Random chains of casts are in fuse_norms_test.c.
#include "unit/check.h"

#include "support/front_case.h"
#include "support/random_plan.h"

// Casts to float32 that are left of %w, which is x in float32, and `rest`.
static uint32_t count_casts(const char *rest)
{
    char source[1024];
    spyre_settings settings = spyre_settings_default();
    spyre_graph *graph;
    loop_graph *loops;
    arena *memory = arena_create();
    snprintf(source, sizeof source,
             "input %%x: f16[5, 70]\ninput %%y: f32[5, 70]\n"
             "%%w = aten._to_copy.default(%%x, f32, none, none, none, false, none) -> f32[5, 70]\n"
             "%s",
             rest);
    assert_ok(random_plan_read(source, "case.graph", &settings, memory, &graph, &loops));
    uint32_t casts = front_case_count(loops, OPFUNC_DL16TOFP32);
    spyre_graph_destroy(graph);
    arena_destroy(memory);
    return casts;
}

static void forward_casts__readers_read_16_bits(void **state)
{
    (void)state;
    assert_int_equal(count_casts("%d = aten.mul.Tensor(%w, %w) -> f32[5, 70]\nreturn %d\n"), 0);
    assert_int_equal(count_casts("%m = aten.sum.dim_IntList(%w, [1], true) -> f32[5, 1]\n"
                                 "%d = aten.sub.Tensor(%w, %m) -> f32[5, 70]\n"
                                 "%e = aten.add.Tensor(%y, %w) -> f32[5, 70]\nreturn %d, %e\n"),
                     0);
    assert_int_equal(count_casts("%c = aten.gt.Scalar(%x, 1) -> bool[5, 70]\n"
                                 "%d = aten.where.self(%c, %y, %w) -> f32[5, 70]\nreturn %d\n"),
                     0);
    // In other loops than the cast, which leaves elements where they are: every second one, a row.
    assert_int_equal(count_casts("%v = aten.slice.Tensor(%w, 1, 0, 70, 2) -> f32[5, 35]{70, 2}\n"
                                 "%e = aten.mul.Tensor(%v, %v) -> f32[5, 35]\nreturn %e\n"),
                     0);
    assert_int_equal(count_casts("%r = aten.select.int(%w, 0, 2) -> f32[70]{1}+140\n"
                                 "%e = aten.mul.Tensor(%y, %r) -> f32[5, 70]\nreturn %e\n"),
                     0);
}

static void forward_casts__others_keep_the_cast(void **state)
{
    (void)state;
    assert_int_equal(count_casts("%d = aten.exp.default(%w) -> f32[5, 70]\n"
                                 "%e = aten.mul.Tensor(%w, %y) -> f32[5, 70]\nreturn %d, %e\n"),
                     1);
    assert_int_equal(count_casts("%e = aten.mul.Tensor(%w, %y) -> f32[5, 70]\nreturn %w, %e\n"),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_casts__readers_read_16_bits),
        cmocka_unit_test(forward_casts__others_keep_the_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
