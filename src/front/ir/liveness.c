// SPDX-License-Identifier: Apache-2.0
#include "front/ir/loop.h"

static void find_tiles(loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t t = 0; t < op->tile_depth; t++) {
            loop_tiles *tiles = &loops->tiles.items[op->tiles[t]];
            bool first = i == 0 || loop_shared_tiles(&loops->ops.items[i - 1], op) <= t;
            if (first) tiles->first_op = i;
            tiles->last_op = i;
        }
    }
}

void loop_find_live_ranges(loop_graph *loops)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        loops->buffers.items[b].first_op = loops->buffers.items[b].last_op = LOOP_UNUSED;
    find_tiles(loops);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            loop_buffer *buffer = &loops->buffers.items[op->operand[k].buffer];
            uint32_t first = i, last = i;
            if (buffer->tile_depth < op->tile_depth) {
                const loop_tiles *tiles = &loops->tiles.items[op->tiles[buffer->tile_depth]];
                first = tiles->first_op;
                last = tiles->last_op;
            }
            if (buffer->first_op == LOOP_UNUSED) buffer->first_op = first;
            if (buffer->last_op == LOOP_UNUSED || last > buffer->last_op) buffer->last_op = last;
        }
    }
}
