// SPDX-License-Identifier: Apache-2.0
#include "front/plan/lx_headroom.h"

#include "front/ir/lx_slices.h"

enum { MOST_NAMED = 3 };

typedef struct {
    const loop_graph *loops;
    const loop_buffer *wanted;
    int64_t bytes, limit; // of a slice
    int64_t address;      // of the best place so far, and the bytes that have to leave it
    int64_t leaving;
} room;

static int64_t slice_bytes(const loop_graph *loops, uint32_t id)
{
    loop_buffer sliced = loops->buffers.items[id];
    for (uint32_t d = 0; d < sliced.dim_count; d++) sliced.slices[d] = 1;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (loop_result(op)->buffer != id) continue;
        lx_slices written = lx_slices_written(loops, op);
        for (uint32_t d = 0; d < sliced.dim_count; d++) sliced.slices[d] = written.slices[d];
        break;
    }
    sliced.in_lx = true;
    return loop_device_bytes(&sliced);
}

static bool is_in_the_way(const room *r, const loop_buffer *b, int64_t address)
{
    bool overlaps = b->first_op <= r->wanted->last_op && b->last_op >= r->wanted->first_op;
    return b->in_lx && overlaps && b->memory_offset < address + r->bytes &&
           b->memory_offset + b->bytes > address;
}

static void try_place(room *r, int64_t address)
{
    int64_t leaving = 0;
    if (address < 0 || r->bytes > r->limit - address) return;
    for (uint32_t b = 0; b < r->loops->buffers.count; b++)
        if (is_in_the_way(r, &r->loops->buffers.items[b], address))
            leaving += r->loops->buffers.items[b].bytes;
    if (leaving >= r->leaving) return;
    r->address = address;
    r->leaving = leaving;
}

static const char *name_leaving(const room *r, arena *memory)
{
    const char *names = "";
    uint32_t count = 0;
    for (uint32_t b = 0; b < r->loops->buffers.count && names; b++) {
        const loop_buffer *other = &r->loops->buffers.items[b];
        if (!is_in_the_way(r, other, r->address) || ++count > MOST_NAMED) continue;
        names =
            arena_printf(memory, "%s%s%%%s (b%u)", names, count > 1 ? ", " : "", other->name, b);
    }
    if (names && count > MOST_NAMED)
        names = arena_printf(memory, "%s and %u more", names, count - MOST_NAMED);
    if (!names) return NULL;
    return arena_printf(memory, "for that %s %s to leave", names, count > 1 ? "have" : "has");
}

const char *lx_headroom_describe(const loop_graph *loops, uint32_t buffer, arena *memory)
{
    room r = {.loops = loops,
              .wanted = &loops->buffers.items[buffer],
              .bytes = slice_bytes(loops, buffer),
              .limit = lx_limit_bytes(loops),
              .leaving = INT64_MAX};
    if (r.bytes > r.limit) return "a core's slice is larger than LX";
    try_place(&r, 0);
    for (uint32_t b = 0; b < loops->buffers.count && r.leaving; b++) {
        const loop_buffer *other = &loops->buffers.items[b];
        if (!other->in_lx) continue;
        try_place(&r, other->memory_offset + other->bytes);
        try_place(&r, other->memory_offset - r.bytes);
    }
    return r.leaving ? name_leaving(&r, memory) : "there is room";
}
