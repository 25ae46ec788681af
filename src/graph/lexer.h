// SPDX-License-Identifier: Apache-2.0
//
// Characters and words of the text form, with errors that name file, line and column.
#ifndef GRAPH_LEXER_H
#define GRAPH_LEXER_H

#include "graph/graph.h"

typedef struct {
    const char *file_name;
    const char *at;
    const char *line_start;
    uint32_t line; // from 1
    arena *memory;
} scanner;

// "<file>:<line>:<column>: <message>", SPYRE_INVALID_FORMAT.
SPYRE_MUST_CHECK spyre_status scan_error(const scanner *s, const char *format, ...)
    SPYRE_PRINTF(2, 3);

// Skips blanks and a comment; not the newline.
void scan_blanks(scanner *s);

// Skips blanks, comments and empty lines; false at the end of the text.
bool scan_next_line(scanner *s);

// Moves behind `token` when it comes next.
bool scan_accept(scanner *s, const char *token);
SPYRE_MUST_CHECK spyre_status scan_expect(scanner *s, const char *token);

// Moves behind a keyword that no name character follows.
bool scan_accept_word(scanner *s, const char *word);

// The run of name characters that comes next; empty when there is none.
const char *scan_peek_word(scanner *s, size_t *out_length);

// A name, in the arena. `what` is for the message.
SPYRE_MUST_CHECK spyre_status scan_name(scanner *s, const char *what, const char **out_name);

SPYRE_MUST_CHECK spyre_status scan_int(scanner *s, int64_t *out_value);

// An int or a float: `out_is_int` tells which of the two results is set.
SPYRE_MUST_CHECK spyre_status scan_number(scanner *s, bool *out_is_int, int64_t *out_int,
                                          double *out_real);

// A string in double quotes with \" \\ \xHH, in the arena.
SPYRE_MUST_CHECK spyre_status scan_string(scanner *s, const char **out_string);

// Skips blanks and a comment; true at the end of the line.
bool scan_line_ends(scanner *s);
SPYRE_MUST_CHECK spyre_status scan_line_end(scanner *s);

#endif
