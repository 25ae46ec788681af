// SPDX-License-Identifier: Apache-2.0
//
// The opfuncs of tensor/opfunc_apply.c as expressions over registers of fp32 (V) and fp64 (D):
// inputs a, b, c, d, e and constants p, q. A file that includes this defines V and D and, with the
// prefixes v_ and d_, set, max (a > b ? a : b), min, sqrt, floor, nearest (ties to even),
// magnitude, the masks less, less_equal, equal and unordered with pick(mask, then, else), and
// v_quieten, which quiets a signalling NaN as the step through fp64 of the definition does. Where
// the expressions stand, two constants say
//   ends_dl16       the result goes to SEN169_FP16, for which NaN and infinity are one
//   no_nan          no input is a NaN
//
// A row says how many inputs an opfunc has, and what its expression is worth in fp32 (lanes.h).
#ifndef CARD_SIMD_FORMULAS_H
#define CARD_SIMD_FORMULAS_H

#include <float.h>
#include <math.h>

#define OF(name, x)     _Generic((x), V: v_##name, D: d_##name)
#define SET_LIKE(x, c)  OF(set, x)(c)
#define PICK(m, x, y)   OF(pick, x)(m, x, y)
#define UNORDERED(a, b) OF(unordered, a)(a, b)

// Every NaN that a function makes is the positive quiet one. What goes to SEN169_FP16 becomes
// infinity there.
#define QUIET(x)  OF(quiet, x)(x, ends_dl16)
#define PASSED(x) OF(passed, x)(x, no_nan)
#define QUIETER(f, type)                                                             \
    static inline type f##_quiet(type x, bool ends_dl16)                             \
    {                                                                                \
        if (ends_dl16) return x;                                                     \
        return f##_pick(f##_unordered(x, x), f##_set(NAN), x);                       \
    }
QUIETER(v, V)
QUIETER(d, D)

static inline V v_passed(V x, bool no_nan)
{
    return no_nan ? x : v_quieten(x);
}

static inline D d_passed(D x, bool no_nan)
{
    (void)no_nan;
    return x;
}

// In fp32 only of codes: all of them round alike after a multiplication.
static inline V v_sixth(V x, bool ends_dl16)
{
    return ends_dl16 ? x * v_set(1.0f / 6.0f) : x / v_set(6.0f);
}

static inline D d_sixth(D x, bool ends_dl16)
{
    (void)ends_dl16;
    return x / d_set(6.0);
}

#define CHOOSE(mask) PICK(mask, SET_LIKE(a, 1.0f), ZERO)
#define NEITHER_NAN(a, b, x) (no_nan ? (x) : PICK(UNORDERED(a, b), SET_LIKE(a, NAN), x))
#define RAISED(x, p) OF(max, a)(p, x)
#define CLIPPED(x, p, q) OF(min, a)(q, RAISED(x, p))
#define UP_TO_SIX(x) CLIPPED(x, ZERO, SET_LIKE(a, 6.0f))
#define SIXTH_GATE OF(sixth, a)(UP_TO_SIX(a + SET_LIKE(a, 3.0f)), ends_dl16)
#define FINITE RAISED(a, SET_LIKE(a, -FLT_MAX))
#define VARIANCE (b - a * a)
#define ZERO SET_LIKE(a, 0.0f)
#define POSITIVE(x) RAISED(x, ZERO)
#define CEILED (-OF(floor, a)(-a))
#define TRUNCATED PICK(OF(less, a)(a, ZERO), CEILED, OF(floor, a)(a))
#define SIGN_BELOW PICK(OF(less, a)(a, ZERO), SET_LIKE(a, -1.0f), PICK(UNORDERED(a, a), ZERO, a))
#define COMMON_ROWS(ROW)                                                                    \
    ROW(ADD,          2, ROUNDS,  QUIET(a + b))                                             \
    ROW(SUB,          2, ROUNDS,  QUIET(a - b))                                             \
    ROW(MUL,          2, ROUNDS,  QUIET(a * b))                                             \
    ROW(REALDIV,      2, ROUNDS,  QUIET(a / b))                                             \
    ROW(MAXIMUM,      2, SELECTS, NEITHER_NAN(a, b, OF(max, a)(a, b)))                      \
    ROW(MINIMUM,      2, SELECTS, NEITHER_NAN(a, b, OF(min, a)(a, b)))                      \
    ROW(EQUAL,        2, SELECTS, CHOOSE(OF(equal, a)(a, b)))                               \
    ROW(NOTEQUAL,     2, SELECTS, SET_LIKE(a, 1.0f) - CHOOSE(OF(equal, a)(a, b)))           \
    ROW(LESSERTHAN,   2, SELECTS, CHOOSE(OF(less, a)(a, b)))                                \
    ROW(LESSEREQUAL,  2, SELECTS, CHOOSE(OF(less_equal, a)(a, b)))                          \
    ROW(GREATERTHAN,  2, SELECTS, CHOOSE(OF(less, a)(b, a)))                                \
    ROW(GREATEREQUAL, 2, SELECTS, CHOOSE(OF(less_equal, a)(b, a)))                          \
    ROW(WHERE3,       3, SELECTS, PASSED(PICK(OF(equal, a)(a, ZERO), c, b)))                \
    ROW(ABS,          1, SELECTS, QUIET(OF(magnitude, a)(a)))                               \
    ROW(NEG,          1, SELECTS, QUIET(-a))                                                \
    ROW(RELUFWD,      1, SELECTS, QUIET(PICK(OF(less_equal, a)(a, ZERO), ZERO, a)))         \
    ROW(FLOOR,        1, EXACT,   QUIET(OF(floor, a)(a)))                                   \
    ROW(CEIL,         1, EXACT,   QUIET(CEILED))                                            \
    ROW(TRUNC,        1, EXACT,   QUIET(TRUNCATED))                                         \
    ROW(ROUND,        1, EXACT,   QUIET(OF(nearest, a)(a)))                                 \
    ROW(FRAC,         1, EXACT,   QUIET(a - TRUNCATED))                                     \
    ROW(SIGN,         1, EXACT,   PICK(OF(less, a)(ZERO, a), SET_LIKE(a, 1.0f), SIGN_BELOW)) \
    ROW(SQRT,         1, ROUNDS,  QUIET(OF(sqrt, a)(a)))                                    \
    ROW(RECIPROCAL,   1, ROUNDS,  QUIET(SET_LIKE(a, 1.0f) / a))                             \
    ROW(RSQRT,        1, CODES,   QUIET(SET_LIKE(a, 1.0f) / OF(sqrt, a)(a)))                \
    ROW(CLIP,         1, EXACT,   QUIET(CLIPPED(a, p, q)))                                  \
    ROW(RELU6FWD,     1, EXACT,   QUIET(UP_TO_SIX(a)))                                      \
    ROW(HARDSIGMOID,  1, CODES,   QUIET(SIXTH_GATE))                                        \
    ROW(HARDSWISH,    1, CODES,   QUIET(FINITE * SIXTH_GATE))                               \
    ROW(IDENTITY,     1, SELECTS, PASSED(a))
#define F64_ROWS(ROW)                                                                       \
    ROW(LAYERNORMSCALE, 2, NONE, QUIET(SET_LIKE(a, 1.0f) / OF(sqrt, a)(POSITIVE(VARIANCE) + p)))
#define F32_ROWS(ROW) ROW(LAYERNORMNORM, 5, EXACT, QUIET(((a - b) * c) * d + e))

#endif
