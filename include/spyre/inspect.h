// SPDX-License-Identifier: Apache-2.0
//
// The artefacts of every boundary as text that a person reads. What a path holds is told from its
// content:
//     a directory with spyrecode.json   SpyreCode: sizes, plans, patches, program
//     a directory with bundle.mlir      SuperDSC-Bundle: launch arguments, steps with operands
//     one sdsc_<n>.json                 one step of it
//     a file that starts with SPYRECOD  program image (init.bin): arguments, kernels, instructions
//     any other text                    a graph (.graph), checked and printed
// The text is for people and may change; the formats themselves are specified in docs/.
#ifndef SPYRE_INSPECT_H
#define SPYRE_INSPECT_H

#include <stdint.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The text of the artefact at `path`, freed with spyre_string_free() (spyre/graph.h); of a bundle
// at the sizes that a launch of it would choose, "s0=128": symbols that none of `sizes` names are
// at their largest. Everything is verified first: an error names file, place and rule. Thread safe.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_inspect(const char *path, const char *const *sizes,
                                                  uint32_t size_count, char **out_text);

// How the emulated card will execute the program image at `path`, or of the SpyreCode directory
// there: its plan after every pass (docs/card.md), for SPYRE_THREADS host threads. Freed with
// spyre_string_free(). Nothing is executed. Thread safe.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_inspect_plan(const char *path, char **out_text);

#ifdef __cplusplus
}
#endif
#endif
