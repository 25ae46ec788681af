// SPDX-License-Identifier: Apache-2.0
//
// One program for all sizes that a bundle leaves to the launch. Internal to src/compile.
#ifndef COMPILE_SYMBOLIC_PROGRAM_H
#define COMPILE_SYMBOLIC_PROGRAM_H

#include "back/back.h"
#include "spyrecode/model.h"

enum { SYMBOLIC_MOST_SIZES = 1024 };

// How many combinations of sizes there are, as far as SYMBOLIC_MOST_SIZES + 1.
uint32_t symbolic_program_count(const bundle *b);

// Combination `number`, the largest sizes first; in granules.
void symbolic_program_granules(const bundle *b, uint32_t number, int64_t *out_granules);

// The bundle at a combination.
SPYRE_MUST_CHECK spyre_status symbolic_program_bind(arena *memory, const bundle *b,
                                                    const int64_t *granules, bundle **out_bundle);

// One program for all sizes: that of the largest, whose corrections take the values of *out_sizes'
// expressions (its symbols are null), the first `value_count` of them. *out_program is null where
// there is none.
SPYRE_MUST_CHECK spyre_status symbolic_program_of(arena *memory, const bundle *b,
                                                  const back_options *options,
                                                  spyrecode_sizes *out_sizes,
                                                  isa_program **out_program);

// The code of a bundle that was read from files, whose sizes launches choose. *out_code is null
// where no one program serves all of them: there are too many, or their programs differ in more
// than numbers. Errors are those of compiling the largest.
SPYRE_MUST_CHECK spyre_status symbolic_program_compile(arena *memory, const bundle *b,
                                                       const back_options *options,
                                                       spyrecode **out_code);

#endif
