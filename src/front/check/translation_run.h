// SPDX-License-Identifier: Apache-2.0
//
// What translation validation runs: the loop IR on host tensors, the same with the buffers laid
// out, and a bundle. Outputs are host values (evaluate.h) in `scratch`, one array an output.
// Internal.
#ifndef FRONT_TRANSLATION_RUN_H
#define FRONT_TRANSLATION_RUN_H

#include "front/check/translation.h"

typedef struct {
    uint8_t **inputs;   // by input: host values
    loop_buffer *given; // by input: as it was before any pass
    uint8_t *lx;      // BUNDLE_MAX_CORES * BUNDLE_LX_BYTES bytes to work in
    front_emitter emit;
} translation_subject;

SPYRE_MUST_CHECK spyre_status translation_evaluate(const translation_subject *v,
                                                   const loop_graph *loops, arena *scratch,
                                                   uint8_t **out);

// Needs layouts of all buffers, and none in LX.
SPYRE_MUST_CHECK spyre_status translation_lay_out(const translation_subject *v, loop_graph *loops,
                                                  arena *scratch, uint8_t **out);

// Emits what all passes have made, and interprets it.
SPYRE_MUST_CHECK spyre_status translation_execute(const translation_subject *v, loop_graph *loops,
                                                  arena *scratch, uint8_t **out);

#endif
