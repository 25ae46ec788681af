// SPDX-License-Identifier: Apache-2.0
//
// Sine and cosine in float32, out of the opfuncs that float32 has. With r = x - k pi, sin(x) is
// sin(r) or -sin(r) as the whole number k is even or odd, and r is in [-pi/2, pi/2]; cos(x) is the
// same with k between whole numbers. pi is subtracted in parts of seven bits, so that k times a
// part is exact for k below 2^16 (W. Cody, W. Waite, "Software Manual for the Elementary
// Functions", 1980). Beyond that the result is NaN.
#include <math.h>

#include "graph/rewrite/rewrite.h"

// pi in parts of seven bits, and what is left.
static const double PI_PARTS[] = {0x1.9p+1, 0x1.0cp-6, 0x1.ecp-13, 0x1.5110b4p-21};
// sin(r) / r - 1 over r^2, as a polynomial of r^2: the least relative error on [0, pi/2] is 6e-9,
// below that of float32.
static const double SINE[] = {-0.16666659712791443, 0.00833306647837162, -0.00019809587683994323,
                              2.605744612083072e-06};
enum { PARTS = sizeof PI_PARTS / sizeof *PI_PARTS, TERMS = sizeof SINE / sizeof *SINE };
#define ONE_BY_PI 0.31830988618379067
#define LARGEST 200000.0

// k: the nearest whole number to x / pi, or that half of one which is nearest when `quarter`.
static spyre_status count_turns(rewriter *r, const tensor *x, bool quarter, tensor *whole,
                                tensor *out)
{
    TRY(make_with(r, ATEN_SPYRE_MUL, x, ONE_BY_PI, NULL, out));
    if (!quarter) TRY(make_with(r, ATEN_SPYRE_ADD, out, 0.5, NULL, out));
    TRY(make_unary(r, ATEN_SPYRE_FLOOR, out, NULL, whole));
    *out = *whole;
    return quarter ? make_with(r, ATEN_SPYRE_ADD, whole, 0.5, NULL, out) : NULL;
}

// 1 for even, -1 for odd; the other way round when `quarter`.
static spyre_status sign_of_turns(rewriter *r, const tensor *whole, bool quarter, tensor *out)
{
    tensor pairs;
    TRY(make_with(r, ATEN_SPYRE_MUL, whole, 0.5, NULL, &pairs));
    TRY(make_unary(r, ATEN_SPYRE_FLOOR, &pairs, NULL, &pairs));
    TRY(make_with(r, ATEN_SPYRE_MUL, &pairs, 2, NULL, &pairs));
    TRY(make_binary(r, ATEN_SPYRE_SUB, whole, &pairs, NULL, out));
    TRY(make_with(r, ATEN_SPYRE_MUL, out, quarter ? 2 : -2, NULL, out));
    return make_with(r, ATEN_SPYRE_ADD, out, quarter ? -1 : 1, NULL, out);
}

static spyre_status sine_near_zero(rewriter *r, const tensor *x, tensor *out)
{
    tensor square, cube;
    TRY(make_binary(r, ATEN_SPYRE_MUL, x, x, NULL, &square));
    TRY(make_with(r, ATEN_SPYRE_MUL, &square, SINE[TERMS - 1], NULL, out));
    for (int i = TERMS - 2; i >= 0; i--) {
        TRY(make_with(r, ATEN_SPYRE_ADD, out, SINE[i], NULL, out));
        if (i > 0) TRY(make_binary(r, ATEN_SPYRE_MUL, out, &square, NULL, out));
    }
    TRY(make_binary(r, ATEN_SPYRE_MUL, &square, x, NULL, &cube));
    TRY(make_binary(r, ATEN_SPYRE_MUL, out, &cube, NULL, out));
    return make_binary(r, ATEN_SPYRE_ADD, out, x, NULL, out);
}

// 0, or NaN where x is too large.
static spyre_status refuse_large(rewriter *r, const tensor *x, tensor *out)
{
    tensor beyond;
    TRY(make_unary(r, ATEN_SPYRE_ABS, x, NULL, &beyond));
    TRY(make_with(r, ATEN_SPYRE_SUB, &beyond, LARGEST, NULL, &beyond));
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, &beyond, NULL, &beyond));
    for (int i = 0; i < 2; i++) TRY(make_with(r, ATEN_SPYRE_MUL, &beyond, 0x1p100, NULL, &beyond));
    return make_binary(r, ATEN_SPYRE_SUB, &beyond, &beyond, NULL, out);
}

static spyre_status wave(rewriter *r, bool quarter)
{
    tensor x, whole, turns, part, sine, sign, refused, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, SPYRE_DTYPE_F32, &x));
    TRY(refuse_large(r, &x, &refused));
    TRY(count_turns(r, &x, quarter, &whole, &turns));
    for (int i = 0; i < PARTS; i++) {
        TRY(make_with(r, ATEN_SPYRE_MUL, &turns, PI_PARTS[i], NULL, &part));
        TRY(make_binary(r, ATEN_SPYRE_SUB, &x, &part, NULL, &x));
    }
    TRY(sign_of_turns(r, &whole, quarter, &sign));
    TRY(sine_near_zero(r, &x, &sine));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &sine, &sign, NULL, &sine));
    bool is_done = into.dtype == SPYRE_DTYPE_F32;
    TRY(make_binary(r, ATEN_SPYRE_ADD, &sine, &refused, is_done ? &into : NULL, &sine));
    return is_done ? NULL : make_cast(r, &sine, into.dtype, &into, NULL);
}

spyre_status rewrite_sin(rewriter *r)
{
    return wave(r, false);
}

spyre_status rewrite_cos(rewriter *r)
{
    return wave(r, true);
}
