// SPDX-License-Identifier: Apache-2.0
//
// Every unary opfunc over all 65,536 codes against formulas of its own in long double, rounded by
// arithmetic instead of by bit patterns; then special values, formats and parametric opfuncs.
#include "unit/check.h"

#include <math.h>
#include <pthread.h>

#include "tensor/numeric.h"
#include "tensor/opfunc.h"

// Nearest code, ties away from zero, without looking at bits of `value`.
static uint16_t round_to_dl16(long double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value)) return DL16_MERGED;
    if (isinf(value)) return sign | DL16_MERGED;
    long double magnitude = fabsl(value);
    if (magnitude == 0.0L) return sign;
    int exponent;
    (void)frexpl(magnitude, &exponent);
    exponent -= 1;                                      // 1 <= magnitude / 2^exponent < 2
    if (exponent < -31) return sign;
    long double significand = roundl(ldexpl(magnitude, 9 - exponent));
    if (significand == 1024.0L) significand = 512.0L, exponent++;
    if (exponent > 32) return sign | DL16_MERGED;
    uint32_t code = (uint32_t)(exponent + 31) << 9 | ((uint32_t)significand - 512u);
    return sign | (uint16_t)(code < DL16_MERGED ? code : DL16_MERGED);
}

static long double sigmoid_reference(long double x)
{
    return 1.0L / (1.0L + expl(-x));                    // long double has the range for it
}

static long double nearest_even(long double x)
{
    long double below = floorl(x), rest = x - below;
    bool up = rest > 0.5L || (rest == 0.5L && fmodl(below, 2.0L) != 0.0L);
    return copysignl(up ? below + 1.0L : below, x);
}

static const long double PI = 3.14159265358979323846264338327950288L;

static long double sinc_reference(long double x)
{
    if (x == 0.0L) return 1.0L;
    if (isinf(x)) return (long double)NAN;
    if (fmodl(x, 1.0L) == 0.0L) return 0.0L;
    long double half_turns = floorl(x), part = x - half_turns;
    long double sine = sinl(PI * (part > 0.5L ? 1.0L - part : part));
    return (fmodl(half_turns, 2.0L) == 0.0L ? sine : -sine) / (PI * x);
}

static long double entropy_reference(long double x)
{
    if (x == 0.0L) return 0.0L;
    return x < 0.0L ? -(long double)INFINITY : -x * logl(x);
}

// By halves.
static long double erf_inverse_reference(long double x)
{
    long double size = fabsl(x), low = 0.0L, high = 8.0L;
    if (size == 1.0L) return copysignl((long double)INFINITY, x);
    if (size > 1.0L) return (long double)NAN;
    for (int n = 0; n < 140; n++) {
        long double middle = (low + high) / 2.0L;
        bool below = size > 0.5L ? erfcl(middle) > 1.0L - size : erfl(middle) < size;
        if (below) low = middle;
        else high = middle;
    }
    return copysignl(low, x);
}

// Of the whole part of x in two's complement, as arithmetic has it.
static long double half_of_byte(long double x, int unit)
{
    if (!(fabsl(x) < 0x1p62L)) return 0.0L;
    int64_t whole = (int64_t)x, digits = whole / unit - (whole % unit < 0);
    int64_t digit = (digits % 16 + 16) % 16;
    return (long double)(digit < 8 ? digit : digit - 16);
}

static const long double GAMMA = 0.57721566490153286060651209008240243L; // Euler's

static long double digamma_reference(long double x)
{
    if (x == 0.0L) return copysignl((long double)INFINITY, -x);
    if (x < 0.0L) {
        long double part = x - floorl(x);
        return part == 0.0L ? (long double)NAN : digamma_reference(1.0L - x) - PI / tanl(PI * part);
    }
    long double sum = 0.0L;
    for (; x < 100.0L; x += 1.0L) sum -= 1.0L / x;
    long double square = x * x, series = (0.1L - 1.0L / 21.0L / square) / square;
    return sum + logl(x) - 0.5L / x - (1.0L - series) / 12.0L / square;
}

// The mean over a turn of e^(x (cos - 1)) cos^order; terms pair up to a sinh where they cancel.
static long double bessel_i_reference(int order, long double x)
{
    long double size = fabsl(x), sum = 0.0L;
    if (size > 2000.0L) { // the first terms of Hankel's expansion
        long double m = 4.0L * order, e = 8.0L * size;
        sum = 1.0L - (m - 25.0L) / 3.0L / e;
        sum = 1.0L - (m - 1.0L) / e * (1.0L - (m - 9.0L) / 2.0L / e * sum);
        sum /= sqrtl(2.0L * PI * size);
    } else {
        int steps = 12 + (int)(6.0L * sqrtl(size));
        for (int n = 0; n < steps; n++) { // a quarter of the turn, at midpoints
            long double c = cosl(PI * ((long double)n + 0.5L) / (2.0L * steps));
            long double half = sinl(PI * ((long double)n + 0.5L) / (4.0L * steps));
            long double above = expl(-2.0L * size * half * half);
            sum += order == 0 ? above * (1.0L + expl(-2.0L * size * c)) / 2.0L
                              : above * -expm1l(-2.0L * size * c) / 2.0L * c;
        }
        sum /= steps;
    }
    return order == 0 ? sum : copysignl(sum, x);
}

// Ascending series, and Wronski's determinant for order 1; beyond 12 Hankel's expansion.
static long double bessel_k_reference(int order, long double x)
{
    if (!(x > 0.0L)) return x == 0.0L ? (long double)INFINITY : (long double)NAN;
    if (isinf(x)) return 0.0L;
    long double sum = 1.0L, term = 1.0L, m = 4.0L * order;
    if (x > 12.0L) {
        for (int k = 1; k < 24; k++) {
            term *= (m - (2.0L * k - 1.0L) * (2.0L * k - 1.0L)) / (8.0L * k * x);
            sum += term;
        }
        return sum * sqrtl(PI / 2.0L / x);
    }
    long double zero = 1.0L, one = 1.0L, harmonic = 0.0L, rest = 0.0L;
    for (int k = 1; k < 60; k++) { // I0, I1 / (x / 2)
        term *= x * x / 4.0L / ((long double)k * k);
        harmonic += 1.0L / k;
        zero += term;
        one += term / (k + 1.0L);
        rest += term * harmonic;
    }
    long double k0 = rest - (logl(x / 2.0L) + GAMMA) * zero;
    return expl(x) * (order == 0 ? k0 : (1.0L / x - one * x / 2.0L * k0) / zero);
}

static long double erfcx_reference(long double x)
{
    long double square = x * x;
    if (x < 60.0L) return expl(square) * erfcl(x);
    return (1.0L - (1.0L - 1.5L / square) / 2.0L / square) / (x * sqrtl(PI));
}

// By halves, of the smaller tail.
static long double ndtri_reference(long double p)
{
    if (!(p >= 0.0L && p <= 1.0L)) return (long double)NAN;
    long double tail = p < 0.5L ? p : 1.0L - p, low = 0.0L, high = 16.0L;
    if (tail == 0.0L) return p == 0.0L ? -(long double)INFINITY : (long double)INFINITY;
    if (tail == 0.5L) return 0.0L;
    for (int n = 0; n < 90; n++) {
        long double middle = (low + high) / 2.0L;
        if (erfcl(middle / sqrtl(2.0L)) / 2.0L > tail) low = middle;
        else high = middle;
    }
    return p < 0.5L ? -low : low;
}

static long double special_reference(opfunc op, long double x)
{
    long double size = fabsl(x);
    switch ((int)op) {
    case OPFUNC_DIGAMMA: return digamma_reference(x);
    case OPFUNC_BESSELI0: return bessel_i_reference(0, x) * expl(size);
    case OPFUNC_BESSELI0E: return bessel_i_reference(0, x);
    case OPFUNC_BESSELI1: return bessel_i_reference(1, x) * expl(size);
    case OPFUNC_BESSELI1E: return bessel_i_reference(1, x);
    case OPFUNC_BESSELJ0: return j0l(x);
    case OPFUNC_BESSELJ1: return j1l(x);
    case OPFUNC_BESSELY0: return x < 0.0L ? (long double)NAN : y0l(x);
    case OPFUNC_BESSELY1: return x < 0.0L ? (long double)NAN : y1l(x);
    case OPFUNC_BESSELK0: return bessel_k_reference(0, x) * expl(-x);
    case OPFUNC_BESSELK0E: return bessel_k_reference(0, x);
    case OPFUNC_BESSELK1: return bessel_k_reference(1, x) * expl(-x);
    case OPFUNC_BESSELK1E: return bessel_k_reference(1, x);
    case OPFUNC_SPHERICALJ0: return x == 0.0L ? 1.0L : isinf(x) ? 0.0L : sinl(x) / x;
    case OPFUNC_ERFCX: return erfcx_reference(x);
    case OPFUNC_LOGNDTR:
        if (x < -1.0L) return logl(erfcx_reference(-x / sqrtl(2.0L)) / 2.0L) - x * x / 2.0L;
        return log1pl(-erfcl(x / sqrtl(2.0L)) / 2.0L);
    case OPFUNC_NDTRI: return ndtri_reference(x);
    default: fail_msg("no reference for %s", opfunc_describe(op)->name);
    }
    return 0.0L;
}

static long double unary_reference(opfunc op, long double x)
{
    if (x == -(long double)INFINITY) {
        if (op == OPFUNC_SILU || op == OPFUNC_GELUFWD || op == OPFUNC_MISH ||
            op == OPFUNC_HARDSWISH)
            return -0.0L;
    }
    switch ((int)op) {
    case OPFUNC_ABS: return x < 0.0L ? -x : (x == 0.0L ? 0.0L : x);
    case OPFUNC_NEG: return -x;
    case OPFUNC_RELUFWD: return x > 0.0L ? x : 0.0L;
    case OPFUNC_FLOOR: return floorl(x);
    case OPFUNC_SQRT: return sqrtl(x);
    case OPFUNC_RSQRT: return 1.0L / sqrtl(x);
    case OPFUNC_RECIPROCAL: return 1.0L / x;
    case OPFUNC_EXP: return expl(x);
    case OPFUNC_LOG: return logl(x);
    case OPFUNC_TANH: return tanhl(x);
    case OPFUNC_SIGMOID: return sigmoid_reference(x);
    case OPFUNC_SILU: return x * sigmoid_reference(x);
    case OPFUNC_GELUFWD: return x * erfcl(-x / sqrtl(2.0L)) / 2.0L;
    case OPFUNC_MISH: return x * tanhl(log1pl(expl(x)));
    case OPFUNC_SIN: return sinl(x);
    case OPFUNC_COS: return cosl(x);
    case OPFUNC_TAN: return tanl(x);
    case OPFUNC_ASIN: return asinl(x);
    case OPFUNC_ACOS: return acosl(x);
    case OPFUNC_ATAN: return atanl(x);
    case OPFUNC_SINH: return (expm1l(x) - expm1l(-x)) / 2.0L;
    case OPFUNC_COSH: return (expl(x) + expl(-x)) / 2.0L;
    case OPFUNC_ASINH: return asinhl(x);
    case OPFUNC_ACOSH: return acoshl(x);
    case OPFUNC_ATANH: return atanhl(x);
    case OPFUNC_ERF: return erfl(x);
    case OPFUNC_ERFC: return erfcl(x);
    case OPFUNC_EXP2: return powl(2.0L, x);
    case OPFUNC_EXPM1: return expm1l(x);
    case OPFUNC_CBRT: return cbrtl(x);
    case OPFUNC_LOG1P: return log1pl(x);
    case OPFUNC_LOG2: return log2l(x);
    case OPFUNC_LOG10: return log10l(x);
    case OPFUNC_CEIL: return -floorl(-x);
    case OPFUNC_TRUNC: return x < 0.0L ? -floorl(-x) : floorl(x);
    case OPFUNC_ROUND: return nearest_even(x);
    case OPFUNC_SIGN: return x == 0.0L ? x : copysignl(1.0L, x);
    case OPFUNC_HARDSIGMOID: return fminl(fmaxl(x / 6.0L + 0.5L, 0.0L), 1.0L);
    case OPFUNC_HARDSWISH: return x * fminl(fmaxl((x + 3.0L) / 6.0L, 0.0L), 1.0L);
    case OPFUNC_FASTEXP: return expl(x);
    case OPFUNC_FASTSIGMOID: return sigmoid_reference(x);
    case OPFUNC_RELU6FWD: return x > 6.0L ? 6.0L : x >= 0.0L ? x : 0.0L;
    case OPFUNC_FRAC: return isinf(x) ? (long double)NAN : x - truncl(x);
    case OPFUNC_LGAMMA: return lgammal(x);
    case OPFUNC_SINC: return sinc_reference(x);
    case OPFUNC_ENTR: return entropy_reference(x);
    case OPFUNC_LOGIT: return logl(x / (1.0L - x));
    case OPFUNC_ERFINV: return erf_inverse_reference(x);
    case OPFUNC_ANGLE: return x < 0.0L ? PI : 0.0L;
    case OPFUNC_SIGNBIT: return signbit(x) ? 1.0L : 0.0L;
    case OPFUNC_ELU: return x > 0.0L ? x : expm1l(x);
    case OPFUNC_LOGSIGMOID: return x < 0.0L ? x - log1pl(expl(x)) : -log1pl(expl(-x));
    case OPFUNC_INT4LOW: return half_of_byte(x, 1);
    case OPFUNC_INT4HIGH: return half_of_byte(x, 16);
    default: return special_reference(op, x);
    }
}

static void opfunc__unary_tables_are_correctly_rounded(void **state)
{
    (void)state;
    uint32_t differ = 0, functions = 0;
    for (int op = 0; op < OPFUNC_COUNT; op++) {
        if (opfunc_describe((opfunc)op)->kind != OPFUNC_KIND_UNARY) continue;
        functions++;
        const uint16_t *codes = opfunc_dl16_table((opfunc)op);
        assert_non_null(codes);
        for (uint32_t code = 0; code < 65536; code++) {
            long double x = (long double)dl16_to_float((uint16_t)code);
            uint16_t expected = round_to_dl16(unary_reference((opfunc)op, x));
            if (codes[code] == expected) continue;
            differ++;
            print_error("%s(0x%04x): 0x%04x, expected 0x%04x\n",
                        opfunc_describe((opfunc)op)->name, code, codes[code], expected);
        }
    }
    assert_int_equal(functions, 71);
    assert_int_equal(differ, 0);
}

static void opfunc__parametric_tables(void **state)
{
    (void)state;
    for (int n = 0; n < OPFUNC_PARAMETRIC_TABLES + 4; n++) {
        float parameters[OPFUNC_MAX_PARAMETERS] = {0.5f + (float)n, 20.0f};
        const uint16_t *codes = opfunc_dl16_table_of(OPFUNC_SOFTPLUS, parameters);
        if (n >= OPFUNC_PARAMETRIC_TABLES) {
            assert_null(codes);
            continue;
        }
        assert_ptr_equal(codes, opfunc_dl16_table_of(OPFUNC_SOFTPLUS, parameters));
        for (uint32_t code = 0; code < 65536; code += 7) {
            double x = (double)dl16_to_float((uint16_t)code);
            uint16_t expected;
            element_store(&expected, SPYRE_FORMAT_SEN169_FP16,
                          opfunc_apply(OPFUNC_SOFTPLUS, &x, 1, parameters));
            assert_int_equal(codes[code], expected);
        }
    }
    assert_ptr_equal(opfunc_dl16_table_of(OPFUNC_TANH, NULL), opfunc_dl16_table(OPFUNC_TANH));
    assert_false(opfunc_has_table(OPFUNC_ADD));
}

// Made once so many elements ask as it has; others take its place, but for one that is read.
static void opfunc__tables_of_changing_parameters(void **state)
{
    (void)state;
    const float first[OPFUNC_MAX_PARAMETERS] = {2.25f};
    assert_null(opfunc_dl16_table_take(OPFUNC_POWER, first, 65535));
    const uint16_t *codes = opfunc_dl16_table_take(OPFUNC_POWER, first, 1);
    assert_non_null(codes);
    for (int n = 0; n < 40; n++) {
        const float other[OPFUNC_MAX_PARAMETERS] = {2.5f + (float)n};
        const uint16_t *now = opfunc_dl16_table_take(OPFUNC_POWER, other, 1 << 20);
        assert_non_null(now);
        assert_ptr_not_equal(now, codes);
        opfunc_dl16_table_give(now);
    }
    assert_ptr_equal(opfunc_dl16_table_take(OPFUNC_POWER, first, 1), codes);
    for (uint32_t code = 0; code < 65536; code += 7) {
        double x[2] = {(double)dl16_to_float((uint16_t)code), 2.25};
        uint16_t expected;
        element_store(&expected, SPYRE_FORMAT_SEN169_FP16, opfunc_apply(OPFUNC_POWER, x, 2, NULL));
        assert_int_equal(codes[code], expected);
    }
    opfunc_dl16_table_give(codes);
    opfunc_dl16_table_give(codes);
}

static void *table_address(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)opfunc_dl16_table(OPFUNC_TANH);
}

static void opfunc__tables_are_shared_by_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    void *address[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, table_address, NULL), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], &address[i]);
    for (int i = 1; i < 4; i++) assert_ptr_equal(address[i], address[0]);
}

static void opfunc__names(void **state)
{
    (void)state;
    for (int op = 0; op < OPFUNC_COUNT; op++) {
        assert_int_equal(opfunc_named(opfunc_describe((opfunc)op)->name), op);
    }
    assert_int_equal(opfunc_named("sumnonstick"), OPFUNC_SUM);
    assert_int_equal(opfunc_named("maxnonstick"), OPFUNC_MAX);
    assert_int_equal(opfunc_named("addnonstick"), OPFUNC_NONE);
    assert_int_equal(opfunc_named("nonstick"), OPFUNC_NONE);
    assert_int_equal(opfunc_named("summ"), OPFUNC_NONE);
    assert_int_equal(opfunc_named(""), OPFUNC_NONE);
    assert_string_equal(opfunc_describe(OPFUNC_CLIP)->parameter[1], "clipMax");
    assert_int_equal(opfunc_describe(OPFUNC_LAYERNORMNORM)->most_inputs, 5);
}

static double binary(opfunc op, double a, double b)
{
    double inputs[2] = {a, b};
    return opfunc_apply(op, inputs, 2, NULL);
}

static void opfunc__binary(void **state)
{
    (void)state;
    assert_true(binary(OPFUNC_ADD, 1.5, 2.0) == 3.5);
    assert_true(binary(OPFUNC_SUB, 1.5, 2.0) == -0.5);
    assert_true(binary(OPFUNC_MUL, 1.5, 2.0) == 3.0);
    assert_true(binary(OPFUNC_REALDIV, 3.0, 2.0) == 1.5);
    assert_true(binary(OPFUNC_MAXIMUM, 3.0, 2.0) == 3.0);
    assert_true(binary(OPFUNC_MINIMUM, 3.0, 2.0) == 2.0);
    assert_true(isnan(binary(OPFUNC_MAXIMUM, 3.0, (double)NAN)));
    assert_true(isnan(binary(OPFUNC_MINIMUM, (double)NAN, 3.0)));
    assert_true(binary(OPFUNC_EQUAL, 2.0, 2.0) == 1.0);
    assert_true(binary(OPFUNC_NOTEQUAL, 2.0, 2.0) == 0.0);
    assert_true(binary(OPFUNC_LESSERTHAN, 2.0, 2.0) == 0.0);
    assert_true(binary(OPFUNC_LESSEREQUAL, 2.0, 2.0) == 1.0);
    assert_true(binary(OPFUNC_GREATERTHAN, 3.0, 2.0) == 1.0);
    assert_true(binary(OPFUNC_GREATEREQUAL, 1.0, 2.0) == 0.0);
    assert_true(binary(OPFUNC_EQUAL, (double)NAN, (double)NAN) == 0.0);
    assert_true(binary(OPFUNC_REVSUB, 1.5, 2.0) == 0.5);
    assert_true(binary(OPFUNC_BIASADD, 1.5, 2.0) == 3.5);
    assert_true(binary(OPFUNC_POW, 2.0, -2.0) == 0.25);
    assert_true(isnan(binary(OPFUNC_POW, -2.0, 0.5)));
    assert_true(binary(OPFUNC_ATAN2, 0.0, -1.0) > 3.14);
    assert_true(binary(OPFUNC_HYPOT, 3.0, -4.0) == 5.0);
    assert_true(binary(OPFUNC_FMOD, -7.0, 4.0) == -3.0);
    assert_true(binary(OPFUNC_REMAINDER, -7.0, 4.0) == 1.0);
    assert_true(binary(OPFUNC_REMAINDER, 7.0, -4.0) == -1.0);
    assert_true(isnan(binary(OPFUNC_REMAINDER, 7.0, 0.0)));
    assert_true(binary(OPFUNC_FLOORDIV, -7.0, 4.0) == -2.0);
    assert_true(binary(OPFUNC_FLOORDIV, 1.0, 0.0) == (double)INFINITY);
    assert_true(binary(OPFUNC_TRUNCDIV, -7.0, 4.0) == -1.0);
    assert_true(signbit(binary(OPFUNC_COPYSIGN, 3.0, -0.0)));
    assert_true(fabs(binary(OPFUNC_LOGADDEXP, 1000.0, 1000.0) - 1000.0 - log(2.0)) < 1e-12);
    assert_true(binary(OPFUNC_LOGADDEXP2, 3.0, 3.0) == 4.0);
    assert_true(binary(OPFUNC_LOGADDEXP, -(double)INFINITY, -(double)INFINITY) < -1e300);
    assert_true(binary(OPFUNC_XLOGY, 0.0, -1.0) == 0.0);
    assert_true(isnan(binary(OPFUNC_XLOGY, 0.0, (double)NAN)));
    assert_true(binary(OPFUNC_XLOG1PY, 2.0, 0.0) == 0.0);
    assert_true(binary(OPFUNC_FMAX, (double)NAN, 3.0) == 3.0);
    assert_true(binary(OPFUNC_FMIN, 3.0, (double)NAN) == 3.0);
    assert_true(binary(OPFUNC_HEAVISIDE, 0.0, 0.25) == 0.25);
    assert_true(binary(OPFUNC_HEAVISIDE, (double)NAN, 0.25) == 0.0);
    assert_true(binary(OPFUNC_BITAND, -3.0, 6.0) == (double)(-3 & 6));
    assert_true(binary(OPFUNC_BITOR, -3.0, 6.0) == (double)(-3 | 6));
    assert_true(binary(OPFUNC_BITXOR, -3.0, 6.0) == (double)(-3 ^ 6));
    assert_true(binary(OPFUNC_SHIFTLEFT, -3.0, 2.0) == -12.0);
    assert_true(binary(OPFUNC_SHIFTLEFT, 1.0, 31.0) == 0x1p31);
    assert_true(binary(OPFUNC_SHIFTLEFT, 1.0, 64.0) == 0.0);
    assert_true(binary(OPFUNC_SHIFTLEFT, 1.0, -1.0) == 0.0);
    assert_true(binary(OPFUNC_SHIFTRIGHT, -5.0, 1.0) == -3.0);
    assert_true(binary(OPFUNC_SHIFTRIGHT, 5.0, 40.0) == 0.0);
    assert_true(binary(OPFUNC_SHIFTRIGHT, -5.0, -1.0) == -1.0);
    assert_true(fabs(binary(OPFUNC_ZETA, 2.0, 1.0) - 1.64493406684822644) < 1e-14);
    assert_true(fabs(binary(OPFUNC_ZETA, 3.0, -0.5) - (7.0 * 1.20205690315959429 - 8.0)) < 1e-12);
    assert_true(isinf(binary(OPFUNC_ZETA, 2.0, -3.0)) && isinf(binary(OPFUNC_ZETA, 1.0, 2.0)));
    assert_true(isnan(binary(OPFUNC_ZETA, 2.5, -0.5)) && isnan(binary(OPFUNC_ZETA, 0.5, 2.0)));
    assert_true(binary(OPFUNC_CHEBYSHEVT, 0.5, 5.0) == 0.5);
    assert_true(binary(OPFUNC_CHEBYSHEVU, 0.5, 3.0) == -1.0);
    assert_true(binary(OPFUNC_CHEBYSHEVV, 0.5, 2.0) == -1.0);
    assert_true(binary(OPFUNC_CHEBYSHEVW, 0.5, 2.0) == 1.0);
    assert_true(binary(OPFUNC_SHIFTEDT, 0.75, 5.0) == 0.5);
    assert_true(binary(OPFUNC_SHIFTEDU, 0.75, 3.0) == -1.0);
    assert_true(binary(OPFUNC_SHIFTEDV, 0.75, 2.0) == -1.0);
    assert_true(binary(OPFUNC_SHIFTEDW, 0.75, 2.0) == 1.0);
    assert_true(binary(OPFUNC_HERMITEH, 2.0, 3.0) == 40.0);
    assert_true(binary(OPFUNC_HERMITEHE, 2.0, 3.5) == 2.0);
    assert_true(binary(OPFUNC_LAGUERRE, 2.0, 2.0) == -1.0);
    assert_true(binary(OPFUNC_LEGENDRE, 2.0, 2.0) == 5.5);
    assert_true(binary(OPFUNC_LEGENDRE, 2.0, 0.0) == 1.0);
    assert_true(binary(OPFUNC_LEGENDRE, 2.0, -1.0) == 0.0);
    assert_true(isnan(binary(OPFUNC_LEGENDRE, 0.5, 20000.0)));
    double where[3] = {0.0, 1.0, 2.0};
    assert_true(opfunc_apply(OPFUNC_WHERE3, where, 3, NULL) == 2.0);
    where[0] = -3.0;
    assert_true(opfunc_apply(OPFUNC_WHERE3, where, 3, NULL) == 1.0);
}

static void check_rest(double x, double y)
{
    double rest = binary(OPFUNC_FMOD, x, y), expected = fmod(x, y);
    if (isnan(expected) && isnan(rest)) return;
    if (rest != expected || signbit(rest) != signbit(expected))
        fail_msg("fmod(%g, %g): %g, %g", x, y, rest, expected);
}

static void opfunc__rests_are_exact(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int n = 0; n < 1 << 20; n++) {
        uint64_t bits = check_random(&seed);
        check_rest((double)dl16_to_float((uint16_t)(bits >> 8)),
                   (double)dl16_to_float((uint16_t)(bits >> 24)));
        // Near multiples of y.
        double y = (double)dl16_to_float((uint16_t)(0x3E00 + bits % 512));
        check_rest((double)dl16_to_float(dl16_from_float((float)(y * (double)(bits >> 40 & 63)))),
                   y);
        check_rest((double)(int32_t)(bits >> 16), (double)(int32_t)(bits >> (32 + bits % 28)));
    }
}

static void opfunc__parametric(void **state)
{
    (void)state;
    const float bounds[2] = {-0.5f, 0.5f};
    double x = 7.0;
    assert_true(opfunc_apply(OPFUNC_CLIP, &x, 1, bounds) == 0.5);
    x = -7.0;
    assert_true(opfunc_apply(OPFUNC_CLIP, &x, 1, bounds) == -0.5);
    x = 0.25;
    assert_true(opfunc_apply(OPFUNC_CLIP, &x, 1, bounds) == 0.25);
    const float orders[3][2] = {{0.0f, 0.0f}, {1.0f, 0.0f}, {2.0f, 0.0f}};
    const double of_one[3] = {-0.57721566490153286, 1.64493406684822644, -2.40411380631918857};
    x = 1.0;
    for (int n = 0; n < 3; n++)
        assert_true(fabs(opfunc_apply(OPFUNC_POLYGAMMA, &x, 1, orders[n]) - of_one[n]) < 1e-14);
    const float exponent[2] = {2.5f, 0.0f}, edges[2] = {0.5f, -9.0f};
    const float hundredths[2] = {100.0f, 1.0f}, hundreds[2] = {1.0f, 100.0f};
    x = 2.125;
    assert_true(opfunc_apply(OPFUNC_ROUNDTO, &x, 1, hundredths) == 2.12);
    x = 250.0;
    assert_true(opfunc_apply(OPFUNC_ROUNDTO, &x, 1, hundreds) == 200.0);
    x = 4.0;
    assert_true(opfunc_apply(OPFUNC_POWER, &x, 1, exponent) == 32.0);
    assert_true(opfunc_apply(OPFUNC_THRESHOLD, &x, 1, edges) == 4.0);
    assert_true(opfunc_apply(OPFUNC_HARDSHRINK, &x, 1, edges) == 4.0);
    assert_true(opfunc_apply(OPFUNC_SOFTSHRINK, &x, 1, edges) == 3.5);
    assert_true(opfunc_apply(OPFUNC_LEAKYRELUFWD, &x, 1, edges) == 4.0);
    x = 0.5;
    assert_true(opfunc_apply(OPFUNC_THRESHOLD, &x, 1, edges) == -9.0);
    assert_true(opfunc_apply(OPFUNC_HARDSHRINK, &x, 1, edges) == 0.0);
    assert_true(opfunc_apply(OPFUNC_SOFTSHRINK, &x, 1, edges) == 0.0);
    x = -1.0;
    assert_true(opfunc_apply(OPFUNC_SOFTSHRINK, &x, 1, edges) == -0.5);
    assert_true(opfunc_apply(OPFUNC_LEAKYRELUFWD, &x, 1, edges) == -0.5);
    const float softplus[2] = {2.0f, 20.0f};
    x = 10.5;                                           // scaled 21 > 20
    assert_true(opfunc_apply(OPFUNC_SOFTPLUS, &x, 1, softplus) == 10.5);
    x = 0.0;
    assert_true(fabs(opfunc_apply(OPFUNC_SOFTPLUS, &x, 1, softplus) - log(2.0) / 2.0) < 1e-15);
    x = -(double)INFINITY;
    assert_true(opfunc_apply(OPFUNC_SOFTPLUS, &x, 1, softplus) == 0.0);
}

static void opfunc__lanes_give_what_single_elements_give(void **state)
{
    (void)state;
    enum { COUNT = 777 };
    static double x[COUNT], y[COUNT], z[COUNT], result[COUNT];
    const float parameters[OPFUNC_MAX_PARAMETERS] = {0.75f, 1.5f};
    uint64_t seed = 5;
    for (size_t n = 0; n < COUNT; n++) {
        x[n] = (double)dl16_to_float((uint16_t)(check_random(&seed) >> 24));
        y[n] = (double)dl16_to_float((uint16_t)(check_random(&seed) >> 24));
        z[n] = (double)dl16_to_float((uint16_t)(check_random(&seed) >> 24));
    }
    uint32_t formulas = 0;
    for (int op = 0; op < OPFUNC_COUNT; op++) {
        if (!opfunc_has_formula((opfunc)op)) continue;
        bool whole = (op >= OPFUNC_BITAND && op <= OPFUNC_BITXOR) || op >= OPFUNC_SHIFTLEFT;
        if (whole) continue; // of integers
        formulas++;
        uint32_t inputs = opfunc_describe((opfunc)op)->least_inputs;
        if (opfunc_makes_pairs((opfunc)op)) inputs = 2;
        opfunc_apply_lanes((opfunc)op, result, (const double *const[]){x, y, z}, parameters, COUNT);
        for (size_t n = 0; n < COUNT; n++) {
            double single =
                opfunc_apply((opfunc)op, (double[]){x[n], y[n], z[n]}, inputs, parameters);
            if (memcmp(&single, &result[n], sizeof single) != 0)
                fail_msg("%s(%g, %g): %g, %g", opfunc_describe((opfunc)op)->name, x[n], y[n],
                         result[n], single);
        }
    }
    assert_true(formulas > 70);
}

// Formulas without branches, in lanes some of which need the other one: any codes, integers of any
// size, multiples of y, infinities and zeros.
static void opfunc__branchless_lanes_are_their_definitions(void **state)
{
    (void)state;
    enum { COUNT = 512, ROUNDS = 512 };
    static const opfunc ops[] = {OPFUNC_FMOD, OPFUNC_REMAINDER, OPFUNC_FLOORDIV, OPFUNC_POW};
    static double in[2][COUNT], result[COUNT];
    uint64_t seed = 17;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t n = 0; n < COUNT; n++) {
            const uint64_t bits = check_random(&seed), kind = bits % (round % 2 ? 3 : 4);
            const double y = (double)dl16_to_float((uint16_t)(bits >> 24));
            in[1][n] = kind < 2 ? y : (double)(int32_t)(bits >> (32 + bits % 28));
            in[0][n] = kind == 0   ? (double)dl16_to_float((uint16_t)(bits >> 40))
                       : kind == 1 ? y * (double)(bits >> 40 & 63)
                       : kind == 2 ? (double)(int32_t)(bits >> 16)
                                   : (double)INFINITY;
        }
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            opfunc_apply_lanes(ops[o], result, (const double *const[]){in[0], in[1]}, NULL, COUNT);
            for (size_t n = 0; n < COUNT; n++) {
                double x = in[0][n], y = in[1][n], single = binary(ops[o], x, y);
                if (memcmp(&single, &result[n], sizeof single) != 0)
                    fail_msg("%s(%a, %a): %a, defined as %a", opfunc_describe(ops[o])->name, x, y,
                             result[n], single);
            }
        }
    }
}

// Of rows that are there, of negative indices, and what tells an index that is out of its dim.
static void opfunc__joined_indices(void **state)
{
    (void)state;
    const double beyond = 0x1p30;
    static const double rows[][4] = {
        {0.0, 2.0, 5.0, 2.0}, {3.0, 2.0, 5.0, 17.0}, {3.0, -1.0, 5.0, 19.0}, {3.0, -5.0, 5.0, 15.0},
    };
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        assert_true(opfunc_apply(OPFUNC_JOININDEX, rows[n], 3, NULL) == rows[n][3]);
    static const double outside[] = {5.0, -6.0, 4000.0, -0x1p29, 0x1p29 - 1.0};
    for (size_t n = 0; n < sizeof outside / sizeof *outside; n++) {
        double none = opfunc_apply(OPFUNC_JOININDEX, (double[]){3.0, outside[n], 5.0}, 3, NULL);
        assert_true(none == outside[n] - beyond);
        assert_true(opfunc_apply(OPFUNC_JOININDEX, (double[]){none, 2.0, 5.0}, 3, NULL) == none);
        assert_true(opfunc_apply(OPFUNC_JOININDEX, (double[]){1.0, none, 5.0}, 3, NULL) == none);
    }
}

// What the published names without a definition mean, in numbers.
static void opfunc__ternary_and_quantisers(void **state)
{
    (void)state;
    const float parameters[OPFUNC_MAX_PARAMETERS] = {2.0f, 0.5f};
    double in[3] = {3.0, 5.0, 20.0};
    assert_true(opfunc_apply(OPFUNC_FNMS, in, 3, NULL) == 5.0);
    assert_true(opfunc_apply(OPFUNC_BATCHNORMFWD, in, 3, NULL) == 35.0);
    static const struct {
        double x;
        int int8, int4;
    } rows[] = {{0.0, 0, 0},       {1.0, 2, 2},     {0.5, 2, 2},          {-0.75, -1, -1},
                {-1.5, -2, -2},    {3.5, 8, 7},     {-40.0, -80, -8},     {1e4, 127, 7},
                {-1e4, -128, -8},  {(double)NAN, -128, -8}, {(double)INFINITY, 127, 7}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        int8_t stored;
        double pair[2] = {rows[n].x, 0.25};
        element_store(&stored, SPYRE_FORMAT_SENINT8,
                      opfunc_apply(OPFUNC_CSQINT8MB, pair, 1, parameters));
        assert_int_equal(stored, rows[n].int8);
        int8_t byte = (int8_t)opfunc_apply(OPFUNC_CSQINT4, pair, 2, parameters);
        double bytes = (double)byte;
        assert_true(opfunc_apply(OPFUNC_INT4LOW, &bytes, 1, NULL) == (double)rows[n].int4);
        assert_true(opfunc_apply(OPFUNC_INT4HIGH, &bytes, 1, NULL) == 1.0);
        double turned[2] = {0.25, rows[n].x};
        bytes = opfunc_apply(OPFUNC_CSQINT4WT, turned, 2, parameters);
        assert_true(opfunc_apply(OPFUNC_INT4HIGH, &bytes, 1, NULL) == (double)rows[n].int4);
    }
}

static void opfunc__norm(void **state)
{
    (void)state;
    double inputs[5] = {5.0, 1.0, 0.5, 3.0, 10.0};
    assert_true(opfunc_apply(OPFUNC_LAYERNORMNORM, inputs, 3, NULL) == 2.0);
    assert_true(opfunc_apply(OPFUNC_LAYERNORMNORM, inputs, 4, NULL) == 6.0);
    assert_true(opfunc_apply(OPFUNC_LAYERNORMNORM, inputs, 5, NULL) == 16.0);
    assert_true(opfunc_layernormscale(2.0, 8.0, 0.0f) == 0.5);
    assert_true(opfunc_layernormscale(2.0, 3.0, 0.25f) == 2.0);     // negative variance is 0
}

static void opfunc__reductions(void **state)
{
    (void)state;
    assert_true(opfunc_combine(OPFUNC_SUM, 3.0f, 2.0f) == 5.0f);
    assert_true(opfunc_combine(OPFUNC_MAX, 3.0f, -9.0f) == 3.0f);
    assert_true(opfunc_combine(OPFUNC_MIN, 3.0f, -9.0f) == -9.0f);
    assert_true(isnan(opfunc_combine(OPFUNC_MAX, NAN, 1.0f)));
    assert_true(isnan(opfunc_combine(OPFUNC_MIN, 1.0f, NAN)));
    // One rounding to fp32 a step.
    assert_true(opfunc_combine(OPFUNC_MEAN, 16777216.0f, 1.0f) == 16777216.0f);
}

// What the rows ACCUMULATOR claim, of every reduction: the neutral element, the opfunc that
// combines two results, and EXACT.
static void opfunc__accumulators(void **state)
{
    (void)state;
    static const float x[] = {-9.0f, -0.5f, 1.0f, 1e-3f, 16777216.0f, INFINITY, -INFINITY};
    enum { COUNT = sizeof x / sizeof *x };
    for (int n = 0; n < OPFUNC_COUNT; n++) {
        opfunc op = (opfunc)n, sum = opfunc_describe(op)->accumulator;
        opfunc_kind kind = opfunc_describe(op)->kind;
        if (kind != OPFUNC_KIND_REDUCTION && kind != OPFUNC_KIND_POOL) continue;
        assert_true(opfunc_accumulates(sum));
        // Results of absmax are combined as those of max are.
        bool sizes = sum == OPFUNC_ABSMAX;
        assert_int_equal(opfunc_accumulator_of(opfunc_pairwise(op)), sizes ? OPFUNC_MAX : sum);
        float neutral = opfunc_reduction_identity(op), one[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) {
            one[i] = opfunc_combine(op, neutral, x[i]);
            assert_true(one[i] == (sizes ? fabsf(x[i]) : x[i]));
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            if (opfunc_reduces_exactly(op))
                assert_true(opfunc_combine(op, one[i], one[i]) == one[i]);
            for (uint32_t j = 0; j < COUNT; j++) {
                float combined = opfunc_combine(op, one[i], x[j]);
                double both[] = {(double)one[i], (double)one[j]};
                float pairwise = (float)opfunc_apply(opfunc_pairwise(op), both, 2, NULL);
                assert_true(combined == pairwise || (isnan(combined) && isnan(pairwise)));
            }
        }
    }
    assert_false(opfunc_accumulates(OPFUNC_MEAN) || opfunc_accumulates(OPFUNC_ADD));
    assert_int_equal(opfunc_accumulator_of(OPFUNC_SUB), OPFUNC_NONE);
}

static uint32_t stored(spyre_format format, double value)
{
    uint32_t word = 0;
    element_store(&word, format, value);
    return word;
}

static void opfunc__stores_round_once(void **state)
{
    (void)state;
    // 1 + 1/1024 is a tie of SEN169_FP16; a step through fp32 would lose the next one's small part.
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, 1.0 + 0x1p-10), 0x3E01);
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, 1.0 + 0x1p-10 - 0x1p-40), 0x3E00);
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, -(1.0 + 0x1p-10)), 0xBE01);
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, 1e30), 0x7FFF);
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, 0x1.FF4p32), 0x7FFF);
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, 0x1.FF3Fp32), 0x7FFE);
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, 0x1p-31), 0);
    assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, 0x1.008p-31), 1);
    assert_int_equal(stored(SPYRE_FORMAT_IEEE_FP16, 1.0 + 0x1p-11), 0x3C00);
    assert_int_equal(stored(SPYRE_FORMAT_IEEE_FP16, 1.0 + 0x1p-11 + 0x1p-45), 0x3C01);
    assert_int_equal(stored(SPYRE_FORMAT_BFLOAT16, 1.0 + 0x1p-8 + 0x1p-45), 0x3F81);
    assert_int_equal(stored(SPYRE_FORMAT_IEEE_FP32, 1.0 + 0x1p-24), 0x3F800000);
    assert_int_equal(stored(SPYRE_FORMAT_BOOL, -0.25), 1);
}

static void opfunc__stores_agree_with_fp32_rounding(void **state)
{
    (void)state;
    for (uint32_t bits = 0x2F000000u; bits < 0x50000000u; bits += 4099) {
        float value = float_from_bits(bits);
        assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, (double)value), dl16_from_float(value));
    }
}

static void opfunc__integers_truncate_and_saturate(void **state)
{
    (void)state;
    assert_int_equal(stored(SPYRE_FORMAT_IEEE_INT32, 2.9), 2);
    assert_int_equal((int32_t)stored(SPYRE_FORMAT_IEEE_INT32, -2.9), -2);
    assert_int_equal((int32_t)stored(SPYRE_FORMAT_IEEE_INT32, 1e12), INT32_MAX);
    assert_int_equal((int32_t)stored(SPYRE_FORMAT_IEEE_INT32, -1e12), INT32_MIN);
    assert_int_equal((int32_t)stored(SPYRE_FORMAT_IEEE_INT32, (double)NAN), INT32_MIN);
    assert_int_equal(stored(SPYRE_FORMAT_SENUINT32, -1.0), 0);
    assert_int_equal(stored(SPYRE_FORMAT_SENUINT32, 4294967295.0), UINT32_MAX);
    assert_int_equal(stored(SPYRE_FORMAT_SENINT8, 1000.0), 0x7F);
    assert_int_equal(stored(SPYRE_FORMAT_SENINT16, -40000.0), 0x8000);
}

static void opfunc__loads_give_back_what_was_stored(void **state)
{
    (void)state;
    static const spyre_format formats[] = {
        SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_IEEE_FP32,  SPYRE_FORMAT_IEEE_FP16,
        SPYRE_FORMAT_BFLOAT16,    SPYRE_FORMAT_SEN143_FP8, SPYRE_FORMAT_SEN152_FP8,
        SPYRE_FORMAT_IEEE_INT32,  SPYRE_FORMAT_SENINT16,   SPYRE_FORMAT_SENINT8,
        SPYRE_FORMAT_IEEE_INT64,
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        for (double value = -8.0; value <= 8.0; value += 1.0) {
            uint64_t bytes = 0;
            element_store(&bytes, formats[i], value);
            assert_true(element_load(&bytes, formats[i]) == value);
        }
    }
}

static void opfunc__stores_all_codes_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t element = (uint16_t)code;
        double value = element_load(&element, SPYRE_FORMAT_SEN169_FP16);
        assert_int_equal(stored(SPYRE_FORMAT_SEN169_FP16, value), code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opfunc__unary_tables_are_correctly_rounded),
        cmocka_unit_test(opfunc__parametric_tables),
        cmocka_unit_test(opfunc__tables_of_changing_parameters),
        cmocka_unit_test(opfunc__tables_are_shared_by_threads),
        cmocka_unit_test(opfunc__names),
        cmocka_unit_test(opfunc__binary),
        cmocka_unit_test(opfunc__rests_are_exact),
        cmocka_unit_test(opfunc__parametric),
        cmocka_unit_test(opfunc__lanes_give_what_single_elements_give),
        cmocka_unit_test(opfunc__branchless_lanes_are_their_definitions),
        cmocka_unit_test(opfunc__joined_indices),
        cmocka_unit_test(opfunc__ternary_and_quantisers),
        cmocka_unit_test(opfunc__norm),
        cmocka_unit_test(opfunc__reductions),
        cmocka_unit_test(opfunc__accumulators),
        cmocka_unit_test(opfunc__stores_round_once),
        cmocka_unit_test(opfunc__stores_agree_with_fp32_rounding),
        cmocka_unit_test(opfunc__integers_truncate_and_saturate),
        cmocka_unit_test(opfunc__loads_give_back_what_was_stored),
        cmocka_unit_test(opfunc__stores_all_codes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
