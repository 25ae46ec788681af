// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic of sizes: whole numbers that divide, or cover, one another.
#ifndef BASE_INTEGER_H
#define BASE_INTEGER_H

#include <stdint.h>

// The greatest common divisor, not negative; the other number where one is 0.
static inline int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

// The least common multiple of positive numbers; 0 beyond 64 bits.
static inline int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t multiple;
    return __builtin_mul_overflow(a / common_divisor(a, b), b, &multiple) ? 0 : multiple;
}

// The quotient by a positive number, rounded down.
static inline int64_t divide_down(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

// How many units cover `value`, and what they are together. The unit is positive.
static inline int64_t divide_up(int64_t value, int64_t unit)
{
    return value / unit + (value % unit > 0);
}

static inline int64_t round_up(int64_t value, int64_t unit)
{
    return divide_up(value, unit) * unit;
}

#endif
