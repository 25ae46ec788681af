// SPDX-License-Identifier: Apache-2.0
//
// exp of SEN169_FP16 values in fp32 registers: 2^n * 2^f with n = round(x log2 e) and a polynomial
// for 2^f, f in [-1/2, 1/2]. The polynomial is the least-squares fit of degree 5, moved until all
// codes round to exp's code; a test goes through every one.
#ifndef CARD_EXP_DL16_CONSTANTS_H
#define CARD_EXP_DL16_CONSTANTS_H

#define EXP_LOG2E      0x1.715476p+0f
#define EXP_LOG2E_REST 0x1.4ae0cp-26f
#define EXP_ROUNDER    0x1.8p23f        // added, leaves n in the low bits

// Beyond these exp rounds to zero and to the merged code.
#define EXP_LEAST (-21.49f)
#define EXP_MOST  22.86f

#define EXP_COEFFICIENTS \
    0x1.5b9a7cp-10f, 0x1.3d0e1p-7f, 0x1.c6b82p-5f, 0x1.ebf8fep-3f, 0x1.62e42ap-1f, 0x1.000002p+0f
#define EXP_STEP(power, f, c) v_fma(power, f, v_set(c))
#define EXP_HORNER(f, a, b, c, d, e, g)                                                     \
    EXP_STEP(EXP_STEP(EXP_STEP(EXP_STEP(EXP_STEP(v_set(a), f, b), f, c), f, d), f, e), f, g)
#define EXP_OF_COEFFICIENTS(f, list) EXP_HORNER(f, list)
#define EXP_POLYNOMIAL(f)            EXP_OF_COEFFICIENTS(f, EXP_COEFFICIENTS)

#endif
