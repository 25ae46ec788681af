// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "graph/expr/expr.h"

typedef struct {
    arena *memory;
    expr_table *table;
    expr_id s, t; // s in 2..64 by 2, t in 0..9
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f.memory = arena_create();
    f.table = expr_table_create(f.memory);
    f.s = expr_symbol(f.table, "s", 2, 64, 2);
    f.t = expr_symbol(f.table, "t", 0, 9, 1);
    *state = &f;
    return f.s == EXPR_NONE || f.t == EXPR_NONE;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    arena_destroy(f->memory);
    return 0;
}

static expr_id parse(fixture *f, const char *source)
{
    scanner in = scan_start(f->memory, source, "expr");
    expr_id e = expr_parse(f->table, &in);
    if (e != EXPR_NONE) assert_string_equal(in.at, "");
    return e;
}

static void assert_prints(fixture *f, expr_id e, const char *expected)
{
    text printed = {0};
    expr_print(f->table, e, &printed);
    assert_string_equal(text_string(&printed), expected);
    assert_int_equal(parse(f, expected), e);
    text_free(&printed);
}

static void assert_simplifies(fixture *f, const char *source, const char *expected)
{
    assert_prints(f, parse(f, source), expected);
}

static void expr__constants_fold(void **state)
{
    fixture *f = *state;
    assert_simplifies(f, "(2 + 3*4 - 20)", "-6");
    assert_simplifies(f, "(-7 // 2)", "-4");
    assert_simplifies(f, "(-7 % 2)", "1");
    assert_simplifies(f, "(7 % -2)", "-1");
    assert_simplifies(f, "ceildiv(-7, 2)", "-3");
    assert_simplifies(f, "ceildiv(7, 2)", "4");
    int64_t value;
    assert_true(expr_is_constant(f->table, parse(f, "(6 // 2)"), &value));
    assert_int_equal(value, 3);
    assert_false(expr_is_constant(f->table, f->s, &value));
}

static void expr__equal_sums_have_equal_ids(void **state)
{
    fixture *f = *state;
    assert_int_equal(parse(f, "(s + 1 + t)"), parse(f, "(t + s + 1)"));
    assert_int_equal(parse(f, "((s + 1)*(s - 1))"), parse(f, "(s*s - 1)"));
    assert_int_equal(parse(f, "(s*t*2)"), parse(f, "(t*2*s)"));
    assert_int_equal(parse(f, "(s - s)"), parse(f, "0"));
    assert_int_equal(parse(f, "(0*s)"), parse(f, "0"));
}

static void expr__prints_one_form(void **state)
{
    fixture *f = *state;
    assert_simplifies(f, "(1 + s)", "(s + 1)");
    assert_simplifies(f, "(t*s)", "(s*t)");
    assert_simplifies(f, "(s - 2*t*t + -1*t)", "(-2*t*t + s - t)");
    assert_simplifies(f, "(s % 5)", "(s % 5)");
    assert_simplifies(f, "(2*(s // 4) + 1)", "(2*(s // 4) + 1)");
    assert_simplifies(f, "ceildiv((t + 1), s)", "ceildiv((t + 1), s)");
}

static void expr__divisions_simplify(void **state)
{
    fixture *f = *state;
    assert_simplifies(f, "((4*s + 6) // 2)", "(2*s + 3)");
    assert_simplifies(f, "(s // s)", "1");
    assert_simplifies(f, "(t // t)", "(t // t)"); // t may be 0
    assert_simplifies(f, "(s // 1)", "s");
    assert_simplifies(f, "(s % 2)", "0"); // s is even
    assert_simplifies(f, "((s*t + 3) % 2)", "1");
    assert_simplifies(f, "(t % 2)", "(t % 2)");
}

static void expr__failures_give_none(void **state)
{
    fixture *f = *state;
    expr_id most = expr_constant(f->table, INT64_MAX), one = expr_constant(f->table, 1);
    assert_int_equal(expr_add(f->table, most, one), EXPR_NONE);
    assert_int_equal(expr_mul(f->table, most, parse(f, "(2*s)")), EXPR_NONE);
    assert_int_equal(parse(f, "(s // 0)"), EXPR_NONE);
    assert_int_equal(parse(f, "(s % 0)"), EXPR_NONE);
    assert_int_equal(parse(f, "(u + 1)"), EXPR_NONE);
    assert_int_equal(parse(f, "99999999999999999999"), EXPR_NONE);
    assert_int_equal(parse(f, "(s + "), EXPR_NONE);
    assert_int_equal(expr_add(f->table, EXPR_NONE, one), EXPR_NONE);
    assert_int_equal(expr_symbol(f->table, "s", 1, 64, 2), EXPR_NONE);
    assert_int_equal(expr_symbol(f->table, "v", 3, 2, 1), EXPR_NONE);
    expr_id power = f->s;
    for (int i = 0; i < 15; i++) power = expr_mul(f->table, power, f->s);
    assert_int_not_equal(power, EXPR_NONE);
    assert_int_equal(expr_mul(f->table, power, f->s), EXPR_NONE);
    expr_id chain = f->s; // whose text has parentheses for each level
    for (int i = 0; i < 31; i++) chain = expr_mod(f->table, expr_add(f->table, chain, one), f->t);
    assert_int_equal(chain, EXPR_NONE);
}

static void expr__parse_stops_behind_itself(void **state)
{
    fixture *f = *state;
    scanner in = scan_start(f->memory, "s, t", "expr");
    assert_int_equal(expr_parse(f->table, &in), f->s);
    assert_string_equal(in.at, ", t");
    in = scan_start(f->memory, "(s + u)", "expr");
    assert_int_equal(expr_parse(f->table, &in), EXPR_NONE);
    assert_string_equal(in.at, "u)");
}

static void expr__nesting_is_bounded(void **state)
{
    fixture *f = *state;
    char source[402];
    memset(source, '(', 400);
    memcpy(source + 400, "s", 2);
    assert_int_equal(parse(f, source), EXPR_NONE);
}

static void expr__copies_between_tables(void **state)
{
    fixture *f = *state;
    expr_table *other = expr_table_create(f->memory);
    expr_id unrelated = expr_symbol(other, "z", 1, 5, 1);
    assert_int_not_equal(unrelated, EXPR_NONE);
    expr_id e = parse(f, "(s*t - 3*(s // 4) + (t % 3))");
    expr_id copy = expr_copy(other, f->table, e);
    text here = {0}, there = {0};
    expr_print(f->table, e, &here);
    expr_print(other, copy, &there);
    assert_string_equal(text_string(&here), text_string(&there));
    assert_int_equal(expr_symbol_at(other, 1)->granularity, 2);
    text_free(&here);
    text_free(&there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(expr__constants_fold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expr__equal_sums_have_equal_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expr__prints_one_form, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expr__divisions_simplify, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expr__failures_give_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expr__parse_stops_behind_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expr__nesting_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expr__copies_between_tables, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
