// SPDX-License-Identifier: Apache-2.0
//
// One-line functions of the layer under simd_body.h. They are functions, not macros, because
// _Generic chooses among them by register type.
#ifndef CARD_SIMD_LAYER_H
#define CARD_SIMD_LAYER_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// SEN169_FP16 codes as the upper bits of an fp32: two to the right, the two bits behind the sign
// zero. The least magnitude but zero that fp32 has not among its denormal numbers.
#define SCALED_BITS 0x9FFFC000u
enum { SCALED_LEAST = 1 << 9 };

#define UNARY(result, name, type, expression) \
    static inline result name(type x)         \
    {                                         \
        return (expression);                  \
    }
#define BINARY(result, name, type, expression) \
    static inline result name(type a, type b)  \
    {                                          \
        return (expression);                   \
    }
#define PICKER(name, mask, type, expression)          \
    static inline type name(mask m, type x, type y)   \
    {                                                 \
        return (expression);                          \
    }

#endif
