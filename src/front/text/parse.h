// SPDX-License-Identifier: Apache-2.0
//
// What the readers of the loop IR's text form share: parse.c reads the whole, parse_buffer.c and
// parse_op.c a line each, parse_graph.c makes the graph that the text stands for.
#ifndef FRONT_PARSE_H
#define FRONT_PARSE_H

#include "base/scanner.h"
#include "front/ir/loop.h"

// Bounds of numbers, so that no later arithmetic overflows. 2^40 is a bundle's limit of points.
#define PARSE_MOST_ELEMENTS ((int64_t)1 << 40)
#define PARSE_MOST_BYTES ((int64_t)1 << 50)
enum { PARSE_MOST_TILES = 4096, PARSE_MOST_SLICES = 32, PARSE_MOST_CORE_STRIDE = 1024,
       PARSE_MOST_NODES = 1 << 20 };

// The user's names of the dims of a view: names("M,K" 4:100 100:1); text is null without.
typedef struct {
    const char *text;
    spyre_view view;
} parse_names;

// What the text says of a graph node.
typedef struct {
    const char *work_div, *tiles; // or null
    parse_names names;
} parse_node;

typedef struct {
    scanner in;
    loop_graph *loops;
    const char *after;        // the pass behind which the caller wants the program, or null
    VEC(parse_names) inputs;  // by number
    VEC(parse_node) nodes;    // by number
} parse_reader;

// An int within bounds in parentheses: "(7)".
SPYRE_MUST_CHECK spyre_status parse_int_in_parens(parse_reader *r, const char *what, int64_t low,
                                                  int64_t high, int64_t *out);

// Adds what `steps` steps of `stride` elements reach, at most 2^40.
SPYRE_MUST_CHECK spyre_status parse_reach(const parse_reader *r, int64_t steps, int64_t stride,
                                          int64_t *reach);

// A letter and a number: "b7".
SPYRE_MUST_CHECK spyre_status parse_id(parse_reader *r, char letter, const char *what,
                                       uint32_t count, uint32_t *out);

// Sizes and strides up to the end of the line or a parenthesis: "4:100 100:1".
SPYRE_MUST_CHECK spyre_status parse_view(parse_reader *r, spyre_view *out);

// '("M,K" 4:100 100:1)'
SPYRE_MUST_CHECK spyre_status parse_dim_names(parse_reader *r, parse_names *out);

// The comment that ends the line, cut where `mark` first stands; what is behind it goes to
// *out_rest, null without a mark.
SPYRE_MUST_CHECK spyre_status parse_comment(parse_reader *r, const char *mark, const char **out,
                                            const char **out_rest);

// Skips lines that are empty or a comment; false at the end.
bool parse_next_line(parse_reader *r);

// A line behind its first word.
SPYRE_MUST_CHECK spyre_status parse_buffer(parse_reader *r);
SPYRE_MUST_CHECK spyre_status parse_op(parse_reader *r);

// Gives the loops the graph that passes ask for inputs and hints. SPYRE_INVALID_FORMAT names the
// buffer that is no input or output of any graph.
SPYRE_MUST_CHECK spyre_status parse_make_graph(parse_reader *r);

#endif
