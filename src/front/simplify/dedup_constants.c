// SPDX-License-Identifier: Apache-2.0
//
// dedup_constants: scalars reach the card as one-element tensors; equal ones (same value bits, same
// format) become one buffer. Constants never are graph outputs: front_build copies those.
#include "front/front.h"

#include <string.h>

spyre_status pass_dedup_constants(loop_graph *loops, bool *out_changed)
{
    uint32_t *same = ARENA_NEW(loop_scratch(loops), uint32_t, loops->buffers.count);
    TRY_ALLOC(same);
    map_bytes seen = {0};
    *out_changed = false;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        same[b] = b;
        if (buffer->kind != LOOP_CONSTANT) continue;
        struct {
            double value;
            uint64_t format, scalar, form;
        } key = {buffer->value, buffer->format, buffer->scalar, buffer->form};
        TRY(map_bytes_intern(loop_scratch(loops), &seen, &key, sizeof key, b, &same[b]));
        if (same[b] != b) *out_changed = true;
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++)
            op->operand[k].buffer = same[op->operand[k].buffer];
    }
    return NULL;
}
