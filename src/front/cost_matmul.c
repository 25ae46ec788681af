// SPDX-License-Identifier: Apache-2.0
#include "front/cost_matmul.h"

#include <math.h>

#include "isa/constants.h"

// The largest tile of sums and of rows, the least parts along k and rows.
enum {
    MOST_SUM_BYTES = 256 << 10,
    MOST_ROWS = 512,
    PART_DEPTH = 64,
    PART_ROWS = 64
};

typedef struct {
    double rows, columns, depth, products; // of a core
    double blocks;                         // of columns, which no tile joins
} shape;

double cost_matmul_rows(const loop_op *op, const division_sizes *sizes, const division *d)
{
    double rows = 1;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->operand[0].stride[v] && !op->operand[1].stride[v])
            rows *= (double)division_slice(sizes, v, d->split[v]);
    return rows;
}

static shape shape_of(const loop_op *op, const division_sizes *sizes, const division *d)
{
    shape s = {.rows = cost_matmul_rows(op, sizes, d), .columns = 1, .depth = 1, .products = 1,
               .blocks = 1};
    for (uint32_t v = 0; v < op->var_count; v++) {
        double extent = (double)division_slice(sizes, v, d->split[v]);
        bool a = op->operand[0].stride[v], b = op->operand[1].stride[v];
        if (!op->operand[2].stride[v])
            s.depth *= extent;
        else if (a && b)
            s.products *= extent;
        else if (b)
            *(v == op->stick ? &s.columns : &s.blocks) *= extent;
    }
    return s;
}

// Elements of two bytes: sums and results of a tile, and two parts of each operand.
static bool passes(double share_bytes, double rows, double columns)
{
    double sums = rows * columns * sizeof(float);
    return sums <= MOST_SUM_BYTES && rows <= MOST_ROWS &&
           sums * 1.5 + 4.0 * PART_DEPTH * (rows + columns) <= share_bytes;
}

static bool stays(double share_bytes, const shape *s, double columns)
{
    double rows = fmin(s->rows, PART_ROWS);
    return 2 * s->depth * columns + 4 * s->depth * rows + 8 * rows * columns <= share_bytes;
}

// What reads least; of equals what passes in more tiles, so that less of it waits for the first.
static void keep_best(const double bytes[3], const cost_matmul *tried, cost_matmul *best)
{
    double now = bytes[0] * tried->a_reads + bytes[1] * tried->b_reads;
    double before = bytes[0] * best->a_reads + bytes[1] * best->b_reads;
    bool better = now < before || (now <= before && tried->tiles > best->tiles);
    if (best->tiles == 0 || better) *best = *tried;
}

cost_matmul cost_matmul_of(const loop_op *op, const division_sizes *sizes, const division *d,
                           const double bytes[3], double share_bytes)
{
    shape s = shape_of(op, sizes, d);
    cost_matmul best = {1, 1, 0, 0};
    double parts = ceil(s.depth / PART_DEPTH);
    for (double a = 1; a <= s.columns; a *= 2) {
        if (!stays(share_bytes, &s, s.columns / a)) continue;
        double tiles = s.products * ceil(s.rows / PART_ROWS);
        keep_best(bytes, &(cost_matmul){a * s.blocks, 1, tiles, tiles}, &best);
        break;
    }
    for (double b = 1; b <= s.rows; b *= 2)
        for (double a = 1; a <= s.columns; a *= 2) {
            if (!passes(share_bytes, s.rows / b, s.columns / a)) continue;
            keep_best(bytes, &(cost_matmul){a * s.blocks, b, parts, a * b}, &best);
            break;
        }
    if (best.tiles == 0) best.tiles = best.results = 1;
    return best;
}
