// SPDX-License-Identifier: Apache-2.0
//
// Products: one fp32 accumulator (int32 of integers) an output element, k ascending (the k dims in
// the order of N_, the last fastest). Cores that split k add their sums in ascending order of the
// slices; the store rounds once.
#include <math.h>

#include "bundle/execution.h"

// A sum in four bytes: fp32, or int32 of integers.
typedef union {
    float real;
    uint32_t integer;
} sum_cell;

static bool multiplies_integers(const execution *x)
{
    spyre_format format = x->step->tensors[x->step->inputs[0]].format;
    return format == SPYRE_FORMAT_SENINT8 || format == SPYRE_FORMAT_SENINT4;
}

static spyre_status dot(const execution *x, uint32_t core, int64_t *index, bool integers,
                        sum_cell *out_sum)
{
    const bundle_step *step = x->step;
    sum_cell sum = {.integer = 0};
    do {
        if (execution_masked(x, core, index)) continue;
        double a, b;
        TRY(execution_load(x, step->inputs[0], core, index, &a));
        TRY(execution_load(x, step->inputs[1], core, index, &b));
        // Products of two SEN169_FP16 are exact in fp32, so there fmaf is also sum + a * b.
        if (integers) sum.integer += (uint32_t)(int32_t)(a * b);
        else sum.real = fmaf((float)a, (float)b, sum.real);
    } while (execution_advance(x->reduced, x->reduced_count, x->local, index));
    *out_sum = sum;
    return NULL;
}

spyre_status interpret_matmul(execution *x)
{
    bool integers = multiplies_integers(x);
    int64_t per_core = execution_kept_elements(x);
    sum_cell *partial =
        ARENA_NEW(x->scratch, sum_cell, (size_t)per_core * x->step->cores->core_count);
    TRY_ALLOC(partial);
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        sum_cell *sum = partial + core * per_core;
        do {
            TRY(dot(x, core, index, integers, sum++));
        } while (execution_advance(x->kept, x->kept_count, x->local, index));
    }
    if (integers) execution_add_cores(x, (int32_t *)(void *)partial, per_core);
    else execution_combine_cores(x, OPFUNC_SUM, (float *)(void *)partial, per_core);
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        const sum_cell *result = partial + core * per_core;
        do {
            double value = integers ? (double)(int32_t)result->integer : (double)result->real;
            TRY(execution_store(x, core, index, 0, value));
            result++;
        } while (execution_advance(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}
