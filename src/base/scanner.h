// SPDX-License-Identifier: Apache-2.0
//
// Characters, words and numbers of a text form, with errors that name file, line and column. '#'
// begins a comment. MLIR's text has tokens of its own (mlir/lexer.h), at the same places.
#ifndef BASE_SCANNER_H
#define BASE_SCANNER_H

#include "base/arena.h"

typedef struct {
    const char *file_name;
    const char *at;
    const char *line_start;
    uint32_t line;   // from 1
    bool free_lines; // ends of lines are blanks
    arena *memory;   // of names and strings
} scanner;

// At the first character of a text that ends with a null.
scanner scan_start(arena *memory, const char *source, const char *file_name);

// The column of a character in the line that begins at `line_start`, from 1.
static inline uint32_t scan_column(const char *line_start, const char *at)
{
    return (uint32_t)(at - line_start) + 1;
}

// "<file>:<line>:<column>: <message>", SPYRE_INVALID_FORMAT.
SPYRE_MUST_CHECK spyre_status scan_error(const scanner *s, const char *format, ...)
    SPYRE_PRINTF(2, 3);

// Skips blanks and comments; of newlines only free ones.
void scan_blanks(scanner *s);

// Skips blanks, comments and empty lines; false at the end of the text.
bool scan_next_line(scanner *s);

// Moves behind `token` when it comes next.
bool scan_accept(scanner *s, const char *token);
SPYRE_MUST_CHECK spyre_status scan_expect(scanner *s, const char *token);

// Moves behind a keyword that no name character follows.
bool scan_accept_word(scanner *s, const char *word);

// Letters, digits, '_', '.' and '$'.
bool scan_is_name_character(char c);

// The run of name characters that comes next; empty when there is none.
const char *scan_peek_word(scanner *s, size_t *out_length);

// A name, in the arena. `what` is for the message.
SPYRE_MUST_CHECK spyre_status scan_name(scanner *s, const char *what, const char **out_name);

// Decimal, or hexadecimal behind 0x.
SPYRE_MUST_CHECK spyre_status scan_int(scanner *s, int64_t *out_value);

// An int within bounds; errors name `what` and are at its first character.
SPYRE_MUST_CHECK spyre_status scan_int_within(scanner *s, const char *what, int64_t low,
                                              int64_t high, int64_t *out_value);

// A float, an int as one, "inf", "-inf" or "nan".
SPYRE_MUST_CHECK spyre_status scan_real(scanner *s, double *out_value);

// An int or a float: `out_is_int` tells which of the two results is set.
SPYRE_MUST_CHECK spyre_status scan_number(scanner *s, bool *out_is_int, int64_t *out_int,
                                          double *out_real);

// A string in double quotes with \" \\ \xHH, in the arena.
SPYRE_MUST_CHECK spyre_status scan_string(scanner *s, const char **out_string);

// Skips blanks and a comment; true at the end of the line.
bool scan_line_ends(scanner *s);
SPYRE_MUST_CHECK spyre_status scan_line_end(scanner *s);

#endif
