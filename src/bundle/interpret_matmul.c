// SPDX-License-Identifier: Apache-2.0
//
// batchmatmul: one fp32 accumulator an output element, k ascending (the k dims in the order of N_,
// the last fastest). Cores that split k add their fp32 sums in ascending order of the slices; the
// store rounds once.
#include <math.h>

#include "bundle/execution.h"

static spyre_status dot(const execution *x, uint32_t core, int64_t *index, float *out_sum)
{
    const bundle_step *step = x->step;
    float sum = 0.0f;
    do {
        if (execution_masked(x, core, index)) continue;
        double a, b;
        TRY(execution_load(x, step->inputs[0], core, index, &a));
        TRY(execution_load(x, step->inputs[1], core, index, &b));
        // Products of two SEN169_FP16 are exact in fp32, so there fmaf is also sum + a * b.
        sum = fmaf((float)a, (float)b, sum);
    } while (execution_advance(x->reduced, x->reduced_count, x->local, index));
    *out_sum = sum;
    return NULL;
}

spyre_status interpret_matmul(execution *x)
{
    int64_t per_core = execution_kept_elements(x);
    float *partial = ARENA_NEW(x->scratch, float, (size_t)per_core * x->step->core_count);
    TRY_ALLOC(partial);
    for (uint32_t core = 0; core < x->step->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        float *sum = partial + core * per_core;
        do {
            TRY(dot(x, core, index, sum++));
        } while (execution_advance(x->kept, x->kept_count, x->local, index));
    }
    execution_combine_cores(x, OPFUNC_SUM, partial, per_core);
    for (uint32_t core = 0; core < x->step->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        const float *result = partial + core * per_core;
        do {
            TRY(execution_store(x, core, index, 0, (double)*result++));
        } while (execution_advance(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}
