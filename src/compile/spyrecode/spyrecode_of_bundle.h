// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode of compiled programs. Internal to src/compile.
#ifndef COMPILE_SPYRECODE_OF_BUNDLE_H
#define COMPILE_SPYRECODE_OF_BUNDLE_H

#include "bundle/model.h"
#include "spyrecode/model.h"

// The code of a bundle that our front made: pool and constants come with it, what is left are the
// launch arguments, inputs first, then output buffers, which lie as `layouts` say.
SPYRE_MUST_CHECK spyre_status code_of_segment(arena *memory, const bundle *b,
                                              const spyre_layout *layouts,
                                              const isa_program *program, spyrecode **out_code);

// How many arguments of a bundle that was read from files a launch binds: all but the memory that
// it asks for itself, which is the last.
uint32_t code_launch_count(const bundle *b);

// The arguments of such a bundle, with what the program takes on trust about those of the launch.
SPYRE_MUST_CHECK spyre_status code_bundle_arguments(arena *memory, const bundle *b,
                                                    spyrecode_argument **out_arguments);

// The code of a bundle that was read from files: every argument is one of the launch, the pool too.
SPYRE_MUST_CHECK spyre_status code_of_bundle(arena *memory, const bundle *b,
                                             const isa_program *program, spyrecode **out_code);

#endif
