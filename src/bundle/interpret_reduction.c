// SPDX-License-Identifier: Apache-2.0
//
// sum, mean, max, min and exx2 in fp32; sums, products and extremes of integers in int32. In the
// one order that every engine keeps: an accumulator a lane when the stick dim of the input is
// reduced, elements ascending, then a fixed tree over the lanes, then the cores in ascending order
// of their slices, then one multiplication.
#include "bundle/step_facts.h"
#include "bundle/execution.h"

enum { MOST_LANES = SPYRE_STICK_BYTES, MOMENTS = 2 };

typedef struct {
    uint32_t lanes;                         // 1 unless the stick dim is reduced
    uint32_t moments;                       // 2 for exx2: x and x * x
    uint32_t first_moment;                  // 1: the first one stays 0
    bool integers;
    int64_t limits[BUNDLE_MAX_DIMS];        // of the reduced dims; tiles for a reduced stick dim
    accumulator_cell masked;
} reduction;

static reduction describe(const execution *x)
{
    const bundle_step *step = x->step;
    const bundle_tensor *input = &step->tensors[step->inputs[0]];
    reduction r = {.lanes = 1, .moments = opfunc_moments(step->op)};
    r.first_moment = bundle_takes_zero_mean(step);
    r.integers =
        accumulate_in_integers(step->op, step->tensors[step->output].format, input->format);
    for (uint32_t i = 0; i < x->reduced_count; i++) {
        uint32_t d = x->reduced[i];
        r.limits[d] = x->local[d];
        if (d != input->stick_dim) continue;
        r.lanes = input->stick_elements;
        r.limits[d] = (x->local[d] + r.lanes - 1) / r.lanes;
    }
    if (step->mask_count > 0)
        r.masked = accumulator_of_value(
            (double)bundle_constant_value(step, (uint32_t)step->mask_constant), r.integers);
    return r;
}

static spyre_status load_or_mask(const execution *x, const reduction *r, uint32_t core,
                                 const int64_t *index, accumulator_cell *out_value)
{
    *out_value = r->masked;
    if (execution_masked(x, core, index)) return NULL;
    double value, factor = 1.0;
    TRY(execution_load(x, x->step->inputs[0], core, index, &value));
    if (x->step->op == OPFUNC_DEPTHWISECONV2D)
        TRY(execution_load(x, x->step->inputs[1], core, index, &factor));
    *out_value = accumulator_of_value(value * factor, r->integers);
    return NULL;
}

// Adds the elements of all lanes at one place of the reduced dims; `at` counts tiles in the stick
// dim, of which the last may be incomplete.
static spyre_status accumulate(const execution *x, const reduction *r, uint32_t core,
                               const int64_t *at, accumulator_cell sums[MOMENTS][MOST_LANES])
{
    uint32_t stick_dim = x->step->tensors[x->step->inputs[0]].stick_dim;
    int64_t index[BUNDLE_MAX_DIMS];
    for (uint32_t d = 0; d < BUNDLE_MAX_DIMS; d++) index[d] = at[d];
    for (uint32_t lane = 0; lane < r->lanes; lane++) {
        if (r->lanes > 1) {
            index[stick_dim] = at[stick_dim] * r->lanes + lane;
            if (index[stick_dim] >= x->local[stick_dim]) return NULL;
        }
        accumulator_cell value;
        if (x->step->window_count && execution_masked(x, core, index)) return NULL;
        TRY(load_or_mask(x, r, core, index, &value));
        if (r->first_moment == 0)
            sums[0][lane] = accumulator_join(x->step->op, r->integers, sums[0][lane], value);
        if (r->moments == 1) continue;
        accumulator_cell square = {.real = value.real * value.real};
        sums[1][lane] = accumulator_join(x->step->op, r->integers, sums[1][lane], square);
    }
    return NULL;
}

static accumulator_cell fold_lanes(const reduction *r, opfunc op, accumulator_cell *lane)
{
    for (uint32_t width = r->lanes / 2; width > 0; width /= 2) {
        for (uint32_t i = 0; i < width; i++) {
            lane[i] = accumulator_join(op, r->integers, lane[i], lane[i + width]);
        }
    }
    return lane[0];
}

// The result of one core for one kept index; `index` has the kept dims set and the others 0.
static spyre_status reduce_one(const execution *x, const reduction *r, uint32_t core,
                               int64_t *index, accumulator_cell out_results[MOMENTS])
{
    accumulator_cell sums[MOMENTS][MOST_LANES];
    for (uint32_t m = 0; m < r->moments; m++) {
        for (uint32_t lane = 0; lane < r->lanes; lane++) {
            sums[m][lane] = accumulator_neutral(x->step->op, r->integers);
        }
    }
    do {
        TRY(accumulate(x, r, core, index, sums));
    } while (odometer_next_of(x->reduced, x->reduced_count, r->limits, index));
    for (uint32_t m = 0; m < r->moments; m++) {
        out_results[m] = fold_lanes(r, x->step->op, sums[m]);
    }
    return NULL;
}

static float finished(const bundle_finish *f, float value)
{
    const double accumulator = (double)value;
    const float limits[OPFUNC_MAX_PARAMETERS] = {f->least, f->most};
    if (f->clips) value = (float)opfunc_apply(OPFUNC_CLIP, &accumulator, 1, limits);
    return f->scales ? value * f->factor : value;
}

static spyre_status multiply_by_input(const execution *x, uint32_t core, const int64_t *index,
                                      float *value)
{
    double factor;
    TRY(execution_load(x, x->step->inputs[1], core, index, &factor));
    *value = (float)((double)*value * factor);
    return NULL;
}

static spyre_status store_results(execution *x, const reduction *r, const accumulator_cell *partial,
                                  int64_t per_core)
{
    const bundle_finish finish = bundle_finish_of(x->step);
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        const accumulator_cell *result = partial + core * per_core;
        do {
            for (uint32_t m = 0; m < r->moments; m++) {
                accumulator_cell cell = *result++;
                if (!r->integers) cell.real = finished(&finish, cell.real);
                if (opfunc_multiplies_results(x->step->op, x->step->input_count))
                    TRY(multiply_by_input(x, core, index, &cell.real));
                TRY(execution_store(x, core, index, m, accumulator_value(cell, r->integers)));
            }
        } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}

spyre_status interpret_reduction(execution *x)
{
    reduction r = describe(x);
    int64_t per_core = execution_kept_elements(x) * r.moments;
    accumulator_cell *partial =
        ARENA_NEW(x->scratch, accumulator_cell, (size_t)per_core * x->step->cores->core_count);
    TRY_ALLOC(partial);
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        accumulator_cell *result = partial + core * per_core;
        r = describe(x);
        do {
            TRY(reduce_one(x, &r, core, index, result));
            result += r.moments;
        } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    }
    execution_combine_cores(x, x->step->op, r.integers, partial, per_core);
    return store_results(x, &r, partial, per_core);
}
