// SPDX-License-Identifier: Apache-2.0
//
// Tokens of bundle.mlir. The parser sees one token at a time.
#ifndef BUNDLE_MLIR_LEXER_H
#define BUNDLE_MLIR_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
    TOKEN_END,
    TOKEN_WORD,         // arith.addi, %arg_0, #map_1, @name, !sdscbundle.input_arg
    TOKEN_NUMBER,       // 128, -3
    TOKEN_STRING,       // "sdsc_0.json"; start and length are those of the content
    TOKEN_SIGN,         // ( ) { } [ ] < > , : = + - * and "->"
} token_kind;

typedef struct {
    token_kind kind;
    const char *start;
    size_t length;
    int64_t number;
    uint32_t line;
} token;

typedef struct {
    const char *at, *end;
    uint32_t line;
    token now;
} lexer;

// Starts at the first token.
SPYRE_MUST_CHECK spyre_status lexer_start(lexer *l, const char *source, size_t length);

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

// Fails unless the current token is `expected`; moves on.
SPYRE_MUST_CHECK spyre_status lexer_expect(lexer *l, const char *expected);

// Fails unless the current token is of that kind; gives it and moves on. `what` names it.
SPYRE_MUST_CHECK spyre_status lexer_take(lexer *l, token_kind kind, const char *what, token *out);

// An error at the current token that says what was expected.
SPYRE_MUST_CHECK spyre_status lexer_unexpected(const lexer *l, const char *expected);

// An error at a line.
SPYRE_MUST_CHECK spyre_status lexer_error(uint32_t line, spyre_code code, const char *format, ...)
    SPYRE_PRINTF(3, 4);

#endif
