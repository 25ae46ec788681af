// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs over lanes. Each expression is the one of tensor/opfunc.c, once in fp32 and once in fp64;
// inputs are a, b, c, d, e, constants p and q, and T is the register type.
#include <math.h>

#include "card/clones.h"
#include "card/lanes.h"

#define ROOT(x) _Generic((x), float: sqrtf, double: sqrt)(x)
#define MAGNITUDE(x) _Generic((x), float: fabsf, double: fabs)(x)
#define FLOOR(x) _Generic((x), float: floorf, double: floor)(x)
#define QUIET(x) ((x) != (x) ? (T)NAN : (x))    // every NaN that a function makes is this one

#define COMMON_ROWS(ROW)                                            \
    ROW(ADD, QUIET(a + b))                                          \
    ROW(SUB, QUIET(a - b))                                          \
    ROW(MUL, QUIET(a * b))                                          \
    ROW(REALDIV, QUIET(a / b))                                      \
    ROW(MAXIMUM, a != a || b != b ? (T)NAN : a > b ? a : b)         \
    ROW(MINIMUM, a != a || b != b ? (T)NAN : a < b ? a : b)         \
    ROW(EQUAL, (T)(a == b ? 1 : 0))                                 \
    ROW(NOTEQUAL, (T)(a != b ? 1 : 0))                              \
    ROW(LESSERTHAN, (T)(a < b ? 1 : 0))                             \
    ROW(LESSEREQUAL, (T)(a <= b ? 1 : 0))                           \
    ROW(GREATERTHAN, (T)(a > b ? 1 : 0))                            \
    ROW(GREATEREQUAL, (T)(a >= b ? 1 : 0))                          \
    ROW(WHERE3, a != 0 ? b : c)                                     \
    ROW(ABS, QUIET(MAGNITUDE(a)))                                   \
    ROW(NEG, QUIET(-a))                                             \
    ROW(RELUFWD, QUIET(a != a || a > 0 ? a : 0))                    \
    ROW(FLOOR, QUIET(FLOOR(a)))                                     \
    ROW(SQRT, QUIET(ROOT(a)))                                       \
    ROW(RECIPROCAL, QUIET(1 / a))                                   \
    ROW(CLIP, QUIET((a < p ? p : a) > q ? q : (a < p ? p : a)))     \
    ROW(IDENTITY, a)

#define VARIANCE (b - a * a)
#define F64_ROWS(ROW)                                                               \
    ROW(RSQRT, QUIET(1 / ROOT(a)))                                                  \
    ROW(LAYERNORMSCALE, QUIET(1 / ROOT((VARIANCE < 0 ? (T)0 : VARIANCE) + p)))
#define F32_ROWS(ROW) ROW(LAYERNORMNORM, QUIET(((a - b) * c) * d + e))

#define KERNEL(type, name, expression)                                                          \
    CARD_CLONES                                                                                 \
    static void name(type *restrict out, const type *const *in, const float *constant,          \
                     size_t count)                                                              \
    {                                                                                           \
        typedef type T;                                                                         \
        const T p = (T)constant[0], q = (T)constant[1];                                         \
        const T *x0 = in[0], *x1 = in[1], *x2 = in[2], *x3 = in[3], *x4 = in[4];                \
        (void)p, (void)q;                                                                       \
        for (size_t n = 0; n < count; n++) {                                                    \
            const T a = x0[n], b = x1[n], c = x2[n], d = x3[n], e = x4[n];                      \
            (void)b, (void)c, (void)d, (void)e;                                                 \
            out[n] = (expression);                                                              \
        }                                                                                       \
    }

#define F32_KERNEL(op, expression) KERNEL(float, f32_##op, expression)
#define F64_KERNEL(op, expression) KERNEL(double, f64_##op, expression)
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
#define F32_ENTRY(name, expression) [OPFUNC_##name] = f32_##name,
    static lanes_f32_fn *const functions[OPFUNC_COUNT] = {COMMON_ROWS(F32_ENTRY)
                                                              F32_ROWS(F32_ENTRY)};
    return functions[canonical(op)];
}

lanes_f64_fn *lanes_f64_function(opfunc op)
{
#define F64_ENTRY(name, expression) [OPFUNC_##name] = f64_##name,
    static lanes_f64_fn *const functions[OPFUNC_COUNT] = {COMMON_ROWS(F64_ENTRY)
                                                              F64_ROWS(F64_ENTRY)};
    return functions[canonical(op)];
}

// --- Reductions

CARD_CLONES
static void add_to(float *restrict accumulator, const float *restrict values, size_t count)
{
    for (size_t n = 0; n < count; n++) accumulator[n] = accumulator[n] + values[n];
}

CARD_CLONES
static void raise_to(float *restrict accumulator, const float *restrict values, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        float a = accumulator[n], b = values[n];
        accumulator[n] = a != a ? a : b != b ? b : a > b ? a : b;
    }
}

CARD_CLONES
static void lower_to(float *restrict accumulator, const float *restrict values, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        float a = accumulator[n], b = values[n];
        accumulator[n] = a != a ? a : b != b ? b : a < b ? a : b;
    }
}

void lanes_combine(opfunc op, float *accumulator, const float *values, size_t count)
{
    if (op == OPFUNC_MAX) raise_to(accumulator, values, count);
    else if (op == OPFUNC_MIN) lower_to(accumulator, values, count);
    else add_to(accumulator, values, count);
}

CARD_CLONES
void lanes_square(float *values, size_t count)
{
    for (size_t n = 0; n < count; n++) values[n] = values[n] * values[n];
}
