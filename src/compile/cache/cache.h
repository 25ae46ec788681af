// SPDX-License-Identifier: Apache-2.0
//
// Known executables: those in use in this process, and those in files.
#ifndef COMPILE_CACHE_H
#define COMPILE_CACHE_H

#include "compile/executable.h"

// An executable for the graph from wherever it is known, else compiled and kept. The caller's
// reference ends with spyre_executable_destroy(). Trouble with files is no error.
SPYRE_MUST_CHECK spyre_status cache_compile(const spyre_graph *graph,
                                            const spyre_compile_options *options,
                                            spyre_executable **out_executable);

// Bytes that follow from `subject`, kept in a file of their own: *out_bytes (in `memory`, aligned
// to 16) are null when there are none. Trouble with files is no error.
SPYRE_MUST_CHECK spyre_status cache_recall(arena *memory, const char *subject,
                                           const uint8_t **out_bytes, size_t *out_length);

void cache_keep(const char *subject, const text *bytes);

#endif
