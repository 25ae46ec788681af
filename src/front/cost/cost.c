// SPDX-License-Identifier: Apache-2.0
#include "front/cost/cost.h"

#include <math.h>

#include "base/integer.h"
#include "front/cost/matmul_tile_reads.h"
#include "front/cost/cost_shuffle.h"
#include "isa/time_formulas.h"

double cost_operand_bytes(const loop_graph *loops, const loop_op *op, uint32_t k, uint8_t stick)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    bool table = loop_is_table(op, access);
    double sticks = 1;
    loop_stick_walk walk;
    bool walks = stick < op->var_count && access->stride[stick] > 0 && buffer->dim_count;
    uint8_t d = walks ? (uint8_t)loop_dim_at(buffer, access->stride[stick]) : LOOP_NO_DIM;
    bool cut = !loop_walk_stick(loops, op, access, d, &walk) && walk.count > 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t span = cut ? walk.span[v] : v == stick ? loop_lanes(buffer) : 1;
        bool by_index = table && op->operand[0].stride[v]; // a row an index
        if (access->stride[v] || by_index || v == stick)
            sticks *= (double)divide_up(op->extent[v], by_index ? 1 : span);
    }
    return sticks * SPYRE_STICK_BYTES;
}

static double operand_bytes(const loop_graph *loops, const loop_op *op, uint32_t k,
                            const cost_layout *layout)
{
    loop_location place;
    if (layout->placed[k]) return cost_operand_bytes(loops, op, k, layout->stick_var[k]);
    if (loop_locate(loops, op, &op->operand[k], &place)) return 0;
    return cost_operand_bytes(loops, op, k, place.stick_var);
}

cost_basis cost_basis_of(const loop_graph *loops, const loop_op *op)
{
    cost_basis basis = {.sizes = division_sizes_of(loops, op),
                        .share_bytes = GEOMETRY_LX_BYTES * loops->settings.dxp_lx_frac_avail,
                        .points = 1};
    for (uint32_t v = 0; v < op->var_count; v++) basis.points *= (double)basis.sizes.size[v];
    basis.layout = cost_layout_of(loops, op);
    basis.windows = cost_windows_of(loops, op);
    for (uint32_t k = 0; k < op->operand_count; k++) 
        basis.bytes[k] = operand_bytes(loops, op, k, &basis.layout);
    if (op->op == OPFUNC_SHUFFLE)
        basis.shuffle_us = shuffle_cost_of(loops, op, basis.bytes[0]).us;
    return basis;
}

double cost_vector_us(double bytes, double cores)
{
    return isa_vector_us(bytes / SPYRE_STICK_BYTES / cores);
}

// A ranking passes over its candidates once a rank.
static double ranks_of(const loop_op *op)
{
    double ranks = 1;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_rank(op, v)) ranks *= (double)op->extent[v];
    return ranks;
}

// The products of a depthwise convolution are fp32, twice as many sticks: one pass makes them, the
// next one adds them.
static double passes_of(const loop_op *op)
{
    return op->op == OPFUNC_DEPTHWISECONV2D ? 2 * 2 : ranks_of(op);
}

static double compute_of(const loop_op *op, const cost_basis *basis, const division *d)
{
    double cores = (double)division_cores(op, d), largest = 0;
    for (uint32_t k = 0; k < op->operand_count; k++) largest = fmax(largest, basis->bytes[k]);
    return passes_of(op) * cost_vector_us(largest, cores);
}

// us per byte of the smaller direction.
static double turn_of(const loop_op *op)
{
    if (op->op == OPFUNC_RESTICKIFY) return RESTICKIFY_TURN;
    if (loop_is_matmul(op)) return MEMORY_TURNAROUND;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        for (uint32_t v = 0; v < op->var_count; v++)
            if (!op->operand[k].stride[v]) return BROADCAST_TURN;
    return MEMORY_TURNAROUND;
}

double cost_memory_us(const loop_op *op, double read_bytes, double written_bytes)
{
    return (read_bytes + written_bytes) / MEMORY_BANDWIDTH +
           fmin(read_bytes, written_bytes) * turn_of(op);
}

// Partial results pass along a chain of cores, one hop after the other.
static double ring_of(const loop_op *op, const division_sizes *sizes, const division *d)
{
    double partial = sizeof(float);
    int32_t chain = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (loop_var_is_reduced(op, v))
            chain *= d->split[v];
        else
            partial *= (double)division_slice(sizes, v, d->split[v]);
    }
    return (chain - 1) * partial / RING_BANDWIDTH;
}

// Tiles that pass through a core, by its largest operand.
static double tiles_of(const loop_op *op, const cost_basis *basis, const division *d)
{
    double largest = 0;
    for (uint32_t k = 0; k < op->operand_count; k++) largest = fmax(largest, basis->bytes[k]);
    return fmax(1, ceil(largest / (double)division_cores(op, d) / ISA_TILE_BYTES));
}

// The first tile is loaded before anything is computed. Where memory binds, the last tile is
// computed while the store of the one before it ends: loads and stores share the memory, so with L,
// S and C for loading, storing and computing a tile, (S - L + C) / 2 of that store is left then. A
// product whose tiles pass along k has fewer results than tiles, and nothing goes on beside its
// last store.
static double overlap(const cost *c, double written_us, double kept_us, double tiles,
                      double results)
{
    double compute = c->compute_us + c->ring_us;
    double alone = kept_us + (results < tiles ? written_us / results : 0);
    double memory = c->memory_us - alone, least = fmin(memory, compute) / tiles;
    if (compute >= memory || tiles < 2) return alone + fmax(memory, compute) + least;
    if (results < tiles) return alone + memory + least;
    double store = written_us / tiles, load = memory / tiles - store;
    return alone + memory + fmax(0, least - fmin(store, fmax(0, (store - load + least) / 2)));
}

static matmul_tile_reads product_of(const loop_op *op, const cost_basis *basis,
                                    const division *d, uint32_t resident, double *out_compute_us)
{
    cost_product p = {.op = op, .sizes = &basis->sizes, .d = d, .layout = &basis->layout,
                      .share_bytes = basis->share_bytes, .resident = resident};
    double times, rows = matmul_tile_rows(&p, &times);
    double rate = (double)division_cores(op, d) * isa_matmul_rate(rows);
    *out_compute_us = p.compute_us = basis->points / rate;
    for (uint32_t k = 0; k < 3; k++) p.bytes[k] = resident >> k & 1u ? 0 : basis->bytes[k];
    return matmul_tile_reads_of(&p);
}

static cost cost_of_even(const loop_op *op, const cost_basis *basis, const division *d,
                         uint32_t resident)
{
    cost c = {0};
    matmul_tile_reads m = {1, 1, 1, 1, false};
    double spread_us = 0, runs_us = 0;
    if (op->op == OPFUNC_SHUFFLE && resident == 3) {
        c.us = c.ring_us = basis->shuffle_us;
        return c;
    }
    if (loop_is_matmul(op))
        m = product_of(op, basis, d, resident, &c.compute_us);
    else
        c.compute_us = compute_of(op, basis, d);
    cost_runs runs =
        cost_runs_of(op, &basis->layout, &basis->sizes, d, basis->share_bytes, resident);
    const cost_window_reads w =
        cost_windows_read(op, &basis->windows, &basis->sizes, d, basis->share_bytes);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        bool result = k + 1 == op->operand_count;
        double bytes = basis->bytes[k];
        if (!result) bytes *= k == 0 ? m.a_reads * w.input : k == 1 ? m.b_reads * w.factor : 1;
        if (resident >> k & 1u || loop_repeats_input(op, k)) continue;
        *(result ? &c.written_bytes : &c.read_bytes) += bytes;
        runs_us += cost_short_runs_us(&runs, k, bytes);
        if (result || loop_is_matmul(op)) continue;
        spread_us += bytes / MEMORY_BANDWIDTH *
                     cost_spread(op, &basis->layout, &basis->sizes, d, k);
    }
    double turn_us = fmin(c.read_bytes, c.written_bytes) * turn_of(op);
    double written_us = c.written_bytes / MEMORY_BANDWIDTH;
    if (c.written_bytes <= c.read_bytes && turn_us > spread_us) written_us += turn_us;
    c.memory_us = cost_memory_us(op, c.read_bytes, c.written_bytes) +
                  fmax(0, spread_us - turn_us) + runs_us;
    c.ring_us = ring_of(op, &basis->sizes, d);
    if (!loop_is_matmul(op)) m.tiles = m.results = tiles_of(op, basis, d);
    double kept_us = m.keeps ? basis->bytes[1] * m.b_reads / MEMORY_BANDWIDTH : 0;
    c.us = overlap(&c, written_us, kept_us, m.tiles, m.results);
    return c;
}

// --- Uneven divisions

// What is left of the op when loop v has `slices` slices of `units`.
static cost_basis shortened(const loop_op *op, const cost_basis *whole, uint32_t v, int64_t units,
                            int32_t slices)
{
    cost_basis basis = *whole;
    basis.sizes.units[v] = units * slices;
    basis.sizes.size[v] = units * slices * (whole->sizes.size[v] / whole->sizes.units[v]);
    double share = (double)basis.sizes.size[v] / (double)whole->sizes.size[v];
    basis.points *= share;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (op->operand[k].stride[v]) basis.bytes[k] *= share;
    return basis;
}

static void add(const cost *part, cost *sum)
{
    sum->read_bytes += part->read_bytes;
    sum->written_bytes += part->written_bytes;
    sum->memory_us += part->memory_us;
    sum->compute_us += part->compute_us;
    sum->ring_us += part->ring_us;
    sum->us += part->us;
}

// The back-end lets all cores do what the last one has, then the others the rest (docs/back.md).
cost cost_of(const loop_op *op, const cost_basis *basis, const division *d, uint32_t resident)
{
    uint32_t v = 0;
    while (v < op->var_count && !division_is_uneven(&basis->sizes, v, d->split[v])) v++;
    if (v == op->var_count) return cost_of_even(op, basis, d, resident);
    int32_t slices = d->split[v];
    int64_t units = basis->sizes.units[v], most = divide_up(units, slices);
    int64_t least = units - most * (slices - 1);
    cost_basis all = shortened(op, basis, v, least, slices);
    cost_basis others = shortened(op, basis, v, most - least, slices - 1);
    division fewer = *d;
    fewer.split[v] = slices - 1;
    cost sum = cost_of(op, &all, d, resident), rest = cost_of(op, &others, &fewer, resident);
    add(&rest, &sum);
    return sum;
}

uint32_t cost_resident(const loop_graph *loops, const loop_op *op)
{
    uint32_t resident = 0;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (loop_operand_buffer(loops, op, k)->in_lx) resident |= 1u << k;
    return resident;
}

cost cost_as_planned(const loop_graph *loops, const loop_op *op)
{
    cost_basis basis = cost_basis_of(loops, op);
    division d = division_get(op);
    return cost_of(op, &basis, &d, cost_resident(loops, op));
}

double cost_of_graph(const loop_graph *loops)
{
    double us = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        us += cost_as_planned(loops, op).us * loop_executions(loops, op);
    }
    return us;
}

bool cost_is_less(const cost *a, const cost *b)
{
    double margin = 1e-9 * (a->memory_us + b->memory_us + a->compute_us + b->compute_us);
    if (a->us < b->us - margin) return true;
    return a->us <= b->us + margin && a->compute_us + a->ring_us < b->compute_us + b->ring_us;
}
