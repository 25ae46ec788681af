// SPDX-License-Identifier: Apache-2.0
//
// Running values (tensor/running_value.h): one for every kept element, in LX, follows the tiles of
// the scanned dims, which come in their order as those of a reduction do. Of opfuncs that give
// positions a counter has that of a tile's first element.
#include "back/select_emitter.h"

#include "back/reduced_tile.h"
#include "back/staged_tile.h"
#include "bundle/step_facts.h"
#include "tensor/running_value.h"

typedef struct {
    emitter *e;
    nest n;
    tile_buffers tiles;
    opfunc op;
    uint32_t input, output;
    lx_region states, position, taken;
    tile_loops kept, scanned;
    const nest_class *present;
} scanning;

// --- Places

static place states_place(const scanning *s, const box *kept, const place_axes *axes)
{
    place home = place_home(&s->n, kept, axes, s->output);
    place_order order = place_sorted(&home, axes);
    return place_dense(kept, axes, &order, SPYRE_FORMAT_IEEE_INT64, sizeof(int64_t), &s->states);
}

// --- One tile

static spyre_status scan_tile(const scanning *s, const place_axes *axes, const box *b)
{
    box kept = box_kept(&s->n, b);
    place_axes kept_axes = place_find_axes(&s->n, &kept, 1);
    place whole = states_place(s, &kept, &kept_axes);
    place states = place_project(&whole, &kept_axes, axes);
    place position = place_cell(&s->position, SPYRE_FORMAT_IEEE_INT32);
    place input = buffers_place(&s->tiles, b, axes, s->input);
    place output = buffers_place(&s->tiles, b, axes, s->output);
    place_order order = reduced_order(&states, &output, axes);
    isa_instruction i = {.opcode = ISA_SCAN, .op = s->op};
    const place *const places[] = {&output, &states, &input, &position};
    TRY(emit_tile(s->e, &i, axes, &order, places, opfunc_gives_positions(s->op) ? 4 : 3));
    if (!opfunc_gives_positions(s->op) || s->scanned.levels.count == 0) return NULL;
    return reduced_count_taken(s->e, &s->n, b, &s->position, &s->taken);
}

static spyre_status scanned_body(void *context, const box *b)
{
    const scanning *s = context;
    place_axes axes = place_find_axes(&s->n, b, 1);
    TRY(staged_load(s->e, &s->tiles, b, &axes, 1));
    TRY(scan_tile(s, &axes, b));
    TRY(staged_release(s->e, &s->tiles, 1));
    return staged_store(s->e, &s->tiles, b, &axes);
}

static spyre_status kept_body(void *context, const box *part)
{
    const scanning *s = context;
    box b = box_kept(&s->n, part);
    place_axes axes = place_find_axes(&s->n, &b, 1);
    place states = states_place(s, &b, &axes);
    place position = place_cell(&s->position, SPYRE_FORMAT_IEEE_INT32);
    TRY(emit_fill(s->e, &axes, &states, running_start(s->op, s->n.operand[s->input].format)));
    if (opfunc_gives_positions(s->op))
        TRY(emit_fill(s->e, &(place_axes){0}, &position, 0.0f));
    b = box_reduced(&s->n, &b, s->present);
    return tile_loops_run(&s->scanned, &b);
}

// --- Tiles

static int64_t states_bytes(const scanning *s, const int64_t *tile)
{
    int64_t bytes = sizeof(int64_t);
    for (uint32_t d = 0; d < s->n.dim_count; d++)
        if (!s->n.reduced[d]) bytes *= tile[d];
    return bytes;
}

static int64_t lx_bytes(const void *context, const int64_t *tile)
{
    const scanning *s = context;
    return buffers_bytes(&s->tiles, tile) + 2 * LX_ALIGNMENT + lx_align(states_bytes(s, tile));
}

static spyre_status choose_tiles(scanning *s, int64_t *tile)
{
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t count = nest_order(&s->n, s->output, dims);
    tile_limits limits = {lx_share_bytes(s->e->options), lx_bytes, s};
    tile_smallest(&s->n, tile);
    TRY(tile_check(&limits, tile));
    tile_grow_reduced(&s->n, &limits, tile);
    tile_grow_kept(&s->n, &limits, dims, count, tile);
    tile_loops_add_reduced(&s->kept, &s->scanned, dims, count, tile);
    return NULL;
}

static spyre_status allocate(scanning *s, const int64_t *tile)
{
    lx_share share = lx_share_whole(s->e->options);
    TRY(buffers_take(&s->tiles, &share, tile));
    TRY(lx_take(&share, states_bytes(s, tile), false, &s->states));
    TRY(lx_take(&share, sizeof(int32_t), false, &s->position));
    return lx_take(&share, sizeof(int32_t), false, &s->taken);
}

spyre_status emit_scan(emitter *e, const bundle_step *step)
{
    scanning s = {.e = e, .op = step->op, .input = step->inputs[0], .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, 0, &s.n));
    for (uint32_t d = 0; d < s.n.dim_count; d++) s.n.reduced[d] = step->scanned[d];
    s.tiles = buffers_of(&s.n);
    s.kept = (tile_loops){.e = e, .n = &s.n, .body = kept_body, .context = &s};
    s.scanned = (tile_loops){.e = e, .n = &s.n, .body = scanned_body, .context = &s};
    int64_t tile[BUNDLE_MAX_DIMS];
    TRY(choose_tiles(&s, tile));
    TRY(allocate(&s, tile));
    tile_loops *innermost = s.scanned.levels.count ? &s.scanned : &s.kept;
    tile_loops_add_buffer(innermost, s.tiles.staged[s.input], ISA_QUEUE_LOAD, ISA_QUEUE_SFP,
                          TOKEN_INPUT_FREE);
    tile_loops_add_buffer(innermost, s.tiles.staged[s.output], ISA_QUEUE_SFP, ISA_QUEUE_STORE,
                          TOKEN_OUTPUT_FREE);
    s.kept.present = &s.present;
    return tile_loops_kernels(&s.kept);
}
