// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs over lanes in memory: the expressions of simd_formulas.h, once in fp32 and once in fp64.
#include "base/target_clones.h"
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

#define F32_KERNEL(op, inputs, worth, expression) KERNEL(float, f32_##op, expression)
#define F64_KERNEL(op, inputs, worth, expression) KERNEL(double, f64_##op, expression)
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
#define F32_ENTRY(name, inputs, worth, expression) [OPFUNC_##name] = f32_##name,
    static lanes_f32_fn *const functions[OPFUNC_COUNT] = {COMMON_ROWS(F32_ENTRY)
                                                              F32_ROWS(F32_ENTRY)};
    return functions[canonical(op)];
}

lanes_f64_fn *lanes_f64_function(opfunc op)
{
#define F64_ENTRY(name, inputs, worth, expression) [OPFUNC_##name] = f64_##name,
    static lanes_f64_fn *const functions[OPFUNC_COUNT] = {COMMON_ROWS(F64_ENTRY)
                                                              F64_ROWS(F64_ENTRY)};
    return functions[canonical(op)];
}

// --- What fp32 is enough for

// Of an expression in fp32: it picks an input, 0 or 1; it rounds nothing; it rounds once; its
// results for codes of SEN169_FP16 round alike.
typedef enum { IN_F32_NONE, IN_F32_SELECTS, IN_F32_EXACT, IN_F32_ROUNDS, IN_F32_CODES } worth;

static worth worth_of(opfunc op)
{
#define WORTH(name, inputs, worth, expression) [OPFUNC_##name] = IN_F32_##worth,
    static const uint8_t worths[OPFUNC_COUNT] = {COMMON_ROWS(WORTH) F32_ROWS(WORTH)};
    return (worth)worths[canonical(op)];
}

bool lanes_selects(opfunc op)
{
    return worth_of(op) == IN_F32_SELECTS;
}

bool lanes_f32_suffices(opfunc op, spyre_format result, const spyre_format *inputs,
                        uint32_t count)
{
    const worth in_f32 = worth_of(op);
    const bool dl16 = result == SPYRE_FORMAT_SEN169_FP16;
    bool all_dl16 = true;
    if (!dl16 && result != SPYRE_FORMAT_IEEE_FP32) return false;
    for (uint32_t n = 0; n < count; n++) {
        if (!lanes_fits_f32(inputs[n])) return false;
        all_dl16 = all_dl16 && inputs[n] == SPYRE_FORMAT_SEN169_FP16;
    }
    if (in_f32 <= IN_F32_EXACT) return in_f32 != IN_F32_NONE;
    return dl16 ? all_dl16 : in_f32 == IN_F32_ROUNDS;
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
