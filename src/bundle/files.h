// SPDX-License-Identifier: Apache-2.0
//
// Bundles as directories: sdsc_<n>.json and bundle.mlir.
#ifndef BUNDLE_FILES_H
#define BUNDLE_FILES_H

#include "bundle/model.h"

// Reads a directory written by this or by torch-spyre's front-end, symbolic arguments and loops
// included. Absolute memory addresses become (segment k -> argument k). `pool_first` says that
// argument 0 is the pool (symbolic bundles name it themselves). Errors name file, field and rule.
SPYRE_MUST_CHECK spyre_status bundle_read(arena *memory, const char *directory, bool pool_first,
                                          bundle **out_bundle);

// The same; `out_warnings` gets a line, in `memory`, for each name of each file that the reader
// does not know and ignores.
typedef VEC(const char *) bundle_warnings;
SPYRE_MUST_CHECK spyre_status bundle_read_warned(arena *memory, const char *directory,
                                                 bool pool_first, bundle **out_bundle,
                                                 bundle_warnings *out_warnings);

// A line for each field of the files of `b`, read from `directory`, that restates others and does
// not agree with them; at most four a step.
SPYRE_MUST_CHECK spyre_status bundle_read_restated(arena *memory, const char *directory,
                                                   const bundle *b, bundle_warnings *out_lines);

// Writes the directory (made when missing). Up to seven arguments are written as absolute
// addresses, more as symbols. Same bundle, same bytes.
SPYRE_MUST_CHECK spyre_status bundle_write(const bundle *b, const char *directory);

#endif
