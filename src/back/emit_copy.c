// SPDX-License-Identifier: Apache-2.0
//
// Copies of whole sticks: LOAD and STORE through one tile, without any compute. When one side is in
// LX, a single LOAD or STORE does all.
#include "back/select.h"

#include "back/schedule.h"
#include "back/stage.h"

typedef struct {
    emitter *e;
    nest n;
    stage tiles; // the output's is used from both sides
    uint32_t input, output;
    bool through_tile;
} copy;

static spyre_status open_buffers(void *context)
{
    const copy *c = context;
    return emit_signal(c->e, ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
}

static spyre_status close_buffers(void *context)
{
    const copy *c = context;
    return emit_wait(c->e, ISA_QUEUE_LOAD, TOKEN_OUTPUT_FREE);
}

static spyre_status body(void *context, const box *b)
{
    const copy *c = context;
    emitter *e = c->e;
    place_axes axes = place_find_axes(&c->n, b, 1);
    place source = place_home(&c->n, b, &axes, c->input);
    place target = place_home(&c->n, b, &axes, c->output);
    if (target.operand.space == ISA_SPACE_LX) return emit_load(e, &axes, &target, &source);
    if (source.operand.space == ISA_SPACE_LX) return emit_store(e, &axes, &target, &source);
    place tile = stage_place(&c->tiles, b, &axes, c->output);
    TRY(emit_load(e, &axes, &tile, &source));
    TRY(emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    TRY(emit_store(e, &axes, &target, &tile));
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_LOAD, TOKEN_OUTPUT_FREE);
}

spyre_status emit_copy(emitter *e, const bundle_step *step)
{
    copy c = {.e = e, .input = step->inputs[0], .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->depth, 0, &c.n));
    c.tiles = stage_of(&c.n);
    c.through_tile = c.tiles.staged[c.input] && c.tiles.staged[c.output];
    c.tiles.staged[c.input] = false;
    c.tiles.staged[c.output] = c.through_tile;

    int64_t tile[BUNDLE_MAX_DIMS];
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&c.n, c.output, dims);
    tile_limits limits = {lx_share_bytes(e->options), stage_footprint, &c.tiles};
    tile_smallest(&c.n, tile);
    TRY(tile_check(&limits, tile));
    tile_grow_all(&c.n, &limits, dims, dim_count, tile);
    lx_share share = lx_share_whole(e->options);
    TRY(stage_take(&c.tiles, &share, tile));

    schedule s = {.e = e, .n = &c.n, .body = body, .context = &c};
    if (c.through_tile) {
        s.open = open_buffers;
        s.close = close_buffers;
    }
    for (uint32_t d = 0; d < dim_count; d++) schedule_add(&s, dims[d], tile[dims[d]]);
    for (uint32_t k = 0; k < c.n.class_count; k++) {
        if (nest_class_empty(&c.n, &c.n.classes[k])) continue;
        box whole = box_of_class(&c.n, &c.n.classes[k]);
        TRY(emit_kernel(e, &c.n, c.n.classes[k].cores));
        TRY(schedule_run(&s, &whole));
        TRY(emit_end_kernel(e));
    }
    return NULL;
}
