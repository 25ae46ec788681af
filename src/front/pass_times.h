// SPDX-License-Identifier: Apache-2.0
//
// What every stage of the front took: processor time of the compiling thread, host memory from the
// arena, and what it left.
#ifndef FRONT_PASS_TIMES_H
#define FRONT_PASS_TIMES_H

#include "front/front.h"

// A stage under way.
typedef struct {
    const arena *memory;
    int64_t began_ns;
    size_t used_bytes;
} pass_times_watch;

pass_times_watch pass_times_begin(const arena *memory);

// Adds the stage to the records, to the one of its name when there is one.
void pass_times_end(const pass_times_watch *watch, const char *name, const loop_graph *loops,
                    bool changed, pass_times *records);

// The table that spyre_executable_text() gives as "time".
void pass_times_print(const pass_times *records, text *out);

#endif
