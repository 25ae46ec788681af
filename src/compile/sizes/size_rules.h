// SPDX-License-Identifier: Apache-2.0
//
// What an executable that serves several sizes keeps for them. Internal to src/compile.
#ifndef COMPILE_SIZE_RULES_H
#define COMPILE_SIZE_RULES_H

#include "compile/executable.h"
#include "compile/sizes/symbolic_program.h"
#include "spyre/sizes.h"

typedef enum { SIZE_COUNT, SIZE_PART, SIZE_RATIO } size_constant_form;

// A constant in memory that follows from a count, itself a number that follows from sizes.
typedef struct {
    int64_t offset;                     // of its stick in the segment's constants
    spyre_format format;
    size_constant_form form;
    int64_t most, next[SPYRE_MOST_SIZES];   // the count at the largest sizes, with dim k smaller
} size_constant;

// Of a card segment; empty for one of the host.
typedef struct {
    bundle *symbolic;                   // null until stages are wanted where the rest was in a file
    isa_program *program;               // of the largest size, with corrections
    spyrecode_sizes sizes;              // expressions of their values
    VEC(size_constant) constants;
} size_segment;

enum { SIZE_MOST_SMALLER = SPYRE_MOST_SIZES + 2, SIZE_PLACE_BYTES = 128 };

typedef struct size_rules {
    arena *memory;
    char *place;                        // SIZE_PLACE_BYTES: the step that has no rules, or ""
    uint32_t count;                     // of dims
    spyre_size_span spans[SPYRE_MOST_SIZES];
    bool has_least;                     // the last of `smaller` has a granule of each dim
    spyre_executable *smaller[SIZE_MOST_SMALLER];       // of spyre_executable_serve_sizes()
    size_segment *segments;
} size_rules;

// How many executables have some dims at their smaller sizes: one a dim, and one with all of
// several.
static inline uint32_t size_corner_count(const size_rules *rules)
{
    return rules->count + (rules->count > 1);
}

static inline uint32_t size_smaller_count(const size_rules *rules)
{
    return size_corner_count(rules) + rules->has_least;
}

// The sizes of smaller executable `number`.
static inline void size_smaller_sizes(const size_rules *rules, uint32_t number, int64_t *out_sizes)
{
    bool least = number == size_corner_count(rules);
    for (uint32_t k = 0; k < rules->count; k++) {
        const spyre_size_span *span = &rules->spans[k];
        out_sizes[k] = least ? span->granule
                       : number == k || number == rules->count ? span->size : span->most;
    }
}

// Reasons that a compilation of other sizes, or with other settings, may not have.
extern const char size_other_plan[], size_no_slices[], size_part_of_stick[], size_no_third[];

// Null, or size_other_plan where the plans of two sizes differ in more than sizes.
const char *size_compare_plans(const executable_segment *largest, const executable_segment *next);

// The bundle of `largest` with the dims as symbols in which the segments at smaller sizes, of the
// same plan, differ, or null with *out_why, a phrase of static text, when they differ in more.
SPYRE_MUST_CHECK spyre_status size_symbolic_bundle(const size_rules *rules,
                                                   const executable_segment *largest,
                                                   const executable_segment *const *smaller,
                                                   bundle **out_bundle, const char **out_why);

// Rules of the executables from the cache's files, or why there are none; *out_known tells whether
// they say either. In `rules` are the sizes and the smaller executables.
SPYRE_MUST_CHECK spyre_status size_rules_recall(size_rules *rules, const spyre_executable *largest,
                                                bool *out_known, const char **out_why);

// Keeps them there, or `why` there are none.
SPYRE_MUST_CHECK spyre_status size_rules_keep(const size_rules *rules,
                                              const spyre_executable *largest, const char *why);

// Of executable.c, whose life it ends with. Null is allowed.
void size_rules_destroy(size_rules *rules);

#endif
