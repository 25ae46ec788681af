// SPDX-License-Identifier: Apache-2.0
//
// Invariants of places in LX and in the pool.
#include <inttypes.h>

#include "front/check/invariant.h"
#include "front/front.h"
#include "front/ir/lx_slices.h"

#define BROKEN(...) status_new(SPYRE_INTERNAL, __VA_ARGS__)

static bool in_lx(const loop_buffer *buffer)
{
    return buffer->in_lx;
}

// A place of whole sticks, of the bytes that the layout needs, below `limit`.
static spyre_status check_place(const loop_buffer *buffer, int64_t limit)
{
    int64_t bytes = loop_device_bytes(buffer);
    if (buffer->bytes != bytes)
        return BROKEN("%" PRId64 " bytes, its layout takes %" PRId64, buffer->bytes, bytes);
    if (buffer->memory_offset < 0 || buffer->memory_offset % SPYRE_STICK_BYTES ||
        bytes > limit - buffer->memory_offset)
        return BROKEN("%" PRId64 " bytes from byte %" PRId64 " on, of %" PRId64, bytes,
                      buffer->memory_offset, limit);
    return NULL;
}

spyre_status invariant_inside_lx(const loop_graph *loops, const loop_buffer *buffer)
{
    if (!buffer->in_lx) return NULL;
    if (buffer->kind != LOOP_LOCAL || buffer->output >= 0)
        return BROKEN("it enters or leaves the graph");
    return check_place(buffer, lx_limit_bytes(loops));
}

spyre_status invariant_inside_pool(const loop_graph *loops, const loop_buffer *buffer)
{
    return loop_in_pool(buffer) ? check_place(buffer, loops->pool_bytes) : NULL;
}

spyre_status invariant_sized_places(const loop_graph *loops, const loop_buffer *buffer)
{
    bool constant = buffer->kind == LOOP_CONSTANT && buffer->first_op != LOOP_UNUSED;
    if (!constant && (buffer->kind != LOOP_LOCAL || buffer->output < 0)) return NULL;
    loop_buffer sized = *buffer;
    if (!constant) sized.memory_offset = 0; // the launch's
    int64_t constants = (int64_t)loops->buffers.count * SPYRE_STICK_BYTES;
    return check_place(&sized, constant ? constants : INT64_MAX);
}

spyre_status invariant_own_slices(const loop_graph *loops)
{
    lx_fit *found;
    TRY(lx_fits_find(loops, &found));
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (!buffer->in_lx) continue;
        if (found[b].why) return BROKEN("buffer b%u %%%s: %s", b, buffer->name, found[b].why);
        for (uint32_t d = 0; d < buffer->dim_count; d++)
            if (buffer->slices[d] != found[b].slices[d])
                return BROKEN("buffer b%u %%%s: %d slices of dim %u, its ops make %d", b,
                              buffer->name, buffer->slices[d], d, found[b].slices[d]);
    }
    return NULL;
}

spyre_status invariant_true_lives(const loop_graph *loops)
{
    uint32_t count = loops->buffers.count;
    loop_graph found = *loops;
    TRY_NEW(loops->memory, found.buffers.items, count);
    for (uint32_t b = 0; b < count; b++) found.buffers.items[b] = loops->buffers.items[b];
    loop_find_live_ranges(&found);
    for (uint32_t b = 0; b < count; b++) {
        const loop_buffer *is = &loops->buffers.items[b], *should = &found.buffers.items[b];
        if (is->first_op != should->first_op || is->last_op != should->last_op)
            return BROKEN("buffer b%u %%%s: ops %u to %u, ops %u to %u touch it", b, is->name,
                          is->first_op, is->last_op, should->first_op, should->last_op);
    }
    return NULL;
}

// --- Overlaps

// True when `late` is the result of the op in which `early` dies, and may take its place.
static bool takes_place(const loop_graph *loops, uint32_t early, uint32_t late)
{
    const loop_buffer *from = &loops->buffers.items[early], *to = &loops->buffers.items[late];
    if (!to->in_lx || from->last_op != to->first_op) return false;
    if (from->memory_offset != to->memory_offset || from->bytes < to->bytes) return false;
    const loop_op *op = &loops->ops.items[to->first_op];
    if (loop_result(op)->buffer != late) return false;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        if (op->operand[k].buffer == early) return lx_in_place(loops, op, k);
    return false;
}

static spyre_status check_pair(const loop_graph *loops, uint32_t early, uint32_t late)
{
    const loop_buffer *x = &loops->buffers.items[early], *y = &loops->buffers.items[late];
    int64_t x_end = x->memory_offset + x->bytes, y_end = y->memory_offset + y->bytes;
    if (x_end <= y->memory_offset || y_end <= x->memory_offset) return NULL;
    if (takes_place(loops, early, late)) return NULL;
    return BROKEN("buffers b%u %%%s in bytes [%" PRId64 ", %" PRId64
                  ") during ops %u to %u and b%u %%%s in [%" PRId64 ", %" PRId64
                  ") during %u to %u",
                  early, x->name, x->memory_offset, x_end, x->first_op, x->last_op, late, y->name,
                  y->memory_offset, y_end, y->first_op, y->last_op);
}

// In the order of time, each buffer of the space against those that still live.
static spyre_status check_apart(const loop_graph *loops, bool (*in_space)(const loop_buffer *))
{
    uint32_t count = loops->buffers.count, live_count = 0;
    uint32_t *first = ARENA_NEW(loops->memory, uint32_t, loops->ops.count); // buffer + 1, by op
    uint32_t *next = ARENA_NEW(loops->memory, uint32_t, count);             // of the same op
    uint32_t *live = ARENA_NEW(loops->memory, uint32_t, count);
    TRY_ALLOC(first);
    TRY_ALLOC(next);
    TRY_ALLOC(live);
    for (uint32_t b = 0; b < count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (!in_space(buffer) || buffer->first_op >= loops->ops.count) continue;
        next[b] = first[buffer->first_op];
        first[buffer->first_op] = b + 1;
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        for (uint32_t at = first[i]; at; at = next[at - 1]) {
            uint32_t kept = 0;
            for (uint32_t n = 0; n < live_count; n++) {
                if (loops->buffers.items[live[n]].last_op < i) continue;
                TRY(check_pair(loops, live[n], at - 1));
                live[kept++] = live[n];
            }
            live[kept++] = at - 1;
            live_count = kept;
        }
    }
    return NULL;
}

spyre_status invariant_apart_in_lx(const loop_graph *loops)
{
    return check_apart(loops, in_lx);
}

spyre_status invariant_apart_in_pool(const loop_graph *loops)
{
    return check_apart(loops, loop_in_pool);
}
