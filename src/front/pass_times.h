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
} record_watch;

record_watch record_begin(const arena *memory);

// Adds the stage to the records, to the one of its name when there is one.
void record_end(const record_watch *watch, const char *name, const loop_graph *loops, bool changed,
                front_records *records);

// The table that spyre_executable_text() gives as "time".
void record_print(const front_records *records, text *out);

#endif
