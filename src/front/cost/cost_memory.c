// SPDX-License-Identifier: Apache-2.0
#include "front/cost/cost_memory.h"

#include <math.h>

static void sort_by_result(const loop_op *op, cost_layout *layout)
{
    const int64_t *stride = layout->stride[op->operand_count - 1];
    for (uint8_t v = 0; v < op->var_count; v++) {
        uint32_t at = v;
        for (; at > 0 && stride[layout->order[at - 1]] > stride[v]; at--)
            layout->order[at] = layout->order[at - 1];
        layout->order[at] = v;
    }
}

cost_layout cost_layout_of(const loop_graph *loops, const loop_op *op)
{
    cost_layout layout = {0};
    for (uint32_t k = 0; k < op->operand_count; k++) {
        loop_location place;
        for (uint32_t v = 0; v < op->var_count; v++) layout.span[k][v] = 1;
        if (loop_is_table(op, &op->operand[k])) continue;
        if (loop_locate(loops, op, &op->operand[k], &place)) continue;
        layout.placed[k] = true;
        layout.stick_var[k] = place.stick_var;
        for (uint32_t v = 0; v < op->var_count; v++) {
            layout.stride[k][v] = place.stride[v];
            layout.span[k][v] = place.walk.span[v];
        }
    }
    sort_by_result(op, &layout);
    return layout;
}

// Steps of operand k that `elements` of loop v make: sticks along its stick.
static double steps_of(const cost_layout *layout, uint32_t k, uint32_t v, double elements)
{
    int64_t span = layout->span[k][v];
    return span > 1 ? ceil(elements / (double)span) : elements;
}

// --- Where the cores' slices begin

// Bytes between neighbouring ones, on average; 0 of one. *out_distinct: slices that begin apart.
static double find_distance(const loop_op *op, const cost_layout *layout,
                            const division_sizes *sizes, const division *d, uint32_t k,
                            double *out_distinct)
{
    double last = 0, distinct = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (d->split[v] == 1 || !layout->stride[k][v]) continue;
        double slice = (double)division_slice(sizes, v, d->split[v]);
        last += (double)layout->stride[k][v] * steps_of(layout, k, v, slice) * (d->split[v] - 1);
        distinct *= d->split[v];
    }
    *out_distinct = distinct;
    return distinct > 1 ? last / (distinct - 1) : 0;
}

double cost_spread(const loop_op *op, const cost_layout *layout, const division_sizes *sizes,
                   const division *d, uint32_t k)
{
    if (!layout->placed[k]) return 0;
    double distinct, distance = find_distance(op, layout, sizes, d, k, &distinct);
    return isa_spread(distance);
}

// --- Tiles of element-wise ops

typedef struct {
    const loop_op *op;
    const cost_layout *layout;
    uint32_t resident;
    double share_bytes;
    double slice[LOOP_MAX_VARS], tile[LOOP_MAX_VARS]; // elements
} tiling;

static double tile_bytes(const tiling *t, uint32_t k)
{
    double bytes = SPYRE_STICK_BYTES;
    for (uint32_t v = 0; v < t->op->var_count; v++)
        if (t->layout->stride[k][v]) bytes *= steps_of(t->layout, k, v, t->tile[v]);
    return bytes;
}

// Lets the tile grow along loop v until an operand has `most` bytes.
static void grow(tiling *t, uint32_t v, double most)
{
    double factor = t->slice[v] / t->tile[v], all = 0;
    for (uint32_t k = 0; k < t->op->operand_count; k++) {
        if (t->resident >> k & 1u || !t->layout->placed[k]) continue;
        double bytes = tile_bytes(t, k);
        all += 2 * bytes;
        if (t->layout->stride[k][v]) factor = fmin(factor, most / bytes);
    }
    factor = fmin(factor, t->share_bytes / all);
    if (factor >= 2) t->tile[v] *= floor(factor);
}

// True when an input that moves stands still along v: tiles of v would load it again.
static bool repeats(const tiling *t, uint32_t v)
{
    for (uint32_t k = 0; k + 1 < t->op->operand_count; k++) {
        if (t->resident >> k & 1u || t->layout->stride[k][v]) continue;
        for (uint32_t u = 0; u < t->op->var_count; u++)
            if (t->layout->stride[k][u]) return true;
    }
    return false;
}

static void grow_all(tiling *t)
{
    const uint8_t *order = t->layout->order;
    for (uint32_t i = 0; i < t->op->var_count; i++) grow(t, order[i], LONG_RUN);
    for (uint32_t i = 0; i < t->op->var_count; i++)
        if (repeats(t, order[i])) grow(t, order[i], ISA_TILE_BYTES);
    for (uint32_t i = 0; i < t->op->var_count; i++) grow(t, order[i], ISA_TILE_BYTES);
}

// --- Runs

// What a tile of operand k has side by side: loops join where one ends at the next one's stride.
static double run_of_tile(const tiling *t, uint32_t k)
{
    double run = SPYRE_STICK_BYTES;
    bool grown = true;
    while (grown) {
        grown = false;
        for (uint32_t v = 0; v < t->op->var_count && !grown; v++) {
            double steps = steps_of(t->layout, k, v, t->tile[v]);
            if ((double)t->layout->stride[k][v] != run || steps == 1) continue;
            run *= steps;
            grown = true;
        }
    }
    return run;
}

// The loop outside of a product's tiles, of batches or of columns that A does not know, that moves
// operand k by one stick; or LOOP_NO_DIM.
static uint8_t find_beside(const loop_op *op, const cost_layout *layout, uint32_t k)
{
    for (uint8_t v = 0; v < op->var_count; v++) {
        bool outside = op->operand[1].stride[v] && op->operand[2].stride[v] && v != op->stick;
        if (outside && v != layout->stick_var[k] && layout->stride[k][v] == SPYRE_STICK_BYTES)
            return v;
    }
    return LOOP_NO_DIM;
}

static tiling tile_of(const loop_op *op, const cost_layout *layout, const division_sizes *sizes,
                      const division *d, double share_bytes, uint32_t resident)
{
    tiling t = {
        .op = op, .layout = layout, .resident = resident, .share_bytes = share_bytes};
    for (uint32_t v = 0; v < op->var_count; v++) {
        t.slice[v] = (double)division_slice(sizes, v, d->split[v]);
        t.tile[v] = 1;
    }
    for (uint32_t k = 0; k < op->operand_count; k++) {
        for (uint32_t v = 0; layout->placed[k] && v < op->var_count; v++)
            t.tile[v] = fmax(t.tile[v], fmin((double)layout->span[k][v], t.slice[v]));
    }
    grow_all(&t);
    return t;
}

cost_runs cost_runs_of(const loop_op *op, const cost_layout *layout, const division_sizes *sizes,
                       const division *d, double share_bytes, uint32_t resident)
{
    cost_runs runs;
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    bool tiles = !opfunc_reduces(op->op) && !op->table;
    tiling t;
    if (tiles) t = tile_of(op, layout, sizes, d, share_bytes, resident);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        double run = LONG_RUN;
        if (!(resident >> k & 1u) && layout->placed[k]) {
            if (tiles)
                run = run_of_tile(&t, k);
            else if (kind == OPFUNC_KIND_MATMUL && find_beside(op, layout, k) != LOOP_NO_DIM)
                run = SPYRE_STICK_BYTES;
        }
        // Slices side by side make one long run of short ones.
        double distinct;
        if (run < LONG_RUN && find_distance(op, layout, sizes, d, k, &distinct) == run)
            run *= distinct;
        runs.run_bytes[k] = fmin(run, LONG_RUN);
    }
    return runs;
}
