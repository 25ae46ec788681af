// SPDX-License-Identifier: Apache-2.0
//
// Running values (tensor/running_value.h): one for every kept element, in LX, follows the tiles of
// the scanned dims, which come in their order as those of a reduction do. Of opfuncs that give
// positions a counter has that of a tile's first element.
#include "back/select.h"

#include "back/reduced_tile.h"
#include "back/tile_loops.h"
#include "back/tile_buffers.h"
#include "bundle/derived.h"
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

static place counter_place(const lx_region *region)
{
    return (place){.operand = {.space = ISA_SPACE_LX,
                               .format = SPYRE_FORMAT_IEEE_INT32,
                               .offset = region->offset}};
}

// Kept axes, then scanned ones in their order; the densest kept axis comes last, because that is
// where neighbours are independent.
static place_order scan_order(const scanning *s, const place_axes *axes, const place *states)
{
    place_order order = {0}, kept = place_sorted(states, axes);
    for (uint32_t i = 0; i + 1 < kept.count; i++) order.axis[order.count++] = kept.axis[i];
    for (uint32_t a = 0; a < axes->count; a++)
        if (s->n.reduced[axes->axis[a].dim]) order.axis[order.count++] = (uint8_t)a;
    if (kept.count) order.axis[order.count++] = kept.axis[kept.count - 1];
    return order;
}

// --- One tile

static spyre_status count_taken(const scanning *s, const box *b)
{
    if (!opfunc_gives_positions(s->op) || s->scanned.levels.count == 0) return NULL;
    int64_t elements = 1;
    for (uint32_t d = 0; d < s->n.dim_count; d++)
        if (s->n.reduced[d]) elements *= b->extent[d];
    place position = counter_place(&s->position), taken = counter_place(&s->taken);
    const place_axes none = {0};
    TRY(emit_fill(s->e, &none, &taken, (float)elements));
    return emit_vector(s->e, OPFUNC_ADD, NULL, &none,
                       (const place *const[]){&position, &position, &taken}, 3);
}

static spyre_status scan_tile(const scanning *s, const place_axes *axes, const box *b)
{
    box kept = box_kept(&s->n, b);
    place_axes kept_axes = place_find_axes(&s->n, &kept, 1);
    place whole = states_place(s, &kept, &kept_axes);
    place states = place_project(&whole, &kept_axes, axes), position = counter_place(&s->position);
    place input = buffers_place(&s->tiles, b, axes, s->input);
    place output = buffers_place(&s->tiles, b, axes, s->output);
    place_order order = scan_order(s, axes, &states);
    isa_instruction i = {.opcode = ISA_SCAN, .op = s->op};
    const place *const places[] = {&output, &states, &input, &position};
    TRY(emit_tile(s->e, &i, axes, &order, places, opfunc_gives_positions(s->op) ? 4 : 3));
    return count_taken(s, b);
}

static spyre_status load(const scanning *s, const box *b, const place_axes *axes)
{
    place home = place_home(&s->n, b, axes, s->input);
    place tile = buffers_place(&s->tiles, b, axes, s->input);
    TRY(emit_load(s->e, axes, &tile, &home));
    return emit_handover(s->e, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, TOKEN_INPUT_FULL);
}

static spyre_status scanned_body(void *context, const box *b)
{
    const scanning *s = context;
    emitter *e = s->e;
    place_axes axes = place_find_axes(&s->n, b, 1);
    bool loads = s->tiles.staged[s->input];
    if (loads) TRY(load(s, b, &axes));
    TRY(scan_tile(s, &axes, b));
    if (loads) TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_LOAD, TOKEN_INPUT_FREE));
    if (!s->tiles.staged[s->output]) return NULL;
    place home = place_home(&s->n, b, &axes, s->output);
    place tile = buffers_place(&s->tiles, b, &axes, s->output);
    TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    TRY(emit_store(e, &axes, &home, &tile));
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_SFP, TOKEN_OUTPUT_FREE);
}

static spyre_status kept_body(void *context, const box *part)
{
    const scanning *s = context;
    box b = box_kept(&s->n, part);
    place_axes axes = place_find_axes(&s->n, &b, 1);
    place states = states_place(s, &b, &axes), position = counter_place(&s->position);
    TRY(emit_fill(s->e, &axes, &states, running_start(s->op, s->n.operand[s->input].format)));
    if (opfunc_gives_positions(s->op))
        TRY(emit_fill(s->e, &(place_axes){0}, &position, 0.0f));
    for (uint32_t d = 0; d < s->n.dim_count; d++)
        if (s->n.reduced[d]) box_span(&s->n, &b, d, s->present->size[d]);
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
    for (uint32_t i = 0; i < count; i++)
        if (!s->n.reduced[dims[i]]) tile_loops_add(&s->kept, dims[i], tile[dims[i]]);
    for (uint32_t d = 0; d < s->n.dim_count; d++)
        if (s->n.reduced[d]) tile_loops_add(&s->scanned, d, tile[d]);
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
