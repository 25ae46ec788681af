// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_DIVISOR_H
#define BASE_DIVISOR_H

#include <stdint.h>

// The greatest common divisor of two numbers that are not negative; the other one of 0.
static inline int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
