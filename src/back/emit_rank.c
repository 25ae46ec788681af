// SPDX-License-Identifier: Apache-2.0
//
// topkvalue and topkindex: a ranking of entries (tensor/rank.h) for every kept element takes in
// the tiles of the reduced dims, whose positions a counter in LX follows from tile to tile; then
// values or positions are taken out of the entries.
#include "back/select.h"

#include <math.h>

#include "back/reduced_tile.h"
#include "back/schedule.h"
#include "back/stage.h"

typedef struct {
    emitter *e;
    nest n;
    stage tiles;
    uint32_t input, output;
    int64_t ranks;                   // entries of a ranking
    int64_t weight[BUNDLE_MAX_DIMS]; // ranks from one index of a dim of ranks to the next; else 0
    int64_t reduced_bytes;           // cap on the input tile
    lx_region entries, position, taken;
    schedule kept, reduced;
    const nest_class *present; // whose elements are ranked
} ranking;

// --- Places

// The axes of a box without the dims of ranks; in their place one over all ranks, which is the
// last.
static place_axes axes_of(const ranking *r, const box *b)
{
    box one = *b;
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->weight[d]) one.extent[d] = 1;
    place_axes axes = place_find_axes(&r->n, &one, 1);
    axes.axis[axes.count++] = (place_axis){PLACE_LANES, r->ranks, 1};
    return axes;
}

// First all greatest ones, then those behind them.
static place entries_place(const ranking *r, const box *kept, const place_axes *axes)
{
    place home = place_home(&r->n, kept, axes, r->input);
    place_order elements = place_sorted(&home, axes), order = {.count = 1};
    order.axis[0] = (uint8_t)(axes->count - 1);
    for (uint32_t i = 0; i < elements.count; i++) order.axis[order.count++] = elements.axis[i];
    return place_dense(kept, axes, &order, SPYRE_FORMAT_IEEE_INT64, sizeof(int64_t), &r->entries);
}

static place counter_place(const lx_region *region)
{
    return (place){.operand = {.space = ISA_SPACE_LX,
                               .format = SPYRE_FORMAT_IEEE_INT32,
                               .offset = region->offset}};
}

// --- One core

// Ranks, then kept axes, then reduced ones in their order; the densest kept axis comes last,
// because that is where neighbours are independent.
static place_order rank_order(const place_axes *axes, const place *entries, const place *input)
{
    place_order order = {.count = 1}, kept = place_sorted(entries, axes);
    order.axis[0] = (uint8_t)(axes->count - 1);
    uint32_t last = kept.count > 1 ? kept.axis[kept.count - 1] : order.axis[0];
    for (uint32_t i = 0; i < kept.count; i++)
        if (kept.axis[i] != order.axis[0] && kept.axis[i] != last)
            order.axis[order.count++] = kept.axis[i];
    for (uint32_t a = 0; a < axes->count; a++)
        if (entries->stride[a] == 0 && input->stride[a]) order.axis[order.count++] = (uint8_t)a;
    if (last != order.axis[0]) order.axis[order.count++] = (uint8_t)last;
    return order;
}

static spyre_status count_taken(const ranking *r, const box *b)
{
    if (r->reduced.levels.count == 0) return NULL;
    int64_t candidates = 1;
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->n.reduced[d]) candidates *= b->extent[d];
    place position = counter_place(&r->position), taken = counter_place(&r->taken);
    const place_axes none = {0};
    TRY(emit_fill(r->e, &none, &taken, (float)candidates));
    return emit_vector(r->e, OPFUNC_ADD, NULL, &none,
                       (const place *const[]){&position, &position, &taken}, 3);
}

static spyre_status rank_tile(const ranking *r, const place_axes *axes, const box *b,
                              const place *input)
{
    box kept = box_kept(&r->n, b);
    place_axes kept_axes = axes_of(r, &kept);
    place whole = entries_place(r, &kept, &kept_axes);
    place entries = place_project(&whole, &kept_axes, axes), position = counter_place(&r->position);
    place_order order = rank_order(axes, &entries, input);
    isa_instruction i = {.opcode = ISA_RANK};
    TRY(emit_tile(r->e, &i, axes, &order, (const place *const[]){&entries, input, &position}, 3));
    return count_taken(r, b);
}

static spyre_status reduced_body(void *context, const box *b)
{
    const ranking *r = context;
    emitter *e = r->e;
    place_axes axes = axes_of(r, b);
    place input = stage_place(&r->tiles, b, &axes, r->input);
    if (!r->tiles.staged[r->input]) return rank_tile(r, &axes, b, &input);
    place home = place_home(&r->n, b, &axes, r->input);
    TRY(emit_load(e, &axes, &input, &home));
    TRY(emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, TOKEN_INPUT_FULL));
    TRY(rank_tile(r, &axes, b, &input));
    return emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_LOAD, TOKEN_INPUT_FREE);
}

static spyre_status rank_core(const ranking *r, const box *part)
{
    box b = box_kept(&r->n, part);
    place_axes axes = axes_of(r, &b);
    place entries = entries_place(r, &b, &axes), position = counter_place(&r->position);
    TRY(emit_fill(r->e, &axes, &entries, -INFINITY)); // the least integer: no entry
    TRY(emit_fill(r->e, &(place_axes){0}, &position, 0.0f));
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->n.reduced[d]) box_span(&r->n, &b, d, r->present->size[d]);
    return schedule_run(&r->reduced, &b);
}

// Entries along the axes of the output.
static place spread_entries(const ranking *r, const box *kept, const place_axes *axes)
{
    place_axes own = axes_of(r, kept);
    place entries = entries_place(r, kept, &own), spread = place_project(&entries, &own, axes);
    for (uint32_t a = 0; a < axes->count; a++) {
        const place_axis *axis = &axes->axis[a];
        if (axis->dim == PLACE_LANES || !r->weight[axis->dim]) continue;
        spread.stride[a] = entries.stride[own.count - 1] * r->weight[axis->dim] * axis->step;
    }
    return spread;
}

static spyre_status kept_body(void *context, const box *b)
{
    const ranking *r = context;
    emitter *e = r->e;
    TRY(rank_core(r, b));
    box kept = box_kept(&r->n, b);
    place_axes axes = place_find_axes(&r->n, &kept, 1);
    place home = place_home(&r->n, &kept, &axes, r->output);
    place target = stage_place(&r->tiles, &kept, &axes, r->output);
    place entries = spread_entries(r, &kept, &axes);
    place_order order = place_sorted(&target, &axes);
    isa_instruction i = {.opcode = ISA_RANKED, .op = r->n.step->op};
    TRY(emit_tile(e, &i, &axes, &order, (const place *const[]){&target, &entries}, 2));
    if (!r->tiles.staged[r->output]) return NULL;
    TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    TRY(emit_store(e, &axes, &home, &target));
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_SFP, TOKEN_OUTPUT_FREE);
}

// --- Tiles

static int64_t entries_bytes(const ranking *r, const int64_t *tile)
{
    int64_t bytes = r->ranks * (int64_t)sizeof(int64_t);
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (!r->n.reduced[d] && !r->weight[d]) bytes *= tile[d];
    return bytes;
}

static int64_t footprint(const void *context, const int64_t *tile)
{
    const ranking *r = context;
    if (r->tiles.staged[r->input] && place_tile_bytes(&r->n, r->input, tile) > r->reduced_bytes)
        return INT64_MAX / 2;
    return stage_footprint(&r->tiles, tile) + lx_align(entries_bytes(r, tile)) + 2 * LX_ALIGNMENT;
}

static spyre_status choose_tiles(ranking *r, int64_t *tile)
{
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&r->n, r->input, dims);
    tile_limits limits = {lx_share_bytes(r->e->options), footprint, r};
    tile_smallest(&r->n, tile);
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->weight[d]) tile[d] = r->n.most[d];
    r->reduced_bytes = STAGE_LARGEST_TILE_BYTES;
    TRY(tile_check(&limits, tile));
    tile_grow_reduced(&r->n, &limits, tile);
    tile_grow_kept(&r->n, &limits, dims, dim_count, tile);
    for (uint32_t i = 0; i < dim_count; i++)
        if (!r->n.reduced[dims[i]] && !r->weight[dims[i]])
            schedule_add(&r->kept, dims[i], tile[dims[i]]);
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->n.reduced[d]) schedule_add(&r->reduced, d, tile[d]);
    return NULL;
}

static spyre_status allocate(ranking *r, const int64_t *tile)
{
    lx_share share = lx_share_whole(r->e->options);
    TRY(stage_take(&r->tiles, &share, tile));
    TRY(lx_take(&share, entries_bytes(r, tile), false, &r->entries));
    TRY(lx_take(&share, sizeof(int32_t), false, &r->position));
    return lx_take(&share, sizeof(int32_t), false, &r->taken);
}

static spyre_status find_ranks(ranking *r)
{
    const nest_operand *in = &r->n.operand[r->input], *out = &r->n.operand[r->output];
    r->ranks = 1;
    for (uint32_t d = r->n.dim_count; d-- > 0;) {
        if (r->n.reduced[d] || in->stride[d] || !out->stride[d]) continue;
        int64_t stick = nest_granule(&r->n, d);
        if (r->n.size[d] > stick && r->n.size[d] % stick)
            return status_new(SPYRE_UNSUPPORTED, "N_: %lld ranks along a stick of %lld",
                              (long long)r->n.size[d], (long long)stick);
        r->weight[d] = r->ranks;
        r->ranks *= r->n.size[d];
    }
    return NULL;
}

static void add_buffers(ranking *r)
{
    bool deep = r->reduced.levels.count;
    schedule *innermost = deep ? &r->reduced : &r->kept;
    schedule_add_buffer(innermost, r->tiles.staged[r->input], ISA_QUEUE_LOAD, ISA_QUEUE_SFP,
                        TOKEN_INPUT_FREE);
    schedule_add_buffer(innermost, !deep && r->tiles.staged[r->output], ISA_QUEUE_SFP,
                        ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
}

spyre_status emit_rank(emitter *e, const bundle_step *step)
{
    ranking r = {.e = e, .input = step->inputs[0], .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, 0, &r.n));
    TRY(find_ranks(&r));
    r.tiles = stage_of(&r.n);
    r.kept = (schedule){.e = e, .n = &r.n, .body = kept_body, .context = &r};
    r.reduced = (schedule){.e = e, .n = &r.n, .body = reduced_body, .context = &r};
    int64_t tile[BUNDLE_MAX_DIMS];
    TRY(choose_tiles(&r, tile));
    TRY(allocate(&r, tile));
    add_buffers(&r);
    r.kept.present = &r.present;
    return schedule_kernels(&r.kept);
}
