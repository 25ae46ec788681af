// SPDX-License-Identifier: Apache-2.0
//
// Micro-batches on their way through pipeline stages. Internal to src/estimate.
#ifndef ESTIMATE_TIMELINE_H
#define ESTIMATE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

// What a stage has one of: its cards, which work alike, and their links.
typedef enum { TIMELINE_CARD, TIMELINE_LINK, TIMELINE_RESOURCES } timeline_resource;

typedef struct {
    timeline_resource resource;
    double us;
} timeline_step;

// What every micro-batch does on a stage, in this order; the last step of a stage hands over to the
// next one.
typedef struct {
    const timeline_step *steps;
    uint32_t count;
} timeline_stage;

typedef struct {
    double us;                  // a round: from the first one's end to the last one's, or the only
    // A round of the stage that is busy for longest: its cards, its links, both at once.
    double card_us, link_us, hidden_us;
    uint32_t stage;
} timeline_result;

// All micro-batches pass all stages `rounds` times; one begins a round when it has ended the one
// before. A resource takes the step that can begin first, of equals that of the earliest
// round, and of the lowest micro-batch. With `exclusive` a stage begins no micro-batch before the
// last step of another: only hand-overs are hidden then, but no two crowd into a stage.
SPYRE_MUST_CHECK spyre_status timeline_simulate(const timeline_stage *stages, uint32_t stage_count,
                                                uint32_t micro_batches, uint32_t rounds,
                                                bool exclusive, timeline_result *out_result);

#endif
