// SPDX-License-Identifier: Apache-2.0
//
// Which step of a bundle the card computes otherwise than the interpreter, which is the definition.
#ifndef SPYRE_BISECT_H
#define SPYRE_BISECT_H

#include <stdbool.h>

#include "spyre/program.h"

#ifdef __cplusplus
extern "C" {
#endif

// Runs the bundle in `directory` by both. `arguments` are the first argument_count of the launch,
// with their bytes before it (null: zeros); they are not changed. One without a size, or behind
// those, is as long as the steps go, 1 GiB at most. `pool_first` is that of spyre_bundle_options.
// First the whole bundle; then each step by itself, from what the interpreter has computed so far;
// if the steps by themselves are right, the shortest beginning that is wrong. `sizes` are those
// that a launch of the bundle would choose, "s0=128"; symbols that none names are at their
// largest. *out_equal: every bit is the same. *out_text, freed with spyre_string_free()
// (spyre/graph.h), names step, core, indices and distance of what differs. SPYRE_INVALID_ARGUMENT
// when a size is missing that counts the rows of a table; errors of reading, verifying and
// compiling are passed on.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_bundle_bisect(const char *directory, bool pool_first,
                                                            const spyre_program_buffer *arguments,
                                                            uint32_t argument_count,
                                                            const char *const *sizes,
                                                            uint32_t size_count,
                                                            bool *out_equal, char **out_text);

#ifdef __cplusplus
}
#endif
#endif
