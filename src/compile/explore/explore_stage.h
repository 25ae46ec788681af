// SPDX-License-Identifier: Apache-2.0
//
// The lines of a stage's text as HTML, each marked with the op of the final loop IR and the graph
// values it is about. Internal to src/compile.
#ifndef COMPILE_EXPLORE_STAGE_H
#define COMPILE_EXPLORE_STAGE_H

#include "base/arena.h"
#include "base/text.h"
#include "base/vec.h"
#include "isa/isa.h"

enum { EXPLORE_CORES = ISA_CORES, EXPLORE_VARS = 8 };

typedef struct {
    uint32_t var;
    uint32_t slices, core_stride;   // core / core_stride % slices is a core's slice
} explore_split;

typedef struct {
    const char *opfunc;
    const char *node;       // the graph value that it computes
    const char *place;      // "mlp.py:1 in f", or "" where that is not known
    uint32_t split_count;
    explore_split split[EXPLORE_VARS];
    uint32_t cores;
} explore_op;

typedef VEC(explore_op) explore_ops;

// A file of a dump.
typedef struct {
    const char *path;
    const char *content;
} explore_file;

// The ops of a .loop file. Errors name file and line.
SPYRE_MUST_CHECK spyre_status explore_read_ops(arena *memory, const explore_file *loop,
                                               explore_ops *out);

typedef enum {
    EXPLORE_GRAPH,
    EXPLORE_PASS,       // the loop IR after some pass: ops by value only
    EXPLORE_LOOP,       // the final loop IR: ops by number
    EXPLORE_BUNDLE,
    EXPLORE_LISTING,
    EXPLORE_WHY,
    EXPLORE_FX,         // Python of an FX graph: lines by node
    EXPLORE_COST,       // a line an op, and lines about all
    EXPLORE_ERRORS,     // of torch.spyre.numerics: lines end with "mlp.py:1"
    EXPLORE_PLAIN,      // about nothing
} explore_kind;

// Appends the lines of a file. SPYRE_INVALID_FORMAT for a line about an op that `ops` does not
// have.
SPYRE_MUST_CHECK spyre_status explore_print(explore_kind kind, arena *memory,
                                            const explore_file *file, const explore_ops *ops,
                                            text *out);

#endif
