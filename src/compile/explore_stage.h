// SPDX-License-Identifier: Apache-2.0
//
// The lines of a stage's text as HTML, each marked with the op of the final loop IR and the graph
// values it is about. Internal to src/compile.
#ifndef COMPILE_EXPLORE_STAGE_H
#define COMPILE_EXPLORE_STAGE_H

#include "base/arena.h"
#include "base/text.h"
#include "base/vec.h"

enum { EXPLORE_CORES = 32, EXPLORE_VARS = 8 };

typedef struct {
    uint32_t var;
    uint32_t slices, core_stride;   // core / core_stride % slices is a core's slice
} explore_split;

typedef struct {
    const char *opfunc;
    const char *node;       // the graph value that it computes
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

// Appends the lines of a file. SPYRE_INVALID_FORMAT for a line about an op that `ops` does not
// have.
typedef spyre_status explore_stage(arena *memory, const explore_file *file, const explore_ops *ops,
                                   text *out);
SPYRE_MUST_CHECK explore_stage explore_graph;
SPYRE_MUST_CHECK explore_stage explore_loop;        // the final loop IR: ops by number
SPYRE_MUST_CHECK explore_stage explore_pass;        // after some pass: ops by value only
SPYRE_MUST_CHECK explore_stage explore_bundle;
SPYRE_MUST_CHECK explore_stage explore_listing;
SPYRE_MUST_CHECK explore_stage explore_why;
SPYRE_MUST_CHECK explore_stage explore_fx;          // Python of an FX graph: lines by node
SPYRE_MUST_CHECK explore_stage explore_cost;        // a line an op, and lines about all
SPYRE_MUST_CHECK explore_stage explore_plain;       // about nothing

#endif
