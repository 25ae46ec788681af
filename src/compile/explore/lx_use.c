// SPDX-License-Identifier: Apache-2.0
//
// How much of a core's LX is in use, op by op, and how the rest is cut up.
#include <stdlib.h>

#include "compile/explore/lx_stage.h"

static int by_offset(const void *a, const void *b)
{
    const lx_buffer *x = *(const lx_buffer *const *)a, *y = *(const lx_buffer *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Bytes in use and in the largest gap, of buffers in the order of their offsets.
static void measure(const lx_buffer *const *live, uint32_t count, int64_t limit_bytes,
                    int64_t *out_used, int64_t *out_gap)
{
    int64_t end = 0;
    *out_used = *out_gap = 0;
    for (uint32_t n = 0; n < count; n++) {
        int64_t begin = live[n]->offset, until = begin + live[n]->bytes;
        if (begin - end > *out_gap) *out_gap = begin - end;
        if (begin < end) begin = end;           // one takes the place of another
        if (until > begin) *out_used += until - begin;
        if (until > end) end = until;
    }
    if (limit_bytes - end > *out_gap) *out_gap = limit_bytes - end;
}

spyre_status lx_map_use(arena *memory, const lx_map *map, spyre_lx_use *out)
{
    int64_t sum = 0;
    const lx_buffer **live = ARENA_NEW(memory, const lx_buffer *, map->buffers.count + 1);
    TRY_ALLOC(live);
    *out = (spyre_lx_use){.ops = map->ops.count,
                          .buffers = map->buffers.count,
                          .limit_bytes = map->limit_bytes};
    for (uint32_t b = 0; b < map->buffers.count; b++) sum += map->buffers.items[b].bytes;
    for (uint32_t op = 0; op < map->ops.count; op++) {
        uint32_t count = 0;
        int64_t used, gap;
        for (uint32_t b = 0; b < map->buffers.count; b++) {
            const lx_buffer *buffer = &map->buffers.items[b];
            if (buffer->first <= op && op <= buffer->last) live[count++] = buffer;
        }
        qsort(live, count, sizeof *live, by_offset);
        measure(live, count, map->limit_bytes, &used, &gap);
        int64_t free_bytes = map->limit_bytes - used;
        if (used > out->peak_bytes) out->peak_bytes = used;
        out->average_bytes += (double)used / map->ops.count;
        if (free_bytes > 0)
            out->fragmentation += (double)(free_bytes - gap) / (double)free_bytes / map->ops.count;
    }
    if (out->peak_bytes) out->reuse = (double)sum / (double)out->peak_bytes;
    return NULL;
}

spyre_status spyre_executable_lx_use(const spyre_executable *executable, uint32_t segment,
                                     spyre_lx_use *out_use)
{
    char *source;
    lx_map map;
    TRY(spyre_executable_text(executable, segment, "lx", &source));
    arena *memory = arena_create();
    spyre_status status = memory ? NULL : status_no_memory();
    if (!status) status = lx_map_parse(memory, "lx", source, &map);
    if (!status) status = lx_map_use(memory, &map, out_use);
    arena_destroy(memory);
    spyre_string_free(source);
    return status;
}
