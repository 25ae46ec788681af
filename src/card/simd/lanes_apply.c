// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs over lanes in memory: the expressions of simd_formulas.h, once in fp32 and once in fp64.
#include "base/clones.h"
#include "card/simd/lanes.h"
#include "card/simd/simd_scalar.h"

#include "card/simd/simd_formulas.h"

#define KERNEL(type, name, expression)                                                          \
    BASE_CLONES                                                                                 \
    static void name(type *restrict out, const type *const *in, const float *constant,          \
                     size_t count)                                                              \
    {                                                                                           \
        const bool ends_dl16 = false, no_nan = false;                                           \
        const type p = (type)constant[0], q = (type)constant[1];                                \
        const type *x0 = in[0], *x1 = in[1], *x2 = in[2], *x3 = in[3], *x4 = in[4];             \
        (void)p, (void)q, (void)ends_dl16, (void)no_nan;                                        \
        for (size_t n = 0; n < count; n++) {                                                    \
            const type a = x0[n], b = x1[n], c = x2[n], d = x3[n], e = x4[n];                   \
            (void)b, (void)c, (void)d, (void)e;                                                 \
            out[n] = (expression);                                                              \
        }                                                                                       \
    }

#define F32_KERNEL(op, inputs, expression) KERNEL(float, f32_##op, expression)
#define F64_KERNEL(op, inputs, expression) KERNEL(double, f64_##op, expression)
COMMON_ROWS(F32_KERNEL)
F32_ROWS(F32_KERNEL)
COMMON_ROWS(F64_KERNEL)
F64_ROWS(F64_KERNEL)

static opfunc canonical(opfunc op)
{
    return opfunc_describe(op)->kind == OPFUNC_KIND_COPY ? OPFUNC_IDENTITY : op;
}

lanes_f32_fn *lanes_f32_function(opfunc op)
{
#define F32_ENTRY(name, inputs, expression) [OPFUNC_##name] = f32_##name,
    static lanes_f32_fn *const functions[OPFUNC_COUNT] = {COMMON_ROWS(F32_ENTRY)
                                                              F32_ROWS(F32_ENTRY)};
    return functions[canonical(op)];
}

lanes_f64_fn *lanes_f64_function(opfunc op)
{
#define F64_ENTRY(name, inputs, expression) [OPFUNC_##name] = f64_##name,
    static lanes_f64_fn *const functions[OPFUNC_COUNT] = {COMMON_ROWS(F64_ENTRY)
                                                              F64_ROWS(F64_ENTRY)};
    return functions[canonical(op)];
}

// --- Reductions

BASE_CLONES
void lanes_combine(opfunc op, float *restrict accumulator, const float *restrict values,
                   size_t count)
{
    switch ((int)op) {
#define OPFUNC_ACCUMULATOR(id, neutral, combination, pairwise, exactness) \
    case OPFUNC_##id:                                                     \
        for (size_t n = 0; n < count; n++) {                              \
            const float a = accumulator[n], b = values[n];                \
            accumulator[n] = (combination);                               \
        }                                                                 \
        return;
#include "tensor/opfunc.def"
    default: break;
    }
    for (size_t n = 0; n < count; n++)
        accumulator[n] = opfunc_combine(op, accumulator[n], values[n]);
}

BASE_CLONES
void lanes_square(float *values, size_t count)
{
    for (size_t n = 0; n < count; n++) values[n] = values[n] * values[n];
}
