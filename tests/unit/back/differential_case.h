// SPDX-License-Identifier: Apache-2.0
//
// Random steps of small bundles: dims, orders, gaps, work divisions, formats. The seeds are fixed.
#ifndef TESTS_DIFFERENTIAL_CASE_H
#define TESTS_DIFFERENTIAL_CASE_H

#include "support/rounds.h"
#include "unit/back/trial.h"

enum { DIMS = 4 };
static const char *const names[DIMS] = {"y", "x", "mb", "out"};
#define DL16 SPYRE_FORMAT_SEN169_FP16
#define FP32 SPYRE_FORMAT_IEEE_FP32

static inline int32_t pick_count(trial *t)
{
    static const int32_t choices[] = {1, 1, 2, 3, 4, 5};
    return choices[pick(t, 6)];
}

// A slice holds whole sticks.
static inline int32_t pick_equal_slices(trial *t, int64_t size, int64_t granule)
{
    int32_t slices = pick_count(t);
    if (granule > 1 && granule < 64) granule = 64;
    return size % (slices * granule) == 0 ? slices : 1;
}

// The last slice of an uneven division is shorter (slice_size, else 0).
static inline int32_t pick_slices(trial *t, int64_t size, int64_t granule, int64_t *slice_size)
{
    int32_t slices = pick_count(t);
    if (granule > 1 && granule < 64) granule = 64;
    *slice_size = 0;
    if (size % (slices * granule) == 0) return slices;
    int64_t units = (size + granule - 1) / granule, length = (units + slices - 1) / slices;
    if (length == units || pick(t, 2)) return 1;
    if (size % (length * granule)) *slice_size = length * granule;
    return (int32_t)((units + length - 1) / length);
}

// Cores that share an output have results of one length.
static inline bool shares_uneven_results(const bundle_step *step, uint32_t reduced)
{
    bool shares = false, uneven = false;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (reduced >> d & 1)
            shares |= step->cores->slices[d] > 1;
        else
            uneven |= step->cores->slice_size[d] != 0;
    }
    return shares && uneven;
}

// Dims y, x (each there or not), mb and out; sizes are multiples of `granule`.
static inline bundle_step random_space(trial *t, opfunc op, const int64_t *granule,
                                       int64_t most_rows)
{
    made_dim dims[DIMS + 1] = {{0}};
    uint32_t count = 0;
    int32_t cores = 1;
    int64_t rows = 1, slice_size[BUNDLE_MAX_DIMS] = {0};
    for (uint32_t d = 0; d < DIMS; d++) {
        if (d < 2 && pick(t, 2)) continue;
        int64_t size = granule[d] * (1 + pick(t, granule[d] > 1 ? 4 : 9));
        if (granule[d] == 1) {
            if (rows * size > most_rows) size = 1;
            rows *= size;
        }
        int32_t slices = pick_slices(t, size, granule[d], &slice_size[count]);
        if (cores * slices > BUNDLE_MAX_CORES) slice_size[count] = 0, slices = 1;
        cores *= slices;
        dims[count++] = (made_dim){names[d], size, slices};
    }
    bundle_step step = make_step(t->memory, op, dims);
    memcpy(step.cores->slice_size, slice_size, sizeof slice_size);
    return step;
}

// The dims of the step in `set` in random order, as a list of names.
static inline const char *random_order(trial *t, const bundle_step *step, uint32_t set)
{
    uint8_t order[BUNDLE_MAX_DIMS];
    uint32_t count = 0;
    for (uint8_t d = 0; d < step->dim_count; d++) {
        if (!(set >> d & 1)) continue;
        uint32_t at = pick(t, ++count);
        order[count - 1] = order[at];
        order[at] = d;
    }
    const char *list = "";
    for (uint32_t i = 0; i < count; i++)
        list = arena_printf(t->memory, "%s%s%s", list, i ? " " : "", step->dim_name[order[i]]);
    return list;
}

static inline uint32_t all_dims(const bundle_step *step)
{
    return (1u << step->dim_count) - 1;
}

static inline uint32_t dim_bit(const bundle_step *step, const char *name)
{
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (strcmp(step->dim_name[d], name) == 0) return 1u << d;
    return 0;
}

static inline const char *random_subset(trial *t, const bundle_step *step, uint32_t odds)
{
    const char *list = "";
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (pick(t, odds)) continue;
        list = arena_printf(t->memory, "%s%s%s", list, *list ? " " : "", step->dim_name[d]);
    }
    return list;
}

static inline void random_gaps(trial *t, bundle_step *step, bundle_tensor *tensor)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (tensor->scale[d] <= 0 || pick(t, 4)) continue;
        int64_t unit = d == tensor->stick_dim ? tensor->stick_elements : 1;
        tensor->gap[d] = unit * (1 + pick(t, 2));
    }
}

// Every tensor has a label of its own, so that orders may differ.
static inline bundle_tensor *add_tensor(trial *t, bundle_step *step, spyre_format format,
                                        uint32_t set, const char *stick, const char *absent,
                                        uint32_t lx_odds)
{
    const char *label = arena_printf(t->memory, "L%u", step->tensor_count);
    bundle_tensor *tensor =
        make_tensor(step, label, format, random_order(t, step, set), stick, absent);
    if (step->op != OPFUNC_RESTICKIFY) random_gaps(t, step, tensor);
    trial_place(t, step, tensor, lx_odds);
    return tensor;
}

// Of the last tensor, the output: now and then the end of its stick dim has no reader.
static inline void random_live_lanes(trial *t, bundle_step *step)
{
    const uint8_t d = step->tensors[step->tensor_count - 1].stick_dim;
    if (pick(t, 2)) step->live_lanes = 1 + pick(t, (uint32_t)step->size[d]);
}

// The trials of a family, or the one that SPYRE_TRIAL names.
static inline void run(void (*family)(uint64_t), uint64_t first, uint32_t count)
{
    const char *only = getenv("SPYRE_TRIAL");
    const uint64_t end = first + test_rounds(count);
    for (uint64_t n = first; n < end; n++)
        if (!only || strtoull(only, NULL, 10) == n) family(n);
}

#endif
