// SPDX-License-Identifier: Apache-2.0
#include "front/loop.h"

void loop_find_live_ranges(loop_graph *loops)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        loops->buffers.items[b].first_op = loops->buffers.items[b].last_op = LOOP_UNUSED;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            loop_buffer *buffer = &loops->buffers.items[op->operand[k].buffer];
            if (buffer->first_op == LOOP_UNUSED) buffer->first_op = i;
            buffer->last_op = i;
        }
    }
}
