// SPDX-License-Identifier: Apache-2.0
//
// The opfuncs in fp64. For SEN169_FP16 the one rounding of the store makes every unary result here
// the correctly rounded one: no function comes closer to a tie than fp64 can tell (proved over all
// codes by the test).
#include "tensor/elementary.h"
#include "tensor/joined_index.h"
#include "tensor/numeric.h"
#include "tensor/opfunc.h"
#include "tensor/special.h"

#include "base/clones.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// The accumulator of each kind; that of a REDUCTION or POOL comes from its row ACCUMULATES.
#define ACCUMULATES_UNARY(id)      OPFUNC_NONE
#define ACCUMULATES_BINARY(id)     OPFUNC_NONE
#define ACCUMULATES_TERNARY(id)    OPFUNC_NONE
#define ACCUMULATES_PARAMETRIC(id) OPFUNC_NONE
#define ACCUMULATES_NORM(id)       OPFUNC_NONE
#define ACCUMULATES_COPY(id)       OPFUNC_NONE
#define ACCUMULATES_RANK(id)       OPFUNC_NONE
#define ACCUMULATES_MATMUL(id)     OPFUNC_SUM
#define ACCUMULATES_MASK(id)       OPFUNC_NONE
#define ACCUMULATES_SCAN(id)       OPFUNC_NONE
#define ACCUMULATES_REDUCTION(id)  (opfunc)ACCUMULATOR_OF_##id
#define ACCUMULATES_POOL(id)       (opfunc)ACCUMULATOR_OF_##id

enum {
#define OPFUNC_ACCUMULATES(id, accumulator) ACCUMULATOR_OF_##id = OPFUNC_##accumulator,
#include "tensor/opfunc.def"
};

static const opfunc_info table[OPFUNC_COUNT] = {
#define OPFUNC_ROW(id, name_, kind_, least, most, ...) \
    [OPFUNC_##id] = {.name = (name_),                  \
                     .kind = OPFUNC_KIND_##kind_,      \
                     .least_inputs = (least),          \
                     .most_inputs = (most),            \
                     .parameter = {__VA_ARGS__},       \
                     .accumulator = ACCUMULATES_##kind_(id)},
#include "tensor/opfunc.def"
};

const opfunc_info *opfunc_describe(opfunc op)
{
    assert(op < OPFUNC_COUNT);
    return &table[op];
}

uint32_t opfunc_constant_count(opfunc op, uint32_t inputs)
{
    uint32_t count = 0;
    if (opfunc_takes_parameters(op, inputs)) return 0;
    while (count < OPFUNC_MAX_PARAMETERS && table[op].parameter[count]) count++;
    return count;
}

static opfunc exactly_named(const char *name, size_t length)
{
    for (int op = 0; op < OPFUNC_COUNT; op++) {
        const char *candidate = table[op].name;
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) return (opfunc)op;
    }
    return OPFUNC_NONE;
}

opfunc opfunc_named(const char *name)
{
    static const char suffix[] = "nonstick";
    size_t length = strlen(name), suffix_length = sizeof suffix - 1;
    opfunc op = exactly_named(name, length);
    if (op != OPFUNC_NONE || length <= suffix_length) return op;
    if (strcmp(name + length - suffix_length, suffix) != 0) return OPFUNC_NONE;
    op = exactly_named(name, length - suffix_length);
    bool reduces = op != OPFUNC_NONE && table[op].kind == OPFUNC_KIND_REDUCTION;
    return reduces ? op : OPFUNC_NONE;
}

// Into each clone of opfunc_apply_lanes, for its processor.
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

// By the rows BRANCHLESS; lanes that these do not hold for are computed one by one.
BASE_CLONES
static bool apply_without_branches(opfunc op, double *result, const double *const *inputs,
                                   size_t count)
{
    const double *first = inputs[0], *second = inputs[1];
    uint64_t others = 0;
    switch ((int)op) {
#define OPFUNC_BRANCHLESS(id, holds, formula)                          \
    case OPFUNC_##id:                                                  \
        for (size_t n = 0; n < count; n++) {                           \
            const double x = first[n], y = second[n];                  \
            others += !(holds);                                        \
            result[n] = positive_nan((double)(formula));               \
        }                                                              \
        for (size_t n = 0; others > 0 && n < count; n++) {             \
            const double x = first[n], y = second[n];                  \
            if (!(holds)) result[n] = opfunc_apply(op, (double[]){x, y}, 2, NULL); \
        }                                                              \
        return true;
#include "tensor/opfunc.def"
    default: return false;
    }
}

// Formulas of roundings, roots and quotients are instructions on later processors only.
BASE_CLONES
void opfunc_apply_lanes(opfunc op, double *result, const double *const *inputs,
                        const float *parameters, size_t count)
{
    const opfunc_info *info = opfunc_describe(op);
    bool pairs = opfunc_makes_pairs(op);
    const double *first = inputs[0], *second = inputs[info->least_inputs > 1 || pairs ? 1 : 0];
    const double *third = inputs[info->least_inputs > 2 ? 2 : 0];
    bool parametric = info->kind == OPFUNC_KIND_PARAMETRIC;
    const double p = parametric ? (double)parameters[0] : 0.0;
    const double q = parametric ? (double)parameters[1] : 0.0;
    (void)p, (void)q;
    if (apply_without_branches(op, result, inputs, count)) return;
    switch ((int)op) {
#define OPFUNC_FORMULA(id, formula)                                    \
    case OPFUNC_##id:                                                  \
        for (size_t n = 0; n < count; n++) {                           \
            const double x = first[n], y = second[n], z = third[n];    \
            (void)y, (void)z;                                          \
            result[n] = positive_nan((double)(formula));               \
        }                                                              \
        return;
#include "tensor/opfunc.def"
    default: break;
    }
    assert(false && "an opfunc with a formula");
}

const char *opfunc_meaning(opfunc op)
{
    static const char *const meanings[OPFUNC_COUNT] = {
#define OPFUNC_MEANING(id, text) [OPFUNC_##id] = (text),
#include "tensor/opfunc.def"
    };
    return meanings[op];
}

double opfunc_layernormscale(double mean, double mean_square, float eps)
{
    double variance = mean_square - mean * mean;
    if (variance < 0.0) variance = 0.0;
    return positive_nan(1.0 / sqrt(variance + (double)eps));
}

// --- Reductions

float opfunc_combine(opfunc op, float a, float b)
{
    switch ((int)table[op].accumulator) {
#define OPFUNC_ACCUMULATOR(id, neutral, combination, pairwise, exactness) \
    case OPFUNC_##id: return combination;
#include "tensor/opfunc.def"
    default: break;
    }
    assert(false && "an opfunc with an accumulator");
    return a;
}

typedef enum { INEXACT, EXACT } exactness;

typedef struct {
    float neutral;
    opfunc pairwise;
    exactness exactness;
} accumulator;

static const accumulator accumulators[OPFUNC_COUNT] = {
#define OPFUNC_ACCUMULATOR(id, neutral_, combination, pairwise_, exactness_) \
    [OPFUNC_##id] = {(neutral_), OPFUNC_##pairwise_, (exactness_)},
#include "tensor/opfunc.def"
};

static const accumulator *accumulator_of(opfunc op)
{
    assert(table[op].accumulator != OPFUNC_NONE);
    return &accumulators[table[op].accumulator];
}

float opfunc_reduction_identity(opfunc op)
{
    return accumulator_of(op)->neutral;
}

opfunc opfunc_pairwise(opfunc op)
{
    return accumulator_of(op)->pairwise;
}

bool opfunc_reduces_exactly(opfunc op)
{
    return accumulator_of(op)->exactness == EXACT;
}

opfunc opfunc_accumulator_of(opfunc pairwise)
{
    for (int op = 0; op < OPFUNC_COUNT; op++)
        if (opfunc_accumulates((opfunc)op) && accumulators[op].pairwise == pairwise)
            return (opfunc)op;
    return OPFUNC_NONE;
}

enum { DL16_CODES = 1 << 16 };

uint16_t *opfunc_dl16_table_build(opfunc op, const float *parameters)
{
    uint16_t *codes = malloc(DL16_CODES * sizeof *codes);
    if (!codes) return NULL;
    for (uint32_t code = 0; code < DL16_CODES; code++) {
        uint16_t element = (uint16_t)code;
        double inputs[OPFUNC_MAX_INPUTS] = {element_load(&element, SPYRE_FORMAT_SEN169_FP16)};
        double result = opfunc_apply(op, inputs, 1, parameters);
        element_store(&codes[code], SPYRE_FORMAT_SEN169_FP16, result);
    }
    return codes;
}

const uint16_t *opfunc_dl16_table(opfunc op)
{
    static _Atomic(uint16_t *) tables[OPFUNC_COUNT];
    assert(opfunc_describe(op)->kind == OPFUNC_KIND_UNARY);
    uint16_t *present = atomic_load_explicit(&tables[op], memory_order_acquire);
    if (present) return present;
    uint16_t *fresh = opfunc_dl16_table_build(op, NULL);
    if (!fresh) return NULL;
    // Threads may build the same table at once; the first to publish it wins.
    if (atomic_compare_exchange_strong(&tables[op], &present, fresh)) return fresh;
    free(fresh);
    return present;
}

typedef struct {
    opfunc op;
    float parameters[OPFUNC_MAX_PARAMETERS];
    uint16_t *codes;
} parametric_table;

static const uint16_t *parametric_dl16_table(opfunc op, const float *parameters)
{
    static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
    static parametric_table tables[OPFUNC_PARAMETRIC_TABLES];
    static size_t count;
    const uint16_t *found = NULL;
    pthread_mutex_lock(&guard);
    for (size_t n = 0; n < count && !found; n++) {
        const parametric_table *t = &tables[n];
        if (t->op == op && memcmp(t->parameters, parameters, sizeof t->parameters) == 0)
            found = t->codes;
    }
    if (!found && count < OPFUNC_PARAMETRIC_TABLES) {
        parametric_table fresh = {.op = op, .codes = opfunc_dl16_table_build(op, parameters)};
        memcpy(fresh.parameters, parameters, sizeof fresh.parameters);
        if (fresh.codes) tables[count++] = fresh;
        found = fresh.codes;
    }
    pthread_mutex_unlock(&guard);
    return found;
}

const uint16_t *opfunc_dl16_table_of(opfunc op, const float *parameters)
{
    bool is_unary = opfunc_describe(op)->kind == OPFUNC_KIND_UNARY;
    return is_unary ? opfunc_dl16_table(op) : parametric_dl16_table(op, parameters);
}
