// SPDX-License-Identifier: Apache-2.0
//
// matmul_split: the published choice for a matmul whose loops play clear roles: batches, one row
// loop that only the left operand has, one column loop with the result's stick, one contracted
// loop. All splits into divisors are priced; the cheapest one is taken unless the default division
// would use more cores. A product with a shared two-dimensional weight has two row loops and is
// left to work_distribution, as published.
#include "front/divide/matmul_split.h"
#include "front/front.h"

#include <math.h>

#include "front/ir/core_numbers.h"
#include "isa/constants.h"

// torch_spyre/_inductor/work_division.py: 98.304 TFLOP/s of 32 cores, in multiply-adds per us and
// core; the number of passes through the rows of PEs that fills them; cores that share a broadcast
// without contention; us of one partial sum and hop; us of a tie-break step; the batch's exponent.
static const double NOMINAL_RATE = 98.304e12 / 2 / 32 / 1e6;
static const double FULL_PASSES = 8, FREE_COHORT = 8, PARTIAL_SUM_US = 1.4e-4, TIE_US = 50;
static const double BATCH_POWER = 1.4;

double matmul_published_us(const matmul_shape *size, const matmul_shape *slices)
{
    double b = (double)size->b, m = (double)size->m, n = (double)size->n, k = (double)size->k;
    double cut = (double)(slices->b * slices->m * slices->n * slices->k);
    double passes = fmax(1, m / (double)slices->m / GEOMETRY_PE_ROWS);
    double fill = fmin(1, sqrt(passes / FULL_PASSES));
    double compute = b * m * n * k / cut / (NOMINAL_RATE * fill);
    double bytes = 2 * (b * m * k + b * k * n + b * m * n);
    double cohort = fmax(1, (double)(slices->m > slices->n ? slices->m : slices->n) / FREE_COHORT);
    double hbm = bytes / (GEOMETRY_MEMORY_NOMINAL * 1e3) * cohort;
    double psum = (double)(slices->k - 1) * b * m * n * PARTIAL_SUM_US;
    double tie = passes < FULL_PASSES ? TIE_US * log2(FULL_PASSES / passes) : 0;
    return (compute + hbm + psum + tie) * pow((double)slices->b, BATCH_POWER);
}

// --- Roles

typedef struct {
    division_sizes sizes;
    uint8_t row, column, sum;
    uint32_t batch_count;
    uint8_t batch[LOOP_MAX_VARS]; // outermost first
    matmul_shape size;
} roles;

// A loop may be missing when its extent is 1: LOOP_NO_DIM.
static bool find_roles(const loop_graph *loops, const loop_op *op, roles *out)
{
    *out = (roles){.sizes = division_sizes_of(loops, op),
                   .row = LOOP_NO_DIM,
                   .column = op->stick,
                   .sum = LOOP_NO_DIM,
                   .size = {1, 1, 1, 1}};
    for (uint8_t v = 0; v < op->var_count; v++) {
        bool a = op->operand[0].stride[v], b = op->operand[1].stride[v];
        if (v == op->stick) {
            out->size.n = op->extent[v];
        } else if (loop_var_is_reduced(op, v)) {
            if (out->sum != LOOP_NO_DIM) return false;
            out->sum = v;
            out->size.k = op->extent[v];
        } else if (a && b) {
            out->batch[out->batch_count++] = v;
            out->size.b *= op->extent[v];
        } else {
            if (out->row != LOOP_NO_DIM) return false;
            out->row = v;
            out->size.m = op->extent[v];
        }
    }
    return out->column != LOOP_NO_DIM && out->row != LOOP_NO_DIM && out->sum != LOOP_NO_DIM;
}

bool matmul_published_cost(const loop_graph *loops, const loop_op *op, const division *d,
                           double *out_us)
{
    roles r;
    if (!loop_is_matmul(op) || !find_roles(loops, op, &r))
        return false;
    matmul_shape slices = {1, d->split[r.row], d->split[r.column], d->split[r.sum]};
    for (uint32_t i = 0; i < r.batch_count; i++) slices.b *= d->split[r.batch[i]];
    *out_us = matmul_published_us(&r.size, &slices);
    return true;
}

// --- The search

// Divides the batch loops into `slices` together, outermost first; false when they cannot be.
static bool split_batches(const roles *r, int64_t slices, division *d)
{
    for (uint32_t i = 0; i < r->batch_count; i++) {
        int64_t units = r->sizes.units[r->batch[i]], part = slices;
        while (part > 1 && (units % part || slices % part)) part--;
        d->split[r->batch[i]] = (int32_t)part;
        slices /= part;
    }
    return slices == 1;
}

static void try_split(const roles *r, const matmul_shape *slices, division *best, double *best_us)
{
    division d = division_whole();
    double us = matmul_published_us(&r->size, slices);
    if (*best_us >= 0 && us >= *best_us) return;
    if (!split_batches(r, slices->b, &d)) return;
    d.split[r->row] = (int32_t)slices->m;
    d.split[r->column] = (int32_t)slices->n;
    d.split[r->sum] = (int32_t)slices->k;
    *best = d;
    *best_us = us;
}

// The published choice for a matmul without committed splits; false where the planner declines: no
// clear row loop, column loop or contracted loop, or fewer cores than the default division uses.
// `combine` allows splits of the contracted loop.
static bool published_division(const loop_graph *loops, const loop_op *op, bool combine,
                               division *out, double *out_us)
{
    roles r;
    matmul_shape s;
    int64_t cores = loops->cores;
    *out_us = -1;
    if (!loop_is_matmul(op) || !find_roles(loops, op, &r))
        return false;
    int64_t rows = r.sizes.units[r.row], columns = r.sizes.units[r.column];
    int64_t sums = r.sizes.units[r.sum];
    for (s.b = 1; s.b <= cores; s.b++)
        for (s.m = 1; r.size.b % s.b == 0 && s.b * s.m <= cores; s.m++)
            for (s.n = 1; rows % s.m == 0 && s.b * s.m * s.n <= cores; s.n++)
                for (s.k = 1; columns % s.n == 0 && s.b * s.m * s.n * s.k <= cores; s.k++)
                    if (sums % s.k == 0 && (combine || s.k == 1)) try_split(&r, &s, out, out_us);
    if (*out_us < 0) return false;
    division whole = division_whole(), standard;
    standard = division_distribute(loops, op, &r.sizes, &whole);
    if (division_cores(op, out) < division_cores(op, &standard)) return false;
    core_numbers_choose(loops, op, out);
    return true;
}

spyre_status pass_matmul_split(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        division d;
        double us;
        if (op->divided_by != LOOP_UNDIVIDED) continue;
        if (!published_division(loops, op, division_is_published(loops), &d, &us)) continue;
        division_set(op, &d, LOOP_DIVIDED_BY_MATMUL_COST);
        *out_changed |= division_cores(op, &d) > 1;
    }
    return NULL;
}
