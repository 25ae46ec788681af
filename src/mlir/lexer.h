// SPDX-License-Identifier: Apache-2.0
//
// Tokens of MLIR's text form, for every parser of it. A parser sees one token at a time. Errors are
// SPYRE_INVALID_FORMAT and name the file and the place: "<name>:3:14: ".
#ifndef MLIR_LEXER_H
#define MLIR_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
    TOKEN_END,
    TOKEN_WORD,         // arith.addi, %arg_0, #map_1, @name, !sdscbundle.input_arg, ^bb0
    TOKEN_NUMBER,       // 128, -3, 0xFC00
    TOKEN_REAL,         // 1.25e-01
    TOKEN_STRING,       // "sdsc_0.json"; start and length are those of the content
    TOKEN_SIGN,         // ( ) { } [ ] < > , : = + - * / ? and "->"
} token_kind;

typedef struct {
    token_kind kind;
    const char *start;
    size_t length;
    int64_t number;     // NUMBER; a hexadecimal one beyond 2^63 is the negative of the same bits
    double real;        // REAL
    uint32_t line, column;
} token;

typedef struct {
    const char *name;   // in front of errors
    const char *at, *end;
    const char *line_start;
    uint32_t line;
    token now;
} lexer;

// Starts at the first token.
SPYRE_MUST_CHECK spyre_status lexer_start(lexer *l, const char *name, const char *source,
                                          size_t length);

// Moves to the next token.
SPYRE_MUST_CHECK spyre_status lexer_next(lexer *l);

// True when the characters of the token are those.
bool token_is(const token *t, const char *expected);

// The number of its characters that a message shows: %.*s.
static inline int token_shown(const token *t)
{
    return t->length < 60 ? (int)t->length : 60;
}

// True when the current token is that word or sign.
bool lexer_at(const lexer *l, const char *expected);

// When the current token is that word or sign, moves on and says so in *out_found.
SPYRE_MUST_CHECK spyre_status lexer_skip(lexer *l, const char *expected, bool *out_found);

// Fails unless the current token is `expected`; moves on.
SPYRE_MUST_CHECK spyre_status lexer_expect(lexer *l, const char *expected);

// Fails unless the current token is of that kind; gives it and moves on. `what` names it.
SPYRE_MUST_CHECK spyre_status lexer_take(lexer *l, token_kind kind, const char *what, token *out);

// An error at the current token that says what was expected.
SPYRE_MUST_CHECK spyre_status lexer_unexpected(const lexer *l, const char *expected);

// An error at a token.
SPYRE_MUST_CHECK spyre_status lexer_error(const lexer *l, const token *at, const char *format, ...)
    SPYRE_PRINTF(3, 4);

#endif
