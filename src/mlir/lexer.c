// SPDX-License-Identifier: Apache-2.0
#include "mlir/lexer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/scanner.h"

spyre_status lexer_error(const lexer *l, const token *at, const char *format, ...)
{
    char reason[256];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    return status_new(SPYRE_INVALID_FORMAT, "%s:%u:%u: %s", l->name, at->line, at->column, reason);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(lexer *l)
{
    while (l->at < l->end) {
        if (*l->at == '\n') {
            l->line++;
            l->line_start = l->at + 1;
        }
        if (*l->at == ' ' || *l->at == '\t' || *l->at == '\r' || *l->at == '\n') {
            l->at++;
        } else if (*l->at == '/' && l->end - l->at > 1 && l->at[1] == '/') {
            while (l->at < l->end && *l->at != '\n') l->at++;
        } else {
            return;
        }
    }
}

static spyre_status take_string(lexer *l)
{
    const char *start = ++l->at;
    while (l->at < l->end && *l->at != '"' && *l->at != '\n' && *l->at != '\\') l->at++;
    if (l->at == l->end || *l->at != '"') {
        return lexer_error(l, &l->now, "a string without an end");
    }
    l->now.kind = TOKEN_STRING;
    l->now.start = start;
    l->now.length = (size_t)(l->at++ - start);
    return NULL;
}

static void skip_digits(lexer *l)
{
    while (l->at < l->end && is_digit(*l->at)) l->at++;
}

static spyre_status take_hexadecimal(lexer *l)
{
    uint64_t number = 0;
    for (l->at += 2; l->at < l->end && isxdigit((unsigned char)*l->at); l->at++) {
        char c = *l->at;
        unsigned digit = is_digit(c) ? (unsigned)(c - '0') : ((unsigned)c | 0x20u) - 'a' + 10;
        if (number >> 60) return lexer_error(l, &l->now, "a number beyond 64 bits");
        number = number << 4 | digit;
    }
    memcpy(&l->now.number, &number, sizeof number);
    return NULL;
}

// The fraction and the exponent behind the digits of a real number.
static void skip_fraction(lexer *l)
{
    l->at++;
    skip_digits(l);
    if (l->end - l->at < 2 || (*l->at != 'e' && *l->at != 'E')) return;
    bool sign = l->at[1] == '+' || l->at[1] == '-';
    if (l->end - l->at < 2 + sign || !is_digit(l->at[1 + sign])) return;
    l->at += 1 + sign;
    skip_digits(l);
}

static spyre_status take_number(lexer *l)
{
    const char *start = l->at++;
    l->now.kind = TOKEN_NUMBER;
    if (*start == '0' && l->end - l->at > 1 && *l->at == 'x' && isxdigit((unsigned char)l->at[1])) {
        l->at = start;
        TRY(take_hexadecimal(l));
        l->now.length = (size_t)(l->at - start);
        return NULL;
    }
    skip_digits(l);
    if (l->end - l->at > 1 && *l->at == '.' && is_digit(l->at[1])) {
        skip_fraction(l);
        l->now.kind = TOKEN_REAL;
        l->now.length = (size_t)(l->at - start);
        l->now.real = strtod(start, NULL);
        return NULL;
    }
    l->now.length = (size_t)(l->at - start);
    if (json_parse_decimal(start, l->now.length, &l->now.number)) return NULL;
    return lexer_error(l, &l->now, "a number beyond 64 bits");
}

spyre_status lexer_next(lexer *l)
{
    skip_blanks(l);
    l->now = (token){.kind = TOKEN_END, .start = l->at, .line = l->line,
                     .column = scan_column(l->line_start, l->at)};
    if (l->at == l->end) return NULL;
    char c = *l->at;
    bool minus = c == '-' && l->end - l->at > 1;
    if (c == '"') return take_string(l);
    if (is_digit(c) || (minus && is_digit(l->at[1]))) return take_number(l);
    const char *start = l->at++;
    l->now.kind = TOKEN_SIGN;
    if (minus && l->at[0] == '>') {
        l->at++;
    } else if (scan_is_name_character(c) || (c && strchr("%#@!^", c))) {
        l->now.kind = TOKEN_WORD;
        while (l->at < l->end && scan_is_name_character(*l->at)) l->at++;
    } else if (!c || !strchr("(){}[]<>,:=+-*/?", c)) {
        return lexer_error(l, &l->now, "unexpected character 0x%02x",
                           (unsigned)(unsigned char)c);
    }
    l->now.length = (size_t)(l->at - start);
    return NULL;
}

spyre_status lexer_start(lexer *l, const char *name, const char *source, size_t length)
{
    *l = (lexer){.name = name, .at = source, .end = source + length, .line_start = source,
                 .line = 1};
    return lexer_next(l);
}

bool token_is(const token *t, const char *expected)
{
    return strlen(expected) == t->length && memcmp(expected, t->start, t->length) == 0;
}

bool lexer_at(const lexer *l, const char *expected)
{
    bool plain = l->now.kind == TOKEN_WORD || l->now.kind == TOKEN_SIGN;
    return plain && token_is(&l->now, expected);
}

spyre_status lexer_skip(lexer *l, const char *expected, bool *out_found)
{
    *out_found = lexer_at(l, expected);
    return *out_found ? lexer_next(l) : NULL;
}

spyre_status lexer_unexpected(const lexer *l, const char *expected)
{
    if (l->now.kind == TOKEN_END) {
        return lexer_error(l, &l->now, "expected %s, found the end", expected);
    }
    int length = l->now.length < 40 ? (int)l->now.length : 40;
    return lexer_error(l, &l->now, "expected %s, found '%.*s'", expected, length,
                       l->now.start);
}

spyre_status lexer_expect(lexer *l, const char *expected)
{
    if (!lexer_at(l, expected)) {
        char quoted[48];
        snprintf(quoted, sizeof quoted, "'%s'", expected);
        return lexer_unexpected(l, quoted);
    }
    return lexer_next(l);
}

spyre_status lexer_take(lexer *l, token_kind kind, const char *what, token *out)
{
    if (l->now.kind != kind) return lexer_unexpected(l, what);
    *out = l->now;
    return lexer_next(l);
}
