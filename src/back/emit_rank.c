// SPDX-License-Identifier: Apache-2.0
//
// topkvalue and its like: a ranking of entries (tensor/ranking.h) for every kept element takes in
// the tiles of the reduced dims, whose positions a counter in LX follows from tile to tile; then
// values or positions are taken out of the entries, tile by tile of the ranks. Where LX does not
// hold all ranks, they are found in passes over the input: each takes in what is behind the last
// entry of the one before. So n elements are sorted in n / (entries in LX) passes; merging sorted
// parts in memory would take fewer, but which part comes next depends on data, and a program does
// not.
#include "back/select_emitter.h"

#include <math.h>

#include "back/reduced_tile.h"
#include "back/staged_tile.h"
#include "isa/time_formulas.h"

typedef struct {
    emitter *e;
    nest n;
    tile_buffers tiles;
    uint32_t input, output;
    int64_t ranks;                   // entries of a ranking
    int64_t weight[BUNDLE_MAX_DIMS]; // ranks from one index of a dim of ranks to the next; else 0
    uint32_t cut;                    // the dim of ranks that passes cut
    int64_t pass;                    // ranks of a pass, the last one may have fewer
    int64_t first, count;            // of the pass in work
    int64_t budget;                  // bytes of LX
    int64_t most_bytes;              // cap on a tile
    lx_region entries, behind, position, taken;
    tile_loops kept, reduced, taking;
    const nest_class *present; // whose elements are ranked
} ranking;

// --- Places

// The axes of a box without the dims of ranks; in their place one over the ranks of the pass, which
// is the last.
static place_axes axes_of(const ranking *r, const box *b)
{
    box one = *b;
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->weight[d]) one.extent[d] = 1;
    place_axes axes = place_find_axes(&r->n, &one, 1);
    axes.axis[axes.count++] = (place_axis){PLACE_LANES, r->count, 1};
    return axes;
}

// First all greatest ones, then those behind them; many ranks lie together.
static place entries_place(const ranking *r, const box *kept, const place_axes *axes)
{
    enum { MANY = 128 };
    place home = place_home(&r->n, kept, axes, r->input);
    place_order elements = place_sorted(&home, axes), order = {.count = 0};
    uint8_t ranks = (uint8_t)(axes->count - 1);
    if (r->count <= MANY) order.axis[order.count++] = ranks;
    for (uint32_t i = 0; i < elements.count; i++) order.axis[order.count++] = elements.axis[i];
    if (r->count > MANY) order.axis[order.count++] = ranks;
    return place_dense(kept, axes, &order, SPYRE_FORMAT_IEEE_INT64, sizeof(int64_t), &r->entries);
}

// Of each ranking the last entry of the pass before.
static place behind_place(const ranking *r, const box *kept, const place_axes *axes)
{
    place home = place_home(&r->n, kept, axes, r->input);
    place_order order = place_sorted(&home, axes);
    return place_dense(kept, axes, &order, SPYRE_FORMAT_IEEE_INT64, sizeof(int64_t), &r->behind);
}

// --- One core

// Ranks, then the order of a reduction.
static place_order rank_order(const place_axes *axes, const place *entries, const place *input)
{
    place_order order = {.count = 1}, all = reduced_order(entries, input, axes);
    order.axis[0] = (uint8_t)(axes->count - 1);
    for (uint32_t i = 0; i < all.count; i++)
        if (all.axis[i] != order.axis[0]) order.axis[order.count++] = all.axis[i];
    return order;
}

static spyre_status rank_tile(const ranking *r, const place_axes *axes, const box *b)
{
    place input = buffers_place(&r->tiles, b, axes, r->input);
    box kept = box_kept(&r->n, b);
    place_axes kept_axes = axes_of(r, &kept);
    place whole = entries_place(r, &kept, &kept_axes);
    place entries = place_project(&whole, &kept_axes, axes);
    place position = place_cell(&r->position, SPYRE_FORMAT_IEEE_INT32);
    place_order order = rank_order(axes, &entries, &input);
    place before = behind_place(r, &kept, &kept_axes);
    place behind = place_project(&before, &kept_axes, axes);
    isa_instruction i = {.opcode = ISA_RANK, .op = r->n.step->op};
    const place *const places[] = {&entries, &input, &position, &behind};
    TRY(emit_tile(r->e, &i, axes, &order, places, r->first ? 4 : 3));
    if (r->reduced.levels.count == 0) return NULL;
    return reduced_count_taken(r->e, &r->n, b, &r->position, &r->taken);
}

static spyre_status reduced_body(void *context, const box *b)
{
    const ranking *r = context;
    place_axes axes = axes_of(r, b);
    TRY(staged_load(r->e, &r->tiles, b, &axes, 1));
    TRY(rank_tile(r, &axes, b));
    return staged_release(r->e, &r->tiles, 1);
}

static spyre_status rank_core(const ranking *r, const box *part)
{
    box b = box_kept(&r->n, part);
    place_axes axes = axes_of(r, &b);
    place entries = entries_place(r, &b, &axes);
    place position = place_cell(&r->position, SPYRE_FORMAT_IEEE_INT32);
    TRY(emit_fill(r->e, &axes, &entries, -INFINITY)); // the least integer: no entry
    TRY(emit_fill(r->e, &(place_axes){0}, &position, 0.0f));
    b = box_reduced(&r->n, &b, r->present);
    return tile_loops_run(&r->reduced, &b);
}

// Keeps the last entries, as pairs of integers, which are copied bit for bit.
static spyre_status keep_last(const ranking *r, const box *kept)
{
    place_axes axes = axes_of(r, kept);
    uint32_t ranks = axes.count - 1;
    place entries = entries_place(r, kept, &axes), behind = behind_place(r, kept, &axes);
    entries.operand.offset += (r->count - 1) * entries.stride[ranks];
    entries.operand.format = behind.operand.format = SPYRE_FORMAT_IEEE_INT32;
    axes.axis[ranks].extent = 2;
    entries.stride[ranks] = behind.stride[ranks] = sizeof(int32_t);
    return emit_identity(r->e, &axes, &behind, &entries);
}

// Entries along the axes of the output.
static place spread_entries(const ranking *r, const box *kept, const place_axes *axes)
{
    place_axes own = axes_of(r, kept);
    place entries = entries_place(r, kept, &own), spread = place_project(&entries, &own, axes);
    int64_t stride = entries.stride[own.count - 1];
    spread.operand.offset -= r->first * stride;
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        spread.operand.offset += kept->start[d] * r->weight[d] * stride;
    for (uint32_t l = r->n.loops; l < ISA_MAX_LOOPS; l++)
        if (kept->loop[l].dim >= 0)
            spread.operand.loop_stride[l] =
                kept->loop[l].step * r->weight[kept->loop[l].dim] * stride;
    for (uint32_t a = 0; a < axes->count; a++) {
        const place_axis *axis = &axes->axis[a];
        if (axis->dim == PLACE_LANES || !r->weight[axis->dim]) continue;
        spread.stride[a] = stride * r->weight[axis->dim] * axis->step;
    }
    return spread;
}

static spyre_status taking_body(void *context, const box *b)
{
    const ranking *r = context;
    box kept = box_kept(&r->n, b);
    place_axes axes = place_find_axes(&r->n, &kept, 1);
    place target = buffers_place(&r->tiles, &kept, &axes, r->output);
    place entries = spread_entries(r, &kept, &axes);
    place_order order = place_sorted(&target, &axes);
    isa_instruction i = {.opcode = ISA_RANKED, .op = r->n.step->op};
    TRY(emit_tile(r->e, &i, &axes, &order, (const place *const[]){&target, &entries}, 2));
    return staged_store(r->e, &r->tiles, &kept, &axes);
}

static spyre_status kept_body(void *context, const box *b)
{
    ranking *r = context;
    for (r->first = 0; r->first < r->ranks; r->first += r->pass) {
        box part = *b;
        int64_t left = r->ranks - r->first;
        r->count = left < r->pass ? left : r->pass;
        if (r->pass < r->ranks) {
            part.start[r->cut] += r->first;
            part.extent[r->cut] = r->count;
        }
        TRY(rank_core(r, &part));
        TRY(tile_loops_run(&r->taking, &part));
        box kept = box_kept(&r->n, b);
        if (r->count < left) TRY(keep_last(r, &kept));
    }
    return NULL;
}

// --- Tiles

// Of an entry for each ranking of a tile.
static int64_t entry_bytes(const ranking *r, const int64_t *tile)
{
    int64_t bytes = sizeof(int64_t);
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (!r->n.reduced[d] && !r->weight[d]) bytes *= tile[d];
    return bytes;
}

static int64_t all_entries_bytes(const ranking *r, const int64_t *tile)
{
    int64_t bytes = entry_bytes(r, tile), behind = r->pass < r->ranks ? lx_align(bytes) : 0;
    return lx_align(r->pass * bytes) + behind;
}

static int64_t lx_bytes(const void *context, const int64_t *tile)
{
    const ranking *r = context;
    for (uint32_t o = 0; o < r->n.operand_count; o++)
        if (r->tiles.staged[o] && place_tile_bytes(&r->n, o, tile) > r->most_bytes)
            return INT64_MAX / 2;
    return buffers_bytes(&r->tiles, tile) + all_entries_bytes(r, tile) + 2 * LX_ALIGNMENT;
}

// Five eighths of the share for entries, or of all that there is: the rest is for tiles. Passes are
// whole sticks of one dim of ranks.
static spyre_status choose_pass(ranking *r, const int64_t *tile, lx_share *out_share)
{
    int64_t bytes = entry_bytes(r, tile);
    *out_share = lx_share_whole(r->e->options);
    r->budget = lx_share_bytes(r->e->options);
    r->pass = r->ranks;
    if (r->ranks * bytes <= r->budget / 8 * 5) return NULL;
    TRY(lx_share_largest(r->e->b, r->e->options, out_share));
    r->budget = ISA_LX_BYTES - out_share->next;
    int64_t most = r->budget / 8 * 5 / bytes, stick = nest_granule(&r->n, r->cut);
    bool one_dim = r->n.size[r->cut] == r->ranks && !r->n.unit[r->cut];
    if (r->ranks > most && most >= stick && one_dim) r->pass = most / stick * stick;
    return NULL;
}

static spyre_status choose_tiles(ranking *r, int64_t *tile, lx_share *out_share)
{
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&r->n, r->input, dims);
    tile_smallest(&r->n, tile);
    TRY(choose_pass(r, tile, out_share));
    tile_limits limits = {r->budget, lx_bytes, r};
    r->most_bytes = ISA_TILE_BYTES;
    TRY(tile_check(&limits, tile));
    for (uint32_t d = r->n.dim_count; d-- > 0;)
        if (r->weight[d]) tile_grow(&r->n, &limits, d, tile);
    if (tile[r->cut] > r->pass && r->pass < r->ranks) tile[r->cut] = r->pass;
    tile_grow_reduced(&r->n, &limits, tile);
    tile_grow_kept(&r->n, &limits, dims, dim_count, tile);
    for (uint32_t i = 0; i < dim_count; i++)
        if (!r->n.reduced[dims[i]] && !r->weight[dims[i]])
            tile_loops_add(&r->kept, dims[i], tile[dims[i]]);
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->n.reduced[d]) tile_loops_add(&r->reduced, d, tile[d]);
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->weight[d]) tile_loops_add(&r->taking, d, tile[d]);
    return NULL;
}

static spyre_status allocate(ranking *r, const int64_t *tile, lx_share share)
{
    TRY(buffers_take(&r->tiles, &share, tile));
    TRY(lx_take(&share, r->pass * entry_bytes(r, tile), false, &r->entries));
    if (r->pass < r->ranks) TRY(lx_take(&share, entry_bytes(r, tile), false, &r->behind));
    TRY(lx_take(&share, sizeof(int32_t), false, &r->position));
    return lx_take(&share, sizeof(int32_t), false, &r->taken);
}

static void find_ranks(ranking *r)
{
    const nest_operand *in = &r->n.operand[r->input], *out = &r->n.operand[r->output];
    r->ranks = 1;
    for (uint32_t d = r->n.dim_count; d-- > 0;) {
        if (r->n.reduced[d] || in->stride[d] || !out->stride[d]) continue;
        if (r->n.size[d] > 1) r->cut = d;
        r->weight[d] = r->ranks;
        r->ranks *= r->n.size[d];
    }
}

// A buffer that a body of the loop around uses once goes by that loop.
static void add_buffers(ranking *r)
{
    bool deep = r->reduced.levels.count, pieces = r->taking.levels.count;
    bool once = r->pass == r->ranks;
    bool staged_in = r->tiles.staged[r->input], staged_out = r->tiles.staged[r->output];
    tile_loops_add_buffer(deep ? &r->reduced : &r->kept, staged_in && (deep || once),
                          ISA_QUEUE_LOAD, ISA_QUEUE_SFP, TOKEN_INPUT_FREE);
    tile_loops_add_buffer(pieces ? &r->taking : &r->kept, staged_out && (pieces || (!deep && once)),
                          ISA_QUEUE_SFP, ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
}

spyre_status emit_rank(emitter *e, const bundle_step *step)
{
    ranking r = {.e = e, .input = step->inputs[0], .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, 0, &r.n));
    find_ranks(&r);
    r.tiles = buffers_of(&r.n);
    r.kept = (tile_loops){.e = e, .n = &r.n, .body = kept_body, .context = &r};
    r.reduced = (tile_loops){.e = e, .n = &r.n, .body = reduced_body, .context = &r};
    r.taking = (tile_loops){.e = e, .n = &r.n, .body = taking_body, .context = &r};
    int64_t tile[BUNDLE_MAX_DIMS];
    lx_share share;
    TRY(choose_tiles(&r, tile, &share));
    TRY(allocate(&r, tile, share));
    add_buffers(&r);
    r.kept.present = &r.present;
    return tile_loops_kernels(&r.kept);
}
