// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "mlir/lexer.h"

static void start(lexer *l, const char *source)
{
    assert_ok(lexer_start(l, "f", source, strlen(source)));
}

static void lexer__kinds(void **state)
{
    (void)state;
    static const struct {
        token_kind kind;
        const char *text;
    } expected[] = {
        {TOKEN_WORD, "%a"},      {TOKEN_SIGN, ":"},       {TOKEN_NUMBER, "2"},
        {TOKEN_SIGN, "="},       {TOKEN_WORD, "arith.addi"}, {TOKEN_NUMBER, "-3"},
        {TOKEN_SIGN, "->"},      {TOKEN_REAL, "1.25e-01"}, {TOKEN_NUMBER, "0xFC00"},
        {TOKEN_STRING, "a b"},   {TOKEN_WORD, "^bb0"},    {TOKEN_SIGN, "?"},
    };
    lexer l;
    start(&l, "%a:2 = arith.addi -3 -> 1.25e-01 0xFC00 // c\n \"a b\" ^bb0 ?");
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(l.now.kind, expected[i].kind);
        assert_true(token_is(&l.now, expected[i].text));
        assert_ok(lexer_next(&l));
    }
    assert_int_equal(l.now.kind, TOKEN_END);
}

static void lexer__numbers(void **state)
{
    (void)state;
    lexer l;
    start(&l, "0xFFFFFFFFFFFFFFFF -2.5 9223372036854775807 1.x");
    assert_int_equal(l.now.number, -1);
    assert_ok(lexer_next(&l));
    assert_true(l.now.real == -2.5);
    assert_ok(lexer_next(&l));
    assert_true(l.now.number == INT64_MAX);
    assert_ok(lexer_next(&l));
    assert_true(token_is(&l.now, "1"));
    assert_error(lexer_start(&l, "f", "\n  9223372036854775808", 22), SPYRE_INVALID_FORMAT,
                 "f:2:3: a number beyond 64 bits");
    assert_error(lexer_start(&l, "f", "\n  0x10000000000000000", 23), SPYRE_INVALID_FORMAT,
                 "f:2:3: a number beyond 64 bits");
}

static void lexer__places(void **state)
{
    (void)state;
    lexer l;
    start(&l, "a\n\t bc // d\n   e");
    assert_int_equal(l.now.column, 1);
    assert_ok(lexer_next(&l));
    assert_int_equal(l.now.line, 2);
    assert_int_equal(l.now.column, 3);
    assert_ok(lexer_next(&l));
    assert_int_equal(l.now.line, 3);
    assert_int_equal(l.now.column, 4);
    assert_error(lexer_expect(&l, "f"), SPYRE_INVALID_FORMAT, "f:3:4: expected 'f', found 'e'");
    assert_error(lexer_start(&l, "f", " \"x\n", 4), SPYRE_INVALID_FORMAT,
                 "f:1:2: a string without an end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lexer__kinds),
        cmocka_unit_test(lexer__numbers),
        cmocka_unit_test(lexer__places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
