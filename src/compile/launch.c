// SPDX-License-Identifier: Apache-2.0
#include "compile/executable.h"

spyre_status spyre_launch(spyre_context *context, uint32_t card_id, uint32_t stream,
                          spyre_executable *executable, uint32_t segment, const uint64_t *inputs,
                          const uint64_t *buffers)
{
    return spyre_launch_scalars(context, card_id, stream, executable, segment, inputs, buffers,
                                NULL);
}

spyre_status spyre_launch_scalars(spyre_context *context, uint32_t card_id, uint32_t stream,
                                  spyre_executable *executable, uint32_t segment,
                                  const uint64_t *inputs, const uint64_t *buffers,
                                  const double *scalars)
{
    const executable_segment *launched;
    TRY(executable_card_segment(executable, segment, &launched));
    return job_launch(context, card_id, stream, launched->job, inputs, buffers, scalars);
}
