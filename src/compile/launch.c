// SPDX-License-Identifier: Apache-2.0
#include "compile/executable.h"

spyre_status spyre_launch(spyre_context *context, uint32_t card_id, uint32_t stream,
                          spyre_executable *executable, uint32_t segment, const uint64_t *inputs,
                          const uint64_t *buffers)
{
    if (segment >= executable->segment_count ||
        executable->segments[segment].info.kind != SPYRE_SEGMENT_CARD)
        return status_new(SPYRE_INVALID_ARGUMENT, "segment %u is no card segment", segment);
    return job_launch(context, card_id, stream, executable->segments[segment].job, inputs, buffers);
}
