// SPDX-License-Identifier: Apache-2.0
//
// The language of pattern.def; what the rows find is in tests/golden/prepare/patterns.graph and
// tests/python/test_patterns.py.
#include "unit/check.h"

#include "graph/aten.h"
#include "graph/pattern/pattern.h"

static void pattern__all_rows_can_be_read(void **state)
{
    (void)state;
    const pattern *patterns, *again;
    uint32_t count;
    assert_ok(pattern_table(&patterns, &count));
    assert_ok(pattern_table(&again, &count));
    assert_ptr_equal(patterns, again);
    assert_true(count >= 10);
    for (uint32_t i = 0; i < count; i++) {
        aten_op op;
        assert_true(aten_named(patterns[i].becomes.op, &op));
        assert_true(patterns[i].node_count >= 2);
    }
}

static void pattern__a_row_is_read_as_written(void **state)
{
    (void)state;
    arena *memory = arena_create();
    pattern p;
    assert_ok(pattern_parse("p",
                            "%m = aten.mean.dim(%x, [-1], true, _)\n"
                            "%y = aten.add.Tensor(%m, $e, 1)\n"
                            "if row(%m, %x)\n"
                            "becomes aten.rms_norm.default(%x, [$last(%x)], none, $inverse($e))\n",
                            memory, &p));
    assert_int_equal(p.node_count, 2);
    assert_int_equal(p.condition_count, 1);
    assert_int_equal(p.nodes[0].args[1].literal.of.list.items[0].of.integer, -1);
    assert_int_equal(p.nodes[0].args[3].kind, PATTERN_ANY);
    assert_int_equal(p.nodes[1].args[0].name, p.nodes[0].result);
    assert_int_equal(p.becomes.args[1].kind, PATTERN_LAST);
    assert_true(p.becomes.args[1].listed);
    assert_int_equal(p.becomes.args[3].kind, PATTERN_INVERSE);
    assert_int_equal(p.becomes.args[3].name, p.nodes[1].args[1].name);
    arena_destroy(memory);
}

static void pattern__mistakes_have_a_place(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "p:1:1: a pattern needs nodes"},
        {"%y = aten.exp.default(%x)\n", "a pattern needs nodes"},
        {"becomes aten.exp.default(%x)\n", "a pattern needs nodes"},
        {"%y aten.exp.default(%x)\n", "p:1:4: expected '='"},
        {"%y = aten.exp.default(%x\n", "expected ')'"},
        {"%y = aten.exp.default(?)\n", "expected a number"},
        {"%y = aten.exp.default(%x) %z\n", "expected the end of the line"},
        {"%y = aten.cat.default([%a %b], 1)\n", "p:1:27: expected ','"},
        {"%y = aten.exp.default(%x)\nif row(%x)\n", "no condition row of 1 tensors"},
        {"%y = aten.exp.default(%x)\nif near(%x, %y)\n", "no condition near of 2 tensors"},
        {"%y = aten.exp.default(%a, %a, %a, %a, %a, %a, %a, %a, %a)\n", "more than 8 arguments"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        arena *memory = arena_create();
        pattern p;
        assert_error(pattern_parse("p", wrong[i][0], memory, &p), SPYRE_INVALID_FORMAT,
                     wrong[i][1]);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pattern__all_rows_can_be_read),
        cmocka_unit_test(pattern__a_row_is_read_as_written),
        cmocka_unit_test(pattern__mistakes_have_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
