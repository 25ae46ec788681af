// SPDX-License-Identifier: Apache-2.0
//
// What an executable that serves several sizes keeps for them. Internal to src/compile.
#ifndef COMPILE_SIZE_RULES_H
#define COMPILE_SIZE_RULES_H

#include "compile/executable.h"
#include "compile/symbolic_program.h"
#include "spyre/sizes.h"

// Of a card segment; empty for one of the host.
typedef struct {
    bundle *symbolic;                   // null until stages are wanted where the rest was in a file
    isa_program *program;               // of the largest size, with corrections
    spyrecode_sizes sizes;              // expressions of their values
} size_segment;

typedef struct size_rules {
    arena *memory;
    int64_t granule, size, most;
    spyre_executable *next;             // at `size`
    size_segment *segments;
} size_rules;

// Null, or how the plans of two sizes differ in more than sizes; the text size_other_plan.
extern const char size_other_plan[];
const char *size_compare_plans(const executable_segment *largest, const executable_segment *next);

// The bundle of `largest` with the dims as a symbol in which `next`, of `size` and the same plan,
// differs, or null with *out_why, a phrase of static text, when they differ in more.
SPYRE_MUST_CHECK spyre_status size_symbolic_bundle(arena *memory,
                                                   const executable_segment *largest,
                                                   const executable_segment *next, int64_t granule,
                                                   int64_t size, int64_t most, bundle **out_bundle,
                                                   const char **out_why);

// Rules of the two executables from the cache's files, or why there are none; *out_known tells
// whether they say either. In `rules` are the sizes that they are for.
SPYRE_MUST_CHECK spyre_status size_rules_recall(size_rules *rules, const spyre_executable *largest,
                                                const spyre_executable *next, bool *out_known,
                                                const char **out_why);

// Keeps them there, or `why` there are none.
SPYRE_MUST_CHECK spyre_status size_rules_keep(const size_rules *rules,
                                              const spyre_executable *largest,
                                              const spyre_executable *next, const char *why);

// Of executable.c, whose life it ends with. Null is allowed.
void size_rules_destroy(size_rules *rules);

#endif
