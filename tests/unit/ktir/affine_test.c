// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "ktir/parse/parse.h"

static const ktir_set *set_of(arena *memory, const char *source)
{
    static ktir_module m;
    parser p = {.memory = memory, .m = &m};
    const ktir_set *set;
    assert_ok(lexer_start(&p.l, "set", source, strlen(source)));
    assert_ok(parse_set(&p, &set));
    return set;
}

static void assert_box(const char *source, int64_t symbol, int64_t least, int64_t most)
{
    arena *memory = arena_create();
    int64_t low[KTIR_MOST_RANK], high[KTIR_MOST_RANK];
    assert_true(ktir_set_box(set_of(memory, source), &symbol, low, high));
    assert_int_equal(low[0], least);
    assert_int_equal(high[0], most);
    arena_destroy(memory);
}

static void affine__boxes(void **state)
{
    (void)state;
    assert_box("affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>", 0, 0, 31);
    assert_box("affine_set<(d0)[s0] : (d0 - s0 >= 0, -d0 + 2 * s0 - 1 >= 0)>", 16, 16, 31);
    assert_box("affine_set<(d0) : (d0 == 5)>", 0, 5, 5);
    assert_box("affine_set<(d0) : (2 * d0 - 3 >= 0, -3 * d0 + 10 >= 0)>", 0, 2, 3);
    assert_box("affine_set<(d0)[s0] : (d0 >= 0, d0 <= 3, s0 >= 1)>", 0, 0, -1);
}

// Bounds of a dim that follow from another dim's; none where a dim has no end.
static void affine__bounds_of_any_set(void **state)
{
    (void)state;
    arena *memory = arena_create();
    static const struct {
        const char *set;
        int64_t least[2], most[2];
    } cases[] = {
        {"affine_set<(d0, d1) : (d0 >= 0, d0 <= 63, d1 >= 0, d0 - d1 >= 0)>", {0, 0}, {63, 63}},
        {"affine_set<(d0, d1) : (d1 - d0 - 2 >= 0, d0 + d1 <= 9, d0 >= 1)>", {1, 3}, {6, 8}},
        {"affine_set<(d0, d1) : (d0 >= 0, d0 <= 4, d1 - 3 * d0 - 1 == 0)>", {0, 1}, {4, 13}},
        {"affine_set<(d0, d1) : (d0 >= 2, 6 - 2 * d0 - d1 >= 0, d1 >= 0)>", {2, 0}, {3, 2}},
    };
    int64_t low[KTIR_MOST_RANK], high[KTIR_MOST_RANK];
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        assert_true(ktir_set_bounds(set_of(memory, cases[n].set), low, high));
        for (uint32_t d = 0; d < 2; d++) {
            assert_int_equal(low[d], cases[n].least[d]);
            assert_true(high[d] >= cases[n].most[d]);
        }
    }
    assert_false(ktir_set_bounds(
        set_of(memory, "affine_set<(d0, d1) : (d0 >= 0, d1 - d0 >= 0)>"), low, high));
    arena_destroy(memory);
}

static void affine__what_is_no_box(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "affine_set<(d0) : (d0 >= 0)>",
        "affine_set<(d0) : (d0 mod 2 == 0, d0 >= 0, d0 <= 9)>",
        "affine_set<(d0, d1) : (d0 >= 0, d0 <= 9, d1 >= 0, d0 - d1 >= 0)>",
    };
    arena *memory = arena_create();
    int64_t low[KTIR_MOST_RANK], high[KTIR_MOST_RANK];
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        assert_false(ktir_set_box(set_of(memory, sets[i]), NULL, low, high));
    arena_destroy(memory);
}

// The box of a set of one dim has the points that the set holds, for random constraints.
static void affine__boxes_hold_what_sets_hold(void **state)
{
    (void)state;
    uint64_t random = 9;
    for (int round = 0; round < 300; round++) {
        arena *memory = arena_create();
        long factor = (long)(check_random(&random) % 9) - 4;
        long rest = (long)(check_random(&random) % 41) - 20;
        const char *source = arena_printf(memory, "affine_set<(d0) : (d0 >= -30, d0 <= 30, "
                                                  "%ld * d0 + %ld %s 0)>",
                                          factor, rest, check_random(&random) % 4 ? ">=" : "==");
        const ktir_set *set = set_of(memory, source);
        int64_t low[KTIR_MOST_RANK], high[KTIR_MOST_RANK];
        assert_true(ktir_set_box(set, NULL, low, high));
        for (int64_t d = -40; d <= 40; d++)
            assert_int_equal(ktir_set_holds(set, &d), d >= low[0] && d <= high[0]);
        arena_destroy(memory);
    }
}

static void affine__values(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const ktir_set *set = set_of(memory, "affine_set<(d0)[s0] : (d0 mod 4 - 1 == 0, "
                                         "d0 floordiv 4 + s0 == 0, d0 ceildiv 4 + s0 == 1)>");
    int64_t names[] = {-7, 2};
    assert_true(ktir_set_holds(set, names));
    names[0] = -8;
    assert_false(ktir_set_holds(set, names));
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(affine__boxes),
        cmocka_unit_test(affine__bounds_of_any_set),
        cmocka_unit_test(affine__what_is_no_box),
        cmocka_unit_test(affine__boxes_hold_what_sets_hold),
        cmocka_unit_test(affine__values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
