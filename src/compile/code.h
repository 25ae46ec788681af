// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode of compiled programs. Internal to src/compile.
#ifndef COMPILE_CODE_H
#define COMPILE_CODE_H

#include "bundle/model.h"
#include "spyrecode/model.h"

// The code of a bundle that our front made: pool and constants come with it, what is left are the
// launch arguments, inputs first, then output buffers.
SPYRE_MUST_CHECK spyre_status code_of_segment(arena *memory, const bundle *b,
                                              const isa_program *program, spyrecode **out_code);

// The launch arguments of a bundle that was read from files, one for each of its own, with what the
// program takes on trust about them.
SPYRE_MUST_CHECK spyre_status code_bundle_arguments(arena *memory, const bundle *b,
                                                    spyrecode_argument **out_arguments);

// The code of a bundle that was read from files: every argument is one of the launch, the pool too.
SPYRE_MUST_CHECK spyre_status code_of_bundle(arena *memory, const bundle *b,
                                             const isa_program *program, spyrecode **out_code);

#endif
