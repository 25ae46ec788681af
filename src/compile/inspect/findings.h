// SPDX-License-Identifier: Apache-2.0
//
// The lines of suspicions.h while they are found. Internal to src/compile/inspect.
#ifndef COMPILE_INSPECT_FINDINGS_H
#define COMPILE_INSPECT_FINDINGS_H

#include "base/text.h"
#include "bundle/model.h"

enum { FINDINGS_MOST = 40 };            // more are counted, not shown

typedef struct {
    const bundle *b;
    const bundle_step *step;            // that is looked at, and its number; null: all of it
    uint32_t number;
    text *out;
    uint32_t lines;
} findings;

// Appends a line, and the heading in front of the first one.
SPYRE_PRINTF(2, 3) void find(findings *f, const char *format, ...);

// What `f->step` tells by itself.
SPYRE_MUST_CHECK spyre_status inspect_one_step(findings *f);

#endif
