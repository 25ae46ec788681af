// SPDX-License-Identifier: Apache-2.0
//
// Products: one fp32 accumulator (int32 of integers) an output element, k ascending (the k dims in
// the order of N_, the last fastest). Cores that split k add their sums in ascending order of the
// slices; the store rounds once.
//
// An element of an operand takes part in many sums, so each is loaded once, its k side by side.
// Where windows say which k count, every sum loads its own.
#include <math.h>
#include <stdlib.h>

#include "bundle/execution.h"

// A sum in four bytes: fp32, or int32 of integers.
static bool multiplies_integers(const execution *x)
{
    spyre_format format = x->step->tensors[x->step->inputs[0]].format;
    return format == SPYRE_FORMAT_SENINT8 || format == SPYRE_FORMAT_SENINT4;
}

static void add_product(accumulator_cell *sum, float a, float b, bool integers)
{
    // Products of two SEN169_FP16 are exact in fp32, so there fmaf is also sum + a * b.
    if (integers) sum->integer = accumulate_integer(OPFUNC_SUM, sum->integer, (int32_t)(a * b));
    else sum->real = fmaf(a, b, sum->real);
}

static spyre_status dot(const execution *x, uint32_t core, int64_t *index, bool integers,
                        accumulator_cell *out_sum)
{
    const bundle_step *step = x->step;
    accumulator_cell sum = {.integer = 0};
    do {
        if (execution_masked(x, core, index)) continue;
        double a, b;
        TRY(execution_load(x, step->inputs[0], core, index, &a));
        TRY(execution_load(x, step->inputs[1], core, index, &b));
        add_product(&sum, (float)a, (float)b, integers);
    } while (odometer_next_of(x->reduced, x->reduced_count, x->local, index));
    *out_sum = sum;
    return NULL;
}

static spyre_status dot_each(const execution *x, uint32_t core, bool integers,
                             accumulator_cell *sum)
{
    int64_t index[BUNDLE_MAX_DIMS] = {0};
    do {
        TRY(dot(x, core, index, integers, sum++));
    } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    return NULL;
}

// --- Loaded operands

typedef struct {
    uint32_t count;                     // kept dims along which the operand moves
    uint8_t dims[BUNDLE_MAX_DIMS];
    float *values;                      // by their indices, then k
} loaded;

static int64_t reduced_elements(const execution *x)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < x->reduced_count; i++) elements *= x->local[x->reduced[i]];
    return elements;
}

static int64_t row_of(const execution *x, const loaded *l, const int64_t *index)
{
    int64_t row = 0;
    for (uint32_t i = 0; i < l->count; i++) row = row * x->local[l->dims[i]] + index[l->dims[i]];
    return row;
}

static spyre_status load_row(const execution *x, uint32_t tensor, uint32_t core, int64_t *index,
                             float *out)
{
    do {
        double value = 0;
        if (!execution_masked(x, core, index)) TRY(execution_load(x, tensor, core, index, &value));
        *out++ = (float)value;
    } while (odometer_next_of(x->reduced, x->reduced_count, x->local, index));
    return NULL;
}

static spyre_status load_operand(const execution *x, uint32_t tensor, uint32_t core, loaded *out)
{
    int64_t k = reduced_elements(x), rows = 1, index[BUNDLE_MAX_DIMS] = {0};
    out->count = 0;
    for (uint32_t i = 0; i < x->kept_count; i++) {
        if (!x->operands[tensor].geometry.moves[x->kept[i]]) continue;
        out->dims[out->count++] = x->kept[i];
        rows *= x->local[x->kept[i]];
    }
    out->values = calloc((size_t)(rows * k), sizeof *out->values);
    TRY_ALLOC(out->values);
    for (float *row = out->values; rows-- > 0; row += k) {
        TRY(load_row(x, tensor, core, index, row));
        odometer_next_of(out->dims, out->count, x->local, index);
    }
    return NULL;
}

static spyre_status find_masked(const execution *x, uint32_t core, bool **out_masked)
{
    int64_t index[BUNDLE_MAX_DIMS] = {0};
    bool *masked = ARENA_NEW(x->scratch, bool, (size_t)reduced_elements(x));
    TRY_ALLOC(masked);
    *out_masked = masked;
    do {
        *masked++ = execution_masked(x, core, index);
    } while (odometer_next_of(x->reduced, x->reduced_count, x->local, index));
    return NULL;
}

static accumulator_cell dot_loaded(const float *a, const float *b, const bool *masked,
                                   int64_t count, bool integers)
{
    accumulator_cell sum = {.integer = 0};
    for (int64_t k = 0; k < count; k++)
        if (!masked[k]) add_product(&sum, a[k], b[k], integers);
    return sum;
}

static spyre_status dot_all(const execution *x, uint32_t core, bool integers, loaded *a, loaded *b,
                            accumulator_cell *sum)
{
    int64_t k = reduced_elements(x), index[BUNDLE_MAX_DIMS] = {0};
    bool *masked = NULL;
    TRY(find_masked(x, core, &masked));
    TRY(load_operand(x, x->step->inputs[0], core, a));
    TRY(load_operand(x, x->step->inputs[1], core, b));
    do {
        const float *row = a->values + row_of(x, a, index) * k;
        const float *column = b->values + row_of(x, b, index) * k;
        *sum++ = dot_loaded(row, column, masked, k, integers);
    } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    return NULL;
}

static spyre_status multiply(const execution *x, uint32_t core, bool integers,
                             accumulator_cell *sum)
{
    loaded a = {.values = NULL}, b = {.values = NULL};
    if (x->step->window_count) return dot_each(x, core, integers, sum);
    spyre_status status = dot_all(x, core, integers, &a, &b, sum);
    free(a.values);
    free(b.values);
    return status;
}

spyre_status interpret_matmul(execution *x)
{
    bool integers = multiplies_integers(x);
    int64_t per_core = execution_kept_elements(x);
    accumulator_cell *partial =
        ARENA_NEW(x->scratch, accumulator_cell, (size_t)per_core * x->step->cores->core_count);
    TRY_ALLOC(partial);
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        TRY(multiply(x, core, integers, partial + core * per_core));
    }
    execution_combine_cores(x, OPFUNC_SUM, integers, partial, per_core);
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        const accumulator_cell *result = partial + core * per_core;
        do {
            TRY(execution_store(x, core, index, 0, accumulator_value(*result++, integers)));
        } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}
