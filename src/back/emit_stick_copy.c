// SPDX-License-Identifier: Apache-2.0
//
// Copies of whole sticks: LOAD and STORE through one tile, without any compute. When one side is in
// LX, a single LOAD or STORE does all.
#include "back/select_emitter.h"

#include "back/tile_loops.h"
#include "back/tile_buffers.h"

typedef struct {
    emitter *e;
    nest n;
    tile_buffers tiles; // the output's is used from both sides
    uint32_t input, output;
    bool through_tile;
} copy;

static spyre_status body(void *context, const box *b)
{
    const copy *c = context;
    emitter *e = c->e;
    place_axes axes = place_find_axes(&c->n, b, 1);
    place source = place_home(&c->n, b, &axes, c->input);
    place target = place_home(&c->n, b, &axes, c->output);
    if (target.operand.space == ISA_SPACE_LX) return emit_load(e, &axes, &target, &source);
    if (source.operand.space == ISA_SPACE_LX) return emit_store(e, &axes, &target, &source);
    place tile = buffers_place(&c->tiles, b, &axes, c->output);
    TRY(emit_load(e, &axes, &tile, &source));
    TRY(emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    TRY(emit_store(e, &axes, &target, &tile));
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_LOAD, TOKEN_OUTPUT_FREE);
}

spyre_status emit_stick_copy(emitter *e, const bundle_step *step)
{
    copy c = {.e = e, .input = step->inputs[0], .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, 0, &c.n));
    c.tiles = buffers_of(&c.n);
    c.through_tile = c.tiles.staged[c.input] && c.tiles.staged[c.output];
    c.tiles.staged[c.input] = false;
    c.tiles.staged[c.output] = c.through_tile;

    int64_t tile[BUNDLE_MAX_DIMS];
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&c.n, c.output, dims);
    TRY(buffers_fit(&c.tiles, e->options, dims, dim_count, tile));

    tile_loops s = {.e = e, .n = &c.n, .body = body, .context = &c};
    tile_loops_add_buffer(&s, c.through_tile, ISA_QUEUE_LOAD, ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
    for (uint32_t d = 0; d < dim_count; d++) tile_loops_add(&s, dims[d], tile[dims[d]]);
    return tile_loops_kernels(&s);
}
