// SPDX-License-Identifier: Apache-2.0
//
// What card/simd/simd_formulas.h wants, for single values: the portable layer, and loops that the
// compiler vectorises.
#ifndef CARD_SIMD_SCALAR_H
#define CARD_SIMD_SCALAR_H

#include <math.h>
#include <stdbool.h>

#include "card/simd/simd_layer.h"
#include "tensor/numeric.h"

typedef float V;
typedef double D;

#define FUNCTIONS(f, type, root, floor_of, nearest_to, absolute)   \
    UNARY(type, f##_set, type, x)                                  \
    BINARY(type, f##_max, type, a > b ? a : b)                     \
    BINARY(type, f##_min, type, a < b ? a : b)                     \
    UNARY(type, f##_sqrt, type, root(x))                           \
    UNARY(type, f##_floor, type, floor_of(x))                      \
    UNARY(type, f##_nearest, type, nearest_to(x))                  \
    UNARY(type, f##_magnitude, type, absolute(x))                  \
    BINARY(bool, f##_less, type, a < b)                            \
    BINARY(bool, f##_less_equal, type, a <= b)                     \
    BINARY(bool, f##_equal, type, a == b)                          \
    BINARY(bool, f##_unordered, type, a != a || b != b)            \
    PICKER(f##_pick, bool, type, m ? x : y)
FUNCTIONS(v, float, sqrtf, floorf, rintf, fabsf)
FUNCTIONS(d, double, sqrt, floor, rint, fabs)

static inline V v_quieten(V x)
{
    uint32_t bits = float_bits(x);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? float_from_bits(bits | 0x00400000u) : x;
}

#endif
