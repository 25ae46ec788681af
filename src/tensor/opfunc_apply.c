// SPDX-License-Identifier: Apache-2.0
//
// The opfuncs in fp64. For SEN169_FP16 the one rounding of the store makes every unary result here
// the correctly rounded one: no function comes closer to a tie than fp64 can tell (proved over all
// codes by the test).
#include "base/target_clones.h"
#include "tensor/elementary.h"
#include "tensor/exp_f32.h"
#include "tensor/joined_index.h"
#include "tensor/numeric.h"
#include "tensor/opfunc.h"
#include "tensor/special_functions.h"

#include <assert.h>
#include <math.h>

// Into each clone of the loops over lanes, for its processor.
#define INLINED __attribute__((always_inline)) static inline

static const double PI = 3.14159265358979323846, LN2 = 0.69314718055994530942;
static const double HALF_ROOT_TWO = 0.70710678118654752440;

// NaN wins; equal values (zeros of either sign) give b, as the vector instructions of hosts do.
INLINED double larger(double a, double b)
{
    if (isnan(a)) return a;
    if (isnan(b)) return b;
    return a > b ? a : b;
}

INLINED double smaller(double a, double b)
{
    if (isnan(a)) return a;
    if (isnan(b)) return b;
    return a < b ? a : b;
}

// Without an overflow of exp, whose result would lose the tail of large negative x.
INLINED double sigmoid(double x)
{
    const double e = elementary_exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// x * gate(x), where the gate falls to 0 faster than x grows: the limit at -infinity is zero.
static double gated(double x, double gate)
{
    return x == -(double)INFINITY ? -0.0 : x * gate;
}

// erfc keeps the relative precision that 1 + erf(x) loses for negative x.
static double gelu(double x)
{
    return gated(x, 0.5 * erfc(-x * HALF_ROOT_TWO));
}

// log(1 + e^x).
INLINED double log1p_exp(double x)
{
    return elementary_log1p(elementary_exp(x));
}

INLINED double softplus(double x, double beta, double threshold)
{
    double scaled = x * beta;
    double soft = log1p_exp(scaled) / beta;
    return scaled > threshold ? x : soft;
}

// clip(x, least, most); the upper bound wins when they cross, NaN passes.
static double clip(double x, double least, double most)
{
    double raised = x < least ? least : x;
    return raised > most ? most : raised;
}

// lgamma() without its sign, which is state of the process.
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static double erf_inverse(double x)
{
    double size = fabs(x);
    if (!(size < 1.0)) return size == 1.0 ? copysign((double)INFINITY, x) : (double)NAN;
    return copysign(special_erf_root(size, 1.0 - size), x);
}

// sin(pi x), of the part of x that matters.
static double sine_of_turns(double x)
{
    double part = remainder(x, 2.0);
    if (fabs(part) > 0.5) part = copysign(1.0, part) - part;
    return sin(PI * part);
}

// The number of row y of z, at most 2^29, behind x times z rows; a negative y counts from the end.
// A y that is no row gives one below -2^29, which tells y: 2^30 less. As x and as y that stays.
INLINED double joined_index(double x, double y, double z)
{
    const double row = y < 0.0 ? y + z : y;
    const double most = JOINED_MOST_ROWS;
    const double outside = y < -most ? y : (y < most ? y : most - 1.0) - JOINED_OUTSIDE;
    return x < 0.0 ? x : row >= 0.0 && row < z ? x * z + row : outside;
}

// fmod() of floats of at most 24 bits or of 32-bit integers: as long as the quotient has at most 29
// bits its product with y is exact, and so are the products of integers.
INLINED bool has_near_rest(double x, double y)
{
    return (fabs(x / y) < 0x1p29) & (fabs(y) < (double)INFINITY);
}

INLINED double near_rest(double x, double y)
{
    const double size = fabs(y), rest = fabs(x) - fabs(trunc(x / y)) * size;
    // Below zero where the quotient was rounded up to a whole number.
    return copysign(rest + (rest < 0.0 ? size : 0.0), x);
}

static double rest_of(double x, double y)
{
    return has_near_rest(x, y) ? near_rest(x, y) : fmod(x, y);
}

// Whether the rest of Python's division, which has the sign of y, lies one y further.
INLINED bool turns_rest(double y, double rest)
{
    return (rest != 0.0) & ((y < 0.0) != (rest < 0.0));
}

// Python's x % y. Adding -0 changes nothing.
INLINED double remainder_of(double y, double rest)
{
    return rest + (turns_rest(y, rest) ? y : -0.0);
}

// Python's x // y, as exact as its remainder.
INLINED double floor_quotient(double x, double y, double rest)
{
    const double quotient = (x - rest) / y - (turns_rest(y, rest) ? 1.0 : 0.0);
    const double below = floor(quotient), whole = quotient - below > 0.5 ? below + 1.0 : below;
    const double some = quotient == 0.0 ? copysign(0.0, x / y) : whole;
    return y == 0.0 ? x / y : some;
}

// log of e^x + e^y in units of `unit`: of 2 with ln 2.
INLINED double log_sum(double x, double y, double unit)
{
    const double most = larger(x, y), sum = most + log1p_exp(-fabs(x - y) * unit) / unit;
    return most - most == 0.0 ? sum : most;
}

INLINED double x_log(double x, double y, double logarithm)
{
    if (isnan(y)) return y;
    return x == 0.0 ? 0.0 : x * logarithm;
}

// Of integers as doubles; what is none has those of the least.
static int64_t bits(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

// By 64 bits or more, and by a negative number of them, all of x goes.
static int64_t shifted_left(int64_t x, int64_t by)
{
    return by >= 0 && by < 64 ? (int64_t)((uint64_t)x << by) : 0;
}

// Four bits of a number in two's complement, as one.
static double nibble(int64_t x, uint32_t shift)
{
    int64_t low = x >> shift & 15;
    return (double)(low < 8 ? low : low - 16);
}

// Cut to [-8, 7]; NaN gives the least.
static uint32_t int4_of(double x)
{
    return isnan(x) ? 8u : (uint32_t)(int32_t)clip(x, -8.0, 7.0) & 15u;
}

static double int4_pair(double low, double high)
{
    return (double)(int8_t)(uint8_t)(int4_of(high) << 4 | int4_of(low));
}

static double apply_formula(opfunc op, double x, double y, double z, double p, double q)
{
    switch ((int)op) {
#define OPFUNC_FORMULA(id, formula) \
    case OPFUNC_##id: return (double)(formula);
#include "tensor/opfunc.def"
    default: break;
    }
    assert(false && "an opfunc with a formula");
    return 0.0;
}

static double apply_parametric(opfunc op, const double *inputs, uint32_t count,
                               const float *parameters)
{
    bool takes = opfunc_takes_parameters(op, count);
    double x = inputs[0], y = count > 1 ? inputs[1] : 0.0;
    double p = takes ? y : parameters ? (double)parameters[0] : 0.0;
    double q = takes && count > 2 ? inputs[2] : parameters ? (double)parameters[1] : 0.0;
    return apply_formula(op, x, y, 0.0, p, q);
}

static double layernormnorm(const double *inputs, uint32_t count)
{
    float x = (float)inputs[0], mean = (float)inputs[1], scale = (float)inputs[2];
    float weight = count > 3 ? (float)inputs[3] : 1.0f;
    float bias = count > 4 ? (float)inputs[4] : 0.0f;
    return (double)(((x - mean) * scale) * weight + bias);
}

// Hosts and libraries disagree about the sign of a NaN that they make and about which of two NaNs
// survives, and SEN169_FP16 keeps the sign.
static double positive_nan(double x)
{
    return isnan(x) ? (double)NAN : x;
}

double opfunc_apply(opfunc op, const double *inputs, uint32_t count, const float *parameters)
{
    const opfunc_info *info = opfunc_describe(op);
    assert(count >= info->least_inputs && (count <= info->most_inputs || opfunc_makes_pairs(op)));
    double x = inputs[0], y = count > 1 ? inputs[1] : 0.0, z = count > 2 ? inputs[2] : 0.0;
    switch (info->kind) {
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY: return positive_nan(apply_formula(op, x, y, z, 0.0, 0.0));
    case OPFUNC_KIND_PARAMETRIC:
        return positive_nan(apply_parametric(op, inputs, count, parameters));
    case OPFUNC_KIND_TERNARY:
        if (op == OPFUNC_WHERE3) return x != 0.0 ? y : z;
        return positive_nan(apply_formula(op, x, y, z, 0.0, 0.0));
    case OPFUNC_KIND_COPY: return x;
    case OPFUNC_KIND_NORM:
        if (op == OPFUNC_LAYERNORMNORM) return positive_nan(layernormnorm(inputs, count));
        break;
    case OPFUNC_KIND_REDUCTION:
    case OPFUNC_KIND_MATMUL:
    case OPFUNC_KIND_RANK:
    case OPFUNC_KIND_POOL:
    case OPFUNC_KIND_MASK:
    case OPFUNC_KIND_SCAN: break;
    }
    assert(false && "an element-wise opfunc");
    return 0.0;
}

#define ELEMENT                double
#define APPLY                  apply_f64
#define APPLY_WITHOUT_BRANCHES apply_f64_without_branches
#include "tensor/opfunc_lanes.h"

#define ELEMENT                float
#define APPLY                  apply_f32
#define APPLY_WITHOUT_BRANCHES apply_f32_without_branches
#include "tensor/opfunc_lanes.h"

void opfunc_apply_lanes(opfunc op, double *result, const double *const *inputs,
                        const float *parameters, size_t count)
{
    apply_f64(op, result, inputs, parameters, count);
}

void opfunc_apply_f32(opfunc op, float *result, const float *const *inputs,
                      const float *parameters, size_t count)
{
    if (op != OPFUNC_EXP) {
        apply_f32(op, result, inputs, parameters, count);
        return;
    }
    const size_t done = exp_f32(result, inputs[0], count);
    if (done == count) return;
    const float *const rest = inputs[0] + done, *const in[] = {rest, rest, rest};
    apply_f32(op, result + done, in, parameters, count - done);
}

double opfunc_layernormscale(double mean, double mean_square, float eps)
{
    double variance = mean_square - mean * mean;
    if (variance < 0.0) variance = 0.0;
    return positive_nan(1.0 / sqrt(variance + (double)eps));
}
