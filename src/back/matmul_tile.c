// SPDX-License-Identifier: Apache-2.0
//
// A small search: column sticks, rows and depth of a tile are powers of two times their smallest,
// or the whole dim. Memory, PT and LX work at the same time, so what counts is the one that takes
// longest, by the rates of isa/cost.def:
//     memory  A once per column tile, B once per row tile, or once in all when it stays in LX;
//             cores that read one place share a transfer
//     PT      the multiply-adds, slower with few rows a tile
//     LX      what is loaded, B once more for every row tile, the sums twice for every tile of k
// The first of the tiles that pass by is loaded before anything is computed, and so is a B that
// stays; nothing goes on beside the last store behind tiles of k. What does not bind counts a
// little besides, and so does every instruction, so that of plans that take equally long the one
// with less work is chosen and tiles do not become slivers.
#include "back/matmul_tile.h"

#include <math.h>

#include "back/allocate.h"
#include "base/integer.h"
#include "bundle/step_facts.h"
#include "isa/time_formulas.h"

enum { LARGEST_ROWS = 512, LARGEST_ACCUMULATOR_BYTES = 256 << 10 };

// What the resources that do not bind count for, and an instruction.
static const double HIDDEN_SHARE = 1.0 / 16, INSTRUCTION_US = 0.05;

// --- Roles

static int32_t find_columns(const matmul_roles *r)
{
    const nest *n = &r->nest;
    const nest_operand *a = &n->operand[r->a], *b = &n->operand[r->b], *c = &n->operand[r->c];
    uint32_t candidates[2 + BUNDLE_MAX_DIMS] = {b->stick_dim, c->stick_dim}, count = 2;
    for (uint32_t d = n->dim_count; d-- > 0;) candidates[count++] = d;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = candidates[i];
        if (!n->reduced[d] && b->stride[d] && !a->stride[d]) return (int32_t)d;
    }
    return -1;
}

// A dim that is looped over one index at a time cannot have sticks: its addresses would not be
// affine in the loop. An operand that does not move along k has no tile to multiply with.
static spyre_status check_roles(const matmul_roles *r)
{
    const nest *n = &r->nest;
    for (uint32_t d = 0; d < n->dim_count; d++) {
        bool looped = d != r->k && (int32_t)d != r->n && r->role[d] == MATMUL_LOOPED;
        if (looped && n->most[d] > 1 && n->stick_count[d])
            return status_new(SPYRE_UNSUPPORTED, "batchmatmul with sticks along dim %s",
                              n->step->dim_name[d]);
    }
    for (uint32_t i = 0; i < 2 && r->unpacks; i++) {
        const bundle_tensor *t = n->operand[n->step->inputs[i]].tensor;
        if (t->in_lx || n->size[bundle_pair_dim(t)] % 2)
            return status_new(SPYRE_UNSUPPORTED, "%s of %s %s", t->name,
                              spyre_format_name(t->format),
                              t->in_lx ? "in LX" : "has half of a byte");
    }
    bool both = n->operand[r->a].stride[r->k] && n->operand[r->b].stride[r->k];
    if (n->most[r->k] > 1 && !both)
        return status_new(SPYRE_UNSUPPORTED, "batchmatmul with an operand that lacks dim %s",
                          n->step->dim_name[r->k]);
    return NULL;
}

spyre_status matmul_find_roles(matmul_roles *r)
{
    nest *n = &r->nest;
    r->a = n->step->inputs[0];
    r->b = n->step->inputs[1];
    r->c = n->step->output;
    r->format = n->operand[r->a].format;
    r->unpacks = n->operand[r->a].tensor->format == SPYRE_FORMAT_SENINT4;
    r->sum = r->format == SPYRE_FORMAT_SENINT8 ? SPYRE_FORMAT_IEEE_INT32 : SPYRE_FORMAT_IEEE_FP32;
    r->lanes = (int64_t)spyre_format_elements_per_stick(r->format);
    if (n->operand[r->b].format != r->format)
        return status_new(SPYRE_UNSUPPORTED, "batchmatmul of %s and %s",
                          spyre_format_name(r->format),
                          spyre_format_name(n->operand[r->b].format));
    for (uint32_t d = 0; d < n->dim_count; d++) {
        if (!n->reduced[d]) continue;
        if (n->most[d] > 1 || n->most[r->k] == 1 || !n->reduced[r->k]) r->k = d;
    }
    r->n = find_columns(r);
    const int64_t *a = n->operand[r->a].stride, *b = n->operand[r->b].stride;
    for (uint32_t d = 0; d < n->dim_count; d++) {
        bool row = !n->reduced[d] && a[d] && !b[d];
        r->role[d] = row ? MATMUL_ROW : MATMUL_LOOPED;
    }
    if (n->most[r->k] > 1) nest_add_stick(n, r->k, r->lanes);
    if (r->n >= 0) nest_add_stick(n, (uint32_t)r->n, r->lanes);
    return check_roles(r);
}

// --- Tiles

typedef struct {
    const matmul_roles *r;
    int64_t lx_bytes;
    bool chained, a_staged, b_staged, c_staged;
    int64_t rows, columns, depth; // of the whole core
    bool one_depth;               // one MATMUL can take all of k
    double products;              // one after the other
    double a_us, b_us, c_us;      // memory's time for a byte of theirs that a core moves
} problem;

static int64_t row_count(const matmul_roles *r, const int64_t *tile)
{
    int64_t rows = 1;
    for (uint32_t d = 0; d < r->nest.dim_count; d++)
        if (r->role[d] == MATMUL_ROW) rows *= tile[d];
    return rows;
}

// Row tiles of at most `most` rows, whole dims first from the one that is densest in A. An A in LX
// is used in place, where only one dim can be sure to be one dim of the instruction.
static void set_rows(const problem *p, int64_t most, int64_t *tile)
{
    const nest *n = &p->r->nest;
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t count = nest_order(n, p->r->a, dims);
    for (uint32_t i = count; i-- > 0;) {
        uint32_t d = dims[i];
        if (p->r->role[d] != MATMUL_ROW) continue;
        int64_t granule = nest_granule(n, d), size = n->most[d];
        if (granule > size) granule = size;
        int64_t tiles = divide_up(size, most > granule ? most / granule * granule : granule);
        tile[d] = round_up(divide_up(size, tiles), granule);
        if (tile[d] > size) tile[d] = size;
        if (n->unit[d] && tile[d] < size) tile[d] = nest_divisor(n, d, tile[d]);
        most /= tile[d];
        if (!p->a_staged) most = 1;
        if (most < 1) most = 1;
    }
}

static int64_t whole_sticks(const matmul_roles *r, int64_t elements)
{
    return divide_up(elements, r->lanes);
}

static int64_t columns_of(const matmul_roles *r, const int64_t *tile)
{
    return r->n < 0 ? 1 : tile[r->n];
}

// Bytes of all buffers; fills the sizes of one each. Two of what the innermost loop passes: A and B
// along k; with a B that stays, A and C along the rows; all three along the outer loops.
static int64_t total_bytes(const problem *p, bool stationary, matmul_tiles *t)
{
    const matmul_roles *r = p->r;
    int64_t rows = row_count(r, t->tile), sticks = whole_sticks(r, columns_of(r, t->tile));
    int64_t depth = t->tile[r->k], output = r->nest.operand[r->c].element;
    t->a_bytes = rows * whole_sticks(r, depth) * SPYRE_STICK_BYTES;
    t->b_bytes = depth * sticks * SPYRE_STICK_BYTES;
    t->c_bytes = rows * columns_of(r, t->tile) * output;
    t->accumulator_bytes = rows * sticks * r->lanes * 4;
    int64_t bytes = lx_align(t->accumulator_bytes) * (p->chained ? 2 : 1);
    int64_t a_bytes = lx_align(t->a_bytes), b_bytes = lx_align(t->b_bytes);
    if (r->unpacks) a_bytes += lx_align(t->a_bytes / 2), b_bytes += lx_align(t->b_bytes / 2);
    if (p->a_staged) bytes += 2 * a_bytes;
    if (p->b_staged) bytes += (stationary && !t->passing ? 1 : 2) * b_bytes;
    if (p->c_staged) bytes += (stationary ? 2 : 1) * lx_align(t->c_bytes);
    return bytes;
}

// Memory's time for a byte that every core moves: each distinct place is one transfer.
static double transfer_us(const nest *n, uint32_t operand)
{
    uint16_t slot = n->operand[operand].slot;
    uint32_t places = 0;
    int64_t seen[ISA_CORES];
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!(n->all_cores >> core & 1u)) continue;
        int64_t start = n->parameters[core * n->slot_count + slot];
        uint32_t at = 0;
        while (at < places && seen[at] != start) at++;
        if (at == places) seen[places++] = start;
    }
    return places / MEMORY_BANDWIDTH;
}

static double time_of(const problem *p, bool stationary, const matmul_tiles *t)
{
    double element = spyre_format_bytes(p->r->format), rows = (double)row_count(p->r, t->tile);
    double row_tiles = ceil((double)p->rows / rows);
    double column_tiles = (double)divide_up(p->columns, columns_of(p->r, t->tile));
    double depth_tiles = (double)divide_up(p->depth, t->tile[p->r->k]);
    double results = (double)p->rows * (double)p->columns, depth = (double)p->depth;
    double a_bytes = (double)p->rows * depth * element * column_tiles;
    double b_bytes = (double)p->columns * depth * element * row_tiles;
    double b_loaded = stationary ? b_bytes / row_tiles : b_bytes;
    double memory = a_bytes * p->a_us + b_loaded * p->b_us + results * element * p->c_us;
    double pt = results * depth / isa_matmul_rate(rows);
    double lx = b_bytes + 2 * results * sizeof(float) * depth_tiles;
    if (p->a_us > 0) lx += a_bytes;
    if (p->b_us > 0) lx += b_loaded;
    lx /= LX_BANDWIDTH;
    double results_made = p->chained ? 1 : row_tiles * column_tiles, passing = depth_tiles;
    if (fmod(depth_tiles, 2) == 0) passing *= results_made; // tile_loops_may_stay_open
    if (stationary) passing = row_tiles;
    if (t->passing) passing = column_tiles * p->products;
    double alone = stationary && !t->passing ? b_loaded * p->b_us : 0;
    if (!stationary) alone = results * element * p->c_us / results_made;
    return alone + fmax(memory - alone, fmax(pt, lx)) + fmin(memory - alone, pt) / passing +
           HIDDEN_SHARE * (memory + pt + lx) +
           row_tiles * column_tiles * depth_tiles * INSTRUCTION_US;
}

static int64_t next_size(int64_t size, int64_t whole)
{
    if (size == whole) return whole + 1;
    return 2 * size < whole ? 2 * size : whole;
}

// An extent near `most` that cuts the dim into equal parts, in whole sticks.
static int64_t even_part(const nest *n, uint32_t dim, int64_t most)
{
    int64_t whole = n->most[dim], granule = nest_granule(n, dim);
    if (most >= whole) return whole;
    if (n->unit[dim]) return nest_divisor(n, dim, most);
    int64_t parts = divide_up(whole, most);
    int64_t even = round_up(divide_up(whole, parts), granule);
    return even < whole ? even : whole;
}

static void try_tiles(const problem *p, matmul_tiles *t, matmul_tiles *best, double *best_us)
{
    bool stationary = !p->chained && p->one_depth && t->tile[p->r->k] == p->depth;
    bool several = p->products > 1 || columns_of(p->r, t->tile) < p->columns;
    t->passing = stationary && several && row_count(p->r, t->tile) == p->rows;
    int64_t bytes = total_bytes(p, stationary, t);
    if (t->passing && bytes > p->lx_bytes) {
        t->passing = false;
        bytes = total_bytes(p, stationary, t);
    }
    if (bytes > p->lx_bytes || t->accumulator_bytes > LARGEST_ACCUMULATOR_BYTES) return;
    double us = time_of(p, stationary, t);
    if (*best_us >= 0 && us >= *best_us) return;
    *best = *t;
    *best_us = us;
}

spyre_status matmul_choose_tiles(const matmul_roles *r, int64_t lx_bytes, bool chained,
                                 matmul_tiles *out_tiles)
{
    const nest *n = &r->nest;
    problem p = {.r = r,
                 .lx_bytes = lx_bytes,
                 .chained = chained,
                 .a_staged = !n->operand[r->a].tensor->in_lx,
                 .b_staged = !n->operand[r->b].tensor->in_lx,
                 .c_staged = !n->operand[r->c].tensor->in_lx,
                 .columns = r->n < 0 ? 1 : n->most[r->n],
                 .depth = n->most[r->k],
                 .one_depth = true,
                 .products = 1};
    p.rows = row_count(r, n->most);
    if (p.a_staged) p.a_us = transfer_us(n, r->a);
    if (p.b_staged) p.b_us = transfer_us(n, r->b);
    if (p.c_staged) p.c_us = transfer_us(n, r->c);
    matmul_tiles t = {0};
    for (uint32_t d = 0; d < n->dim_count; d++) {
        int64_t granule = nest_granule(n, d);
        t.tile[d] = n->reduced[d] || granule > n->most[d] ? 1 : granule;
        if (granule > n->most[d]) t.tile[d] = n->most[d];
        if (n->reduced[d] && d != r->k && n->most[d] > 1) p.one_depth = false;
        bool looped = !n->reduced[d] && (int32_t)d != r->n && r->role[d] == MATMUL_LOOPED;
        if (looped) p.products *= (double)n->most[d];
    }
    for (uint32_t c = 0; c < n->class_count; c++) {
        int64_t depth = n->classes[c].size[r->k];
        if (depth > r->lanes && depth % r->lanes) p.one_depth = false;
    }
    double best_us = -1;
    int64_t most_rows = p.rows < LARGEST_ROWS ? p.rows : LARGEST_ROWS;
    int64_t column_granule = r->n < 0 ? 1 : nest_granule(n, (uint32_t)r->n);
    int64_t depth_granule = nest_granule(n, r->k);
    int64_t first_columns = column_granule < p.columns ? column_granule : p.columns;
    int64_t first_depth = depth_granule < p.depth ? depth_granule : p.depth;
    for (int64_t rows = 1; rows <= most_rows; rows = next_size(rows, most_rows)) {
        set_rows(&p, rows, t.tile);
        for (int64_t c = first_columns; c <= p.columns; c = next_size(c, p.columns)) {
            if (r->n >= 0) t.tile[r->n] = even_part(n, (uint32_t)r->n, c);
            for (int64_t k = first_depth; k <= p.depth; k = next_size(k, p.depth)) {
                t.tile[r->k] = even_part(n, r->k, k);
                try_tiles(&p, &t, out_tiles, &best_us);
            }
        }
    }
    if (best_us >= 0) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "no tile of a matmul fits the back-end's %lld bytes of LX",
                      (long long)lx_bytes);
}
