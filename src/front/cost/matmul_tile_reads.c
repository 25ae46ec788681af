// SPDX-License-Identifier: Apache-2.0
#include "front/cost/matmul_tile_reads.h"

#include <math.h>

#include "isa/constants.h"

// The largest tile of sums and of rows, the least parts along k and rows.
enum {
    MOST_SUM_BYTES = 256 << 10,
    MOST_ROWS = 512,
    PART_DEPTH = 64,
    PART_ROWS = 64,
    STICK_ELEMENTS = 64
};

typedef struct {
    double rows, columns, depth, products; // of a core
    double blocks, row_blocks;             // of columns and of rows, which no tile joins
} shape;

static bool is_row(const loop_op *op, uint32_t v)
{
    return op->operand[0].stride[v] && !op->operand[1].stride[v];
}

// Row variables, the densest in A first.
static uint32_t sort_rows(const cost_product *p, uint8_t order[LOOP_MAX_VARS])
{
    uint32_t count = 0;
    for (uint8_t v = 0; v < p->op->var_count; v++) {
        if (!is_row(p->op, v)) continue;
        uint32_t at = count++;
        for (; at > 0 && p->layout->stride[0][order[at - 1]] > p->layout->stride[0][v]; at--)
            order[at] = order[at - 1];
        order[at] = v;
    }
    return count;
}

// True when a core's slices of variables `inner` and `outer` are one dim of A and of the result.
// What is in LX has no gaps between slices; its strides may still be those in memory.
static bool walks_as_one(const cost_product *p, uint8_t outer, uint8_t inner)
{
    double slice = (double)division_slice(p->sizes, inner, p->d->split[inner]);
    double whole = (double)p->sizes->size[inner];
    for (uint32_t k = 0; k < 3; k += 2) {
        const int64_t *stride = p->layout->stride[k];
        double count = (double)stride[outer] / (double)stride[inner];
        if (count != slice && (count != whole || !(p->resident >> k & 1u))) return false;
    }
    return true;
}

double matmul_tile_rows(const cost_product *p, double *out_times)
{
    uint8_t order[LOOP_MAX_VARS];
    uint32_t count = sort_rows(p, order);
    double rows = 1;
    bool ended = false;
    *out_times = 1;
    for (uint32_t i = 0; i < count; i++) {
        double slice = (double)division_slice(p->sizes, order[i], p->d->split[order[i]]);
        bool apart = i > 0 && p->resident & 1u && !walks_as_one(p, order[i], order[i - 1]);
        ended |= apart && rows > 1;
        *(ended ? out_times : &rows) *= slice;
    }
    return rows;
}

static shape shape_of(const cost_product *p)
{
    shape s = {.columns = 1, .depth = 1, .products = 1, .blocks = 1};
    s.rows = matmul_tile_rows(p, &s.row_blocks);
    for (uint32_t v = 0; v < p->op->var_count; v++) {
        double extent = (double)division_slice(p->sizes, v, p->d->split[v]);
        bool a = p->op->operand[0].stride[v], b = p->op->operand[1].stride[v];
        if (!p->op->operand[2].stride[v])
            s.depth *= extent;
        else if (a && b)
            s.products *= extent;
        else if (b)
            *(v == p->op->stick ? &s.columns : &s.blocks) *= extent;
    }
    return s;
}

// True when both operands walk loop `outer` as the continuation of `count` elements of loop
// `inner`.
static bool continues(const cost_layout *layout, uint32_t outer, uint32_t inner, double count)
{
    for (uint32_t k = 0; k < 2; k++) {
        double steps = count / (double)layout->span[k][inner];
        if ((double)layout->stride[k][outer] != (double)layout->stride[k][inner] * steps)
            return false;
    }
    return true;
}

// The depth that is one loop for the back-end: k, and what is outside of it as long as that goes on
// where k ends.
static double inner_depth(const cost_product *p)
{
    uint32_t inner = LOOP_MAX_VARS;
    double depth = 1;
    for (uint32_t v = p->op->var_count; v-- > 0;) {
        if (!loop_var_is_reduced(p->op, v)) continue;
        if (inner == LOOP_MAX_VARS)
            inner = v;
        else if (!continues(p->layout, v, inner, depth))
            break;
        depth *= (double)division_slice(p->sizes, v, p->d->split[v]);
    }
    return depth;
}

// Elements of two bytes: sums of four; of what is in memory two parts of each operand and the
// rounded results.
static bool passes(const cost_product *p, double rows, double columns)
{
    double sums = rows * columns * sizeof(float), bytes = sums;
    if (p->bytes[0] > 0) bytes += 4.0 * PART_DEPTH * rows;
    if (p->bytes[1] > 0) bytes += 4.0 * PART_DEPTH * columns;
    if (p->bytes[2] > 0) bytes += sums / 2;
    return sums <= MOST_SUM_BYTES && rows <= MOST_ROWS && bytes <= p->share_bytes;
}

// Parts that have all of k: two of what is in memory, but of B one that stays, or all rows and
// columns pass by as well.
static bool has_room(const cost_product *p, const shape *s, double rows, double columns, bool keeps)
{
    double sums = rows * columns * sizeof(float), bytes = sums;
    if (p->bytes[0] > 0) bytes += 4 * s->depth * rows;
    if (p->bytes[1] > 0) bytes += (keeps ? 2 : 4) * s->depth * columns;
    if (p->bytes[2] > 0) bytes += 4 * rows * columns;
    return sums <= MOST_SUM_BYTES && bytes <= p->share_bytes;
}

static double time_of(const cost_product *p, const matmul_tile_reads *m)
{
    double alone = m->keeps ? p->bytes[1] * m->b_reads : 0;
    if (m->results < m->tiles) alone += p->bytes[2] / m->results;
    double bytes = p->bytes[0] * m->a_reads + p->bytes[1] * m->b_reads + p->bytes[2] - alone;
    double memory = bytes / MEMORY_BANDWIDTH;
    return alone / MEMORY_BANDWIDTH + fmax(memory, p->compute_us) +
           fmin(memory, p->compute_us) / m->tiles;
}

static void keep_best(const cost_product *p, const matmul_tile_reads *tried,
                      matmul_tile_reads *best, double *best_us)
{
    double us = time_of(p, tried);
    if (best->tiles > 0 && us >= *best_us * (1 - 1e-9)) return;
    *best = *tried;
    *best_us = us;
}

// The number of equal parts, whole sticks each, that hold at most `most` sticks.
static double column_tiles(const shape *s, double most, double *out_columns)
{
    double sticks = ceil(s->columns / STICK_ELEMENTS), tiles = ceil(sticks / most);
    *out_columns = fmin(s->columns, ceil(sticks / tiles) * STICK_ELEMENTS);
    return tiles;
}

static double next_size(double size, double whole)
{
    return size < whole && 2 * size > whole ? whole : 2 * size;
}

// Tiles that have all of k: all rows, while columns and products pass by; or B stays.
static void try_whole(const cost_product *p, const shape *s, double a, double columns,
                      matmul_tile_reads *best, double *best_us)
{
    double passing = a * s->blocks * s->products, rows = fmin(s->rows, PART_ROWS);
    double row_tiles = s->products * s->row_blocks * ceil(s->rows / PART_ROWS);
    matmul_tile_reads all = {a * s->blocks, 1, passing, passing, false};
    matmul_tile_reads kept = {a * s->blocks, 1, row_tiles, row_tiles, p->bytes[1] > 0};
    bool all_fit = s->rows <= MOST_ROWS && has_room(p, s, s->rows, columns, false);
    if (passing > 1 && all_fit && s->row_blocks == 1) keep_best(p, &all, best, best_us);
    if (has_room(p, s, rows, columns, true)) keep_best(p, &kept, best, best_us);
}

matmul_tile_reads matmul_tile_reads_of(const cost_product *p)
{
    shape s = shape_of(p);
    matmul_tile_reads best = {1, 1, 0, 0, false};
    double inner = inner_depth(p), outer = s.depth / inner, parts = ceil(inner / PART_DEPTH);
    double sticks = ceil(s.columns / STICK_ELEMENTS);
    double best_us = 0, columns;
    for (double most = 1; most <= sticks; most = next_size(most, sticks)) {
        double a = column_tiles(&s, most, &columns);
        for (double b = 1; b <= s.rows; b *= 2) {
            if (!passes(p, ceil(s.rows / b), columns)) continue;
            double runs = a * s.blocks * b * s.row_blocks * s.products;
            double tiles = fmod(parts, 2) == 0 ? parts * outer * runs : parts;
            matmul_tile_reads deep = {a * s.blocks, b * s.row_blocks, tiles, runs, false};
            keep_best(p, &deep, &best, &best_us);
            break;
        }
        try_whole(p, &s, a, columns, &best, &best_us);
    }
    if (best.tiles == 0) best.tiles = best.results = 1;
    return best;
}
