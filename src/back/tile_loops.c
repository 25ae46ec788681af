// SPDX-License-Identifier: Apache-2.0
#include "back/tile_loops.h"

// True when a box of `extent` elements of a dim has uniform axes: see place_find_axes().
static bool is_regular(const nest *n, uint32_t dim, int64_t extent)
{
    for (uint32_t s = 0; s < n->stick_count[dim]; s++)
        if (extent >= n->sticks[dim][s]) return extent % n->sticks[dim][s] == 0;
    return true;
}

void tile_loops_add(tile_loops *s, uint32_t dim, int64_t tile)
{
    bool needed = s->n->unit[dim] && s->n->most[dim] > tile;
    for (uint32_t c = 0; c < s->n->class_count; c++) {
        int64_t size = s->n->classes[c].size[dim];
        needed = needed || (!s->n->unit[dim] && (size > tile || !is_regular(s->n, dim, size)));
    }
    if (!needed) return;
    s->levels.dim[s->levels.count] = (uint8_t)dim;
    s->levels.tile[s->levels.count++] = tile;
}

void tile_loops_add_buffer(tile_loops *s, bool there_is_one, isa_queue producer, isa_queue consumer,
                           uint32_t free_token)
{
    if (there_is_one)
        s->buffers[s->buffer_count++] = (tile_loops_buffer){producer, consumer, free_token};
}

// The extent of the next tiles when `left` elements are to be done.
static int64_t next_tile(const nest *n, uint32_t dim, int64_t tile, int64_t left)
{
    if (tile > left) tile = left;
    for (uint32_t s = 0; s < n->stick_count[dim]; s++) {
        int64_t stick = n->sticks[dim][s];
        if (left < stick) continue;
        return tile < stick ? stick : tile / stick * stick;
    }
    return tile;
}

static spyre_status run_level(const tile_loops *s, uint32_t level, const box *b);

static spyre_status looped(const tile_loops *s, uint32_t level, box *b, int64_t count, int64_t step)
{
    emitter *e = s->e;
    if (count == 1 && !s->n->unit[s->levels.dim[level]]) return run_level(s, level + 1, b);
    TRY(emit_loop(e, count));
    b->loop[e->depth - 1] = (box_loop){s->levels.dim[level], step};
    TRY(run_level(s, level + 1, b));
    b->loop[e->depth - 1] = (box_loop){-1, 0};
    return emit_end_loop(e);
}

static spyre_status open_buffers(const tile_loops *s)
{
    for (uint32_t i = 0; i < s->buffer_count; i++)
        TRY(emit_signal(s->e, s->buffers[i].consumer, s->buffers[i].free_token));
    return NULL;
}

static spyre_status close_buffers(const tile_loops *s)
{
    for (uint32_t i = 0; i < s->buffer_count; i++)
        TRY(emit_wait(s->e, s->buffers[i].producer, s->buffers[i].free_token));
    return NULL;
}

static spyre_status double_buffered(const tile_loops *s, uint32_t level, box *b, int64_t count)
{
    emitter *e = s->e;
    uint32_t dim = s->levels.dim[level];
    int64_t tile = b->extent[dim];
    bool pairs = count / 2 > 1 || s->n->unit[dim];
    if (!s->stays_open) TRY(open_buffers(s));
    if (pairs) {
        TRY(emit_loop(e, count / 2));
        b->loop[e->depth - 1] = (box_loop){(int32_t)dim, 2 * tile};
    }
    TRY(emit_loop(e, 2));
    b->loop[e->depth - 1] = (box_loop){(int32_t)dim, tile};
    b->buffer_loop = (int32_t)e->depth - 1;
    TRY(s->body(s->context, b));
    b->buffer_loop = -1;
    b->loop[e->depth - 1] = (box_loop){-1, 0};
    TRY(emit_end_loop(e));
    if (pairs) {
        b->loop[e->depth - 1] = (box_loop){-1, 0};
        TRY(emit_end_loop(e));
    }
    if (count % 2) {
        b->start[dim] += (count - 1) * tile;
        TRY(s->body(s->context, b));
    }
    return s->stays_open ? NULL : close_buffers(s);
}

bool tile_loops_may_stay_open(const tile_loops *s, uint32_t depth)
{
    if (s->levels.count == 0 || s->buffer_count == 0) return false;
    uint32_t dim = s->levels.dim[s->levels.count - 1];
    int64_t tile = s->levels.tile[s->levels.count - 1];
    for (uint32_t c = 0; c < s->n->class_count; c++) {
        int64_t size = s->n->unit[dim] ? s->n->unit[dim] : s->n->classes[c].size[dim];
        if (size % (2 * tile) || next_tile(s->n, dim, tile, size) != tile) return false;
    }
    return depth + s->levels.count + 1 <= ISA_MAX_LOOPS;
}

static spyre_status run_level(const tile_loops *s, uint32_t level, const box *whole)
{
    if (level == s->levels.count) return s->body(s->context, whole);
    uint32_t dim = s->levels.dim[level];
    box b = *whole;
    int64_t left = whole->extent[dim], done = 0, unit = s->n->unit[dim];
    b.open &= ~(1u << dim);
    while (left > 0) {
        int64_t tile = next_tile(s->n, dim, s->levels.tile[level], left), count = left / tile;
        b.start[dim] = whole->start[dim] + done;
        b.extent[dim] = tile;
        bool innermost = level + 1 == s->levels.count;
        bool several = unit ? unit / tile % 2 == 0 : count > 1;
        bool doubled =
            s->buffer_count && innermost && several && s->e->depth + 2 <= ISA_MAX_LOOPS;
        if (doubled)
            TRY(double_buffered(s, level, &b, count));
        else
            TRY(looped(s, level, &b, count, tile));
        done += count * tile;
        left -= count * tile;
    }
    return NULL;
}

spyre_status tile_loops_run(const tile_loops *s, const box *whole)
{
    return run_level(s, 0, whole);
}

static spyre_status run_kernel(const tile_loops *s, uint32_t cores, const box *whole)
{
    TRY(emit_kernel(s->e, s->n, cores));
    if (s->inner) TRY(open_buffers(s->inner));
    TRY(tile_loops_run(s, whole));
    if (s->inner) TRY(close_buffers(s->inner));
    return emit_end_kernel(s->e);
}

// Whole tiles of the dims from `level` on, and what these leave.
static spyre_status run_parts(const tile_loops *s, uint32_t level, uint32_t cores, const box *whole)
{
    if (level == s->levels.count || !s->rests_apart) return run_kernel(s, cores, whole);
    uint32_t dim = s->levels.dim[level];
    int64_t extent = whole->extent[dim], rest = extent % s->levels.tile[level];
    bool apart = rest && rest < extent && !s->n->unit[dim] && !s->n->stick_count[dim];
    box part = *whole;
    part.extent[dim] = apart ? extent - rest : extent;
    TRY(run_parts(s, level + 1, cores, &part));
    part.start[dim] += extent - rest;
    part.extent[dim] = rest;
    return apart ? run_parts(s, level + 1, cores, &part) : NULL;
}

spyre_status tile_loops_kernels(const tile_loops *s)
{
    piece pieces[BUNDLE_MAX_CORES];
    uint32_t count = pieces_of(s->n, pieces);
    for (uint32_t p = 0; p < count; p++) {
        if (s->present) *s->present = pieces[p].present;
        TRY(run_parts(s, 0, pieces[p].cores, &pieces[p].whole));
    }
    return NULL;
}
