// SPDX-License-Identifier: Apache-2.0
//
// e^x, log x and angles in fp64 by additions, multiplications, both at once where it says so, and
// one division, so that loops over them are vectorised, with the same bits on every host; within 2
// units of the last place.
// Polynomials are summed by halves: term after term, each operation would wait for the one before.
#ifndef TENSOR_ELEMENTARY_H
#define TENSOR_ELEMENTARY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ELEMENTARY __attribute__((always_inline)) static inline
#define FUSED      __builtin_fma

// ln 2 in two parts, the first of so few bits that a whole number below 2^11 times it is exact.
#define ELEMENTARY_LN2_HIGH 0x1.62e42fee00000p-1
#define ELEMENTARY_LN2_LOW  0x1.a39ef35793c76p-33

ELEMENTARY uint64_t elementary_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ELEMENTARY double elementary_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Exact at 0; 0 below -707, infinity from 709.5 on, where 2^n is: fp32 ends at -104 and 89.
// x = n ln 2 + r with a whole n; e^r is its series up to r^13, whose rest is below 2^-57 for
// |r| <= ln 2 / 2. A NaN is in every product.
ELEMENTARY double elementary_exp(double x)
{
    static const double LOG2E = 0x1.71547652b82fep0, ROUNDER = 0x1.8p52;
    static const double LEAST = -707.0, MOST = 710.0;
    const double above = LEAST > x ? LEAST : x, within = MOST < above ? MOST : above;
    const double turned = FUSED(within, LOG2E, ROUNDER), n = turned - ROUNDER;
    const double r = FUSED(n, -ELEMENTARY_LN2_LOW, FUSED(n, -ELEMENTARY_LN2_HIGH, within));
    const double r2 = r * r, r4 = r2 * r2;
    const double first = FUSED(FUSED(1.0 / 120.0, r, 1.0 / 24.0), r2, FUSED(1.0 / 6.0, r, 0.5));
    const double second = FUSED(FUSED(1.0 / 362880.0, r, 1.0 / 40320.0), r2,
                                FUSED(1.0 / 5040.0, r, 1.0 / 720.0));
    const double third = FUSED(FUSED(1.0 / 6227020800.0, r, 1.0 / 479001600.0), r2,
                               FUSED(1.0 / 39916800.0, r, 1.0 / 3628800.0));
    const double power = FUSED(FUSED(FUSED(third, r4, second), r4, first), r2, r) + 1.0;
    const uint64_t turns = (elementary_bits(turned) << 52) + elementary_bits(1.0);
    return power * elementary_of_bits(turns & -(uint64_t)(x >= LEAST));
}

// Exact at 1; -infinity at 0, NaN below it, of numbers from 2^-1022 on. x = 2^n m with m within
// sqrt(1/2) and sqrt(2); log m = 2 atanh f, f = (m - 1) / (m + 1), by its series up to f^21, whose
// rest is below 2^-57.
ELEMENTARY double elementary_log(double x)
{
    static const uint64_t ROOT_HALF = 0x3FE6A09E667F3BCD, ROUNDER = 0x4338000000000000;
    const uint64_t above = elementary_bits(x) - ROOT_HALF;
    // The exponent's bits as a whole number: its sign goes along.
    const uint64_t turns = (above >> 52) - ((above >> 63) << 12);
    const double n = elementary_of_bits(ROUNDER + turns) - 0x1.8p52;
    const double m = elementary_of_bits(elementary_bits(x) - (turns << 52));
    const double d = m - 1.0, f = d / (m + 1.0), s = f * f;
    const double s2 = s * s, s4 = s2 * s2;
    const double first = FUSED(FUSED(2.0 / 9.0, s, 2.0 / 7.0), s2, FUSED(2.0 / 5.0, s, 2.0 / 3.0));
    const double second = FUSED(FUSED(2.0 / 17.0, s, 2.0 / 15.0), s2,
                                FUSED(2.0 / 13.0, s, 2.0 / 11.0));
    const double third = FUSED(2.0 / 21.0, s, 2.0 / 19.0);
    const double series = FUSED(FUSED(third, s4, second), s4, first);
    // 2 f = (m - 1) - f (m - 1): the first is exact.
    const double rest = FUSED(n, -ELEMENTARY_LN2_LOW, f * FUSED(-s, series, d));
    const double sum = FUSED(n, ELEMENTARY_LN2_HIGH, d - rest);
    const double end = x == 0.0 ? -(double)INFINITY : x < 0.0 ? (double)NAN : sum;
    return x - x == 0.0 ? end : x < 0.0 ? (double)NAN : x;
}

// log(1 + x), as exact for small x.
ELEMENTARY double elementary_log1p(double x)
{
    const double sum = 1.0 + x, lost = x - (sum - 1.0);
    const double rest = x - x == 0.0 && sum > 0.0 ? lost / sum : 0.0;
    return x == 0.0 ? x : elementary_log(sum) + rest;
}

// x^y of fp32 values, with the special values of pow(). y log x below 89, where fp32 ends, has an
// error below 2^-44, so rounding to 41 bits makes results of so few bits, ties of a narrower format
// among them, exact. Odd numbers are whole, and their halves are not.
ELEMENTARY double elementary_pow(double x, double y)
{
    const double size = fabs(x), half = 0.5 * y;
    const uint64_t power = elementary_bits(elementary_exp(y * elementary_log(size)));
    const uint64_t rounded = (power + (UINT64_C(1) << 11)) & ~UINT64_C(0xFFF);
    const bool whole = floor(y) == y, odd = whole & (floor(half) != half);
    const uint64_t sign = elementary_bits(odd ? x : 0.0) & UINT64_C(1) << 63;
    const double root = elementary_of_bits(rounded | sign);
    const bool undefined = (x < 0.0) & (size != (double)INFINITY) & !whole;
    const bool one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (fabs(y) == (double)INFINITY));
    return one ? 1.0 : undefined ? (double)NAN : root;
}

// atan(u) for |u| <= tan(pi / 8): u times a polynomial of u^2, interpolated at Chebyshev's places,
// with an error below 2^-53.
ELEMENTARY double elementary_atan(double u)
{
    const double s = u * u, s2 = s * s, s4 = s2 * s2;
    const double first = (-0x1.55555555551e3p-2 + 0x1.9999999934dc3p-3 * s) +
                         (-0x1.2492490092ae4p-3 + 0x1.c71c6489e9643p-4 * s) * s2;
    const double second = (-0x1.745baa13d8591p-4 + 0x1.3afb009c42dfep-4 * s) +
                          (-0x1.0ffbdc7848a18p-4 + 0x1.d1fcee375dbacp-5 * s) * s2;
    const double third = -0x1.64301c76a7c32p-5 + 0x1.5a455b468ea44p-6 * s;
    return u + u * (s * (first + (second + third * s4) * s4));
}

// atan2(y, x) of fp32 values, with its special values, within 2.1 units. The smaller size is
// divided by the larger one; beyond tan(pi / 8), atan(q) = pi / 4 + atan((q - 1) / (q + 1)).
ELEMENTARY double elementary_atan2(double y, double x)
{
    static const double PI = 0x1.921fb54442d18p1, TURN = 0x1.a827999fcef34p-2;
    const double high = fabs(y), wide = fabs(x);
    const double more = high > wide ? high : wide, less = high > wide ? wide : high;
    const bool equal = more == less, beyond = less > TURN * more;
    const double part = equal ? 0.0 : beyond ? less - more : less;
    const double whole = more == 0.0 ? 1.0 : beyond ? less + more : more;
    const double eighth = ((beyond | equal) & (more > 0.0)) ? 0.25 * PI : 0.0;
    const double small = eighth + elementary_atan(part / whole);
    const double acute = high > wide ? 0.5 * PI - small : small;
    const double angle = copysign(1.0, x) < 0.0 ? PI - acute : acute;
    return ((x != x) | (y != y)) ? (double)NAN : copysign(angle, y);
}

#undef FUSED
#endif
