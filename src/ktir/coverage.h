// SPDX-License-Identifier: Apache-2.0
//
// Arguments that a program writes from end to end and never reads: what they held before does not
// matter.
#ifndef KTIR_COVERAGE_H
#define KTIR_COVERAGE_H

#include "isa/isa.h"

// Whether STOREs reach every one of the argument's first `bytes` bytes, none beyond, and no
// instruction reads any of it. May be false where finding out would take more than
// COVERAGE_MOST_RANGES ranges that do not touch. Works in `memory`.
enum { COVERAGE_MOST_RANGES = 1 << 16 };
SPYRE_MUST_CHECK spyre_status coverage_is_whole(arena *memory, const isa_program *program,
                                                uint32_t argument, int64_t bytes,
                                                bool *out_whole);

#endif
