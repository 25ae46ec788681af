// SPDX-License-Identifier: Apache-2.0
//
// memory_planning: gives local buffers that do not leave the segment a place in one pool, first fit
// over their live ranges, and constants a stick each. The free list is ordered by offset and merged,
// so the cost is the number of buffers times the holes at any time, which stay few.
#include "front/front.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
    int64_t offset, bytes;
} hole;

typedef struct {
    arena *memory;
    VEC(hole) holes; // by offset, never adjacent
    int64_t top;     // the pool's size so far
} pool;

static spyre_status insert_hole(pool *p, uint32_t at, hole h)
{
    TRY(VEC_PUSH(p->memory, &p->holes, h));
    memmove(&p->holes.items[at + 1], &p->holes.items[at], (p->holes.count - 1 - at) * sizeof(hole));
    p->holes.items[at] = h;
    return NULL;
}

static int64_t take(pool *p, int64_t bytes)
{
    for (uint32_t i = 0; i < p->holes.count; i++) {
        hole *h = &p->holes.items[i];
        if (h->bytes < bytes) continue;
        int64_t offset = h->offset;
        h->offset += bytes;
        h->bytes -= bytes;
        if (h->bytes == 0) {
            memmove(h, h + 1, (p->holes.count - 1 - i) * sizeof(hole));
            p->holes.count--;
        }
        return offset;
    }
    // A hole at the very top grows into new memory.
    hole *last = p->holes.count ? &p->holes.items[p->holes.count - 1] : NULL;
    int64_t offset = p->top;
    if (last && last->offset + last->bytes == p->top) {
        offset = last->offset;
        p->holes.count--;
    }
    p->top = offset + bytes;
    return offset;
}

static spyre_status give_back(pool *p, int64_t offset, int64_t bytes)
{
    uint32_t at = 0;
    while (at < p->holes.count && p->holes.items[at].offset < offset) at++;
    hole *below = at > 0 ? &p->holes.items[at - 1] : NULL;
    hole *above = at < p->holes.count ? &p->holes.items[at] : NULL;
    bool joins_below = below && below->offset + below->bytes == offset;
    bool joins_above = above && offset + bytes == above->offset;
    if (joins_below && joins_above) {
        below->bytes += bytes + above->bytes;
        memmove(above, above + 1, (p->holes.count - 1 - at) * sizeof(hole));
        p->holes.count--;
    } else if (joins_below) {
        below->bytes += bytes;
    } else if (joins_above) {
        above->offset = offset;
        above->bytes += bytes;
    } else {
        return insert_hole(p, at, (hole){offset, bytes});
    }
    return NULL;
}

static bool pooled(const loop_buffer *buffer)
{
    return buffer->kind == LOOP_LOCAL && buffer->output < 0;
}

static void find_live_ranges(loop_graph *loops)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        loops->buffers.items[b].first_op = UINT32_MAX;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            loop_buffer *buffer = &loops->buffers.items[op->operand[k].buffer];
            if (buffer->first_op == UINT32_MAX) buffer->first_op = i;
            buffer->last_op = i;
        }
    }
}

spyre_status pass_memory_planning(loop_graph *loops, bool *out_changed)
{
    pool p = {.memory = loops->memory};
    int64_t constants = 0;
    find_live_ranges(loops);
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        loop_buffer *buffer = &loops->buffers.items[b];
        int64_t strides[LOOP_MAX_DIMS];
        if (buffer->first_op == UINT32_MAX && buffer->kind != LOOP_INPUT && buffer->output < 0)
            continue; // unused
        loop_device_strides(buffer, strides, &buffer->bytes);
        if (buffer->kind != LOOP_CONSTANT) continue;
        buffer->memory_offset = constants;
        constants += SPYRE_STICK_BYTES;
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        loop_buffer *result = &loops->buffers.items[loop_output_of(op)->buffer];
        if (pooled(result) && result->first_op == i)
            result->memory_offset = take(&p, result->bytes);
        for (uint32_t k = 0; k < op->operand_count; k++) {
            loop_buffer *buffer = &loops->buffers.items[op->operand[k].buffer];
            if (!pooled(buffer) || buffer->last_op != i) continue;
            buffer->last_op = UINT32_MAX; // freed: an operand may be named twice
            TRY(give_back(&p, buffer->memory_offset, buffer->bytes));
        }
    }
    if ((uint64_t)p.top > BUNDLE_SEGMENT_BYTES)
        return status_new(SPYRE_OUT_OF_MEMORY,
                          "intermediates need a pool of %" PRId64 " bytes; a segment holds %llu",
                          p.top, (unsigned long long)BUNDLE_SEGMENT_BYTES);
    loops->pool_bytes = p.top;
    *out_changed = true;
    return NULL;
}
