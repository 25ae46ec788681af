// SPDX-License-Identifier: Apache-2.0
//
// Artefacts as text, one function a kind. All of them verify before they print, and say in an error
// which file and place is wrong. Internal to src/compile.
#ifndef COMPILE_INSPECT_H
#define COMPILE_INSPECT_H

#include "base/arena.h"
#include "base/text.h"
#include "bundle/model.h"
#include "isa/isa.h"

SPYRE_MUST_CHECK spyre_status inspect_bundle(arena *memory, const char *directory,
                                             const char *const *sizes, uint32_t size_count,
                                             text *out);

// A verified bundle; `name` is where it comes from.
SPYRE_MUST_CHECK spyre_status inspect_print_bundle(const bundle *b, const char *name, text *out);

// One sdsc_<n>.json without its bundle.mlir: addresses must not be symbolic.
SPYRE_MUST_CHECK spyre_status inspect_bundle_step(arena *memory, const char *path, text *out);

// A file that begins with a program image, by its content.
SPYRE_MUST_CHECK spyre_status inspect_program(arena *memory, const char *path, const uint8_t *bytes,
                                              size_t length, text *out);

SPYRE_MUST_CHECK spyre_status inspect_spyrecode(arena *memory, const char *directory, text *out);
SPYRE_MUST_CHECK spyre_status inspect_init_text(arena *memory, const char *path, text *out);

// Kernel table and work of a program, without its instructions.
SPYRE_MUST_CHECK spyre_status inspect_program_summary(arena *memory, const isa_program *program,
                                                      text *out);

#endif
