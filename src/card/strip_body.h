// SPDX-License-Identifier: Apache-2.0
//
// The loops of card/strip.h. A file that includes this defines STRIP_TABLE and, before that:
//   V, D            fp32 and fp64 registers; +, -, * and / work on them
//   LANES           fp32 lanes of a V; a `pair` is 2 * LANES elements in two V, in any order
//   pair_load_dl16, pair_store_dl16, pair_load_f32, pair_store_f32      elements <-> pair
//   V and D forms (v_, d_) of set, max, min (as a > b ? a : b), sqrt, floor, magnitude, and the
//   masks less, less_equal, equal, unordered with pick(mask, then, else)
//   v_quieten       quiets a signalling NaN, as the step through fp64 of the definition does
//   v_low, v_high   the fp64 halves of a V; v_join and v_join_cut round and cut them back
#include <math.h>
#include <string.h>

#include "card/strip.h"
#include "tensor/numeric.h"

enum { STEP = 2 * LANES };

#define OF(name, x)     _Generic((x), V: v_##name, D: d_##name)
#define SET_LIKE(x, c)  OF(set, x)(c)
#define PICK(m, x, y)   OF(pick, x)(m, x, y)
#define UNORDERED(a, b) OF(unordered, a)(a, b)
#define QUIET(x)        OF(quiet, x)(x)

// Every NaN that a function makes is the positive quiet one.
static inline V v_quiet(V x)
{
    return v_pick(v_unordered(x, x), v_set(NAN), x);
}

static inline D d_quiet(D x)
{
    return d_pick(d_unordered(x, x), d_set((double)NAN), x);
}

// Expressions of tensor/opfunc.c over inputs a, b, c, d, e and constants p, q.
#define CHOOSE(mask) PICK(mask, SET_LIKE(a, 1.0f), SET_LIKE(a, 0.0f))
#define NEITHER_NAN(a, b, x) PICK(UNORDERED(a, b), SET_LIKE(a, NAN), x)
#define RAISED PICK(OF(less, a)(a, p), p, a)
#define VARIANCE (b - a * a)
#define POSITIVE(x) PICK(OF(less, a)(x, SET_LIKE(a, 0.0f)), SET_LIKE(a, 0.0f), x)
#define COMMON_ROWS(ROW)                                                    \
    ROW(ADD,          2, QUIET(a + b))                                      \
    ROW(SUB,          2, QUIET(a - b))                                      \
    ROW(MUL,          2, QUIET(a * b))                                      \
    ROW(REALDIV,      2, QUIET(a / b))                                      \
    ROW(MAXIMUM,      2, NEITHER_NAN(a, b, OF(max, a)(a, b)))               \
    ROW(MINIMUM,      2, NEITHER_NAN(a, b, OF(min, a)(a, b)))               \
    ROW(EQUAL,        2, CHOOSE(OF(equal, a)(a, b)))                        \
    ROW(NOTEQUAL,     2, SET_LIKE(a, 1.0f) - CHOOSE(OF(equal, a)(a, b)))    \
    ROW(LESSERTHAN,   2, CHOOSE(OF(less, a)(a, b)))                         \
    ROW(LESSEREQUAL,  2, CHOOSE(OF(less_equal, a)(a, b)))                   \
    ROW(GREATERTHAN,  2, CHOOSE(OF(less, a)(b, a)))                         \
    ROW(GREATEREQUAL, 2, CHOOSE(OF(less_equal, a)(b, a)))                   \
    ROW(WHERE3,       3, PICK(OF(equal, a)(a, SET_LIKE(a, 0.0f)), c, b))    \
    ROW(ABS,          1, QUIET(OF(magnitude, a)(a)))                        \
    ROW(NEG,          1, QUIET(-a))                                         \
    ROW(RELUFWD,      1, QUIET(PICK(OF(less_equal, a)(a, SET_LIKE(a, 0.0f)), SET_LIKE(a, 0.0f), a))) \
    ROW(FLOOR,        1, QUIET(OF(floor, a)(a)))                            \
    ROW(SQRT,         1, QUIET(OF(sqrt, a)(a)))                             \
    ROW(RECIPROCAL,   1, QUIET(SET_LIKE(a, 1.0f) / a))                      \
    ROW(CLIP,         1, QUIET(PICK(OF(less, a)(q, RAISED), q, RAISED)))    \
    ROW(IDENTITY,     1, a)
#define F64_ROWS(ROW)                                                                       \
    ROW(RSQRT,          1, QUIET(SET_LIKE(a, 1.0f) / OF(sqrt, a)(a)))                       \
    ROW(LAYERNORMSCALE, 2, QUIET(SET_LIKE(a, 1.0f) / OF(sqrt, a)(POSITIVE(VARIANCE) + p)))  \
    ROW(LAYERNORMNORM,  5, QUIET(((a - b) * c) * d + e))

// --- Operands

static inline pair pair_set(float value)
{
    return (pair){v_set(value), v_set(value)};
}

static inline float load_one(const uint8_t *at, strip_format format)
{
    uint16_t code;
    float value;
    if (format == STRIP_F32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&code, at, sizeof code);
    return dl16_to_float(code);
}

static inline size_t element_bytes(strip_format format)
{
    return format == STRIP_DL16 ? 2 : 4;
}

// What a run reads of one input.
typedef struct {
    const uint8_t *at;
    strip_format format;
    bool repeats;
    pair value;                         // when it repeats
} source;

static inline pair fetch(const source *s, size_t n)
{
    if (s->repeats) return s->value;
    if (s->format == STRIP_DL16) return pair_load_dl16(s->at + 2 * n);
    pair x = pair_load_f32(s->at + 4 * n);
    return (pair){v_quieten(x.a), v_quieten(x.b)};
}

static inline void put(uint8_t *to, strip_format format, size_t n, pair x)
{
    if (format == STRIP_DL16) pair_store_dl16(to + 2 * n, x);
    else pair_store_f32(to + 4 * n, x);
}

// The last elements of a run, copied to where a whole step can be read.
static inline void begin_rest(source *s, uint8_t *buffer, size_t n, size_t count)
{
    size_t bytes = element_bytes(s->format);
    if (s->repeats) return;
    memcpy(buffer, s->at + n * bytes, (count - n) * bytes);
    s->at = buffer;
}

// layernormnorm without weight and bias multiplies by 1 and adds 0.
static inline source source_of(const strip *s, uint32_t o, size_t row)
{
    source in = {.repeats = true};
    if (o > s->inputs) {
        in.value = pair_set(o == OPFUNC_MAX_INPUTS ? 0.0f : 1.0f);
        return in;
    }
    const strip_operand *operand = &s->operand[o];
    in.at = operand->at + (int64_t)row * operand->row_stride;
    in.format = operand->format;
    in.repeats = operand->repeats;
    if (!in.repeats) return in;
    V value = v_quieten(v_set(load_one(in.at, in.format)));
    in.value = (pair){value, value};
    return in;
}

// --- Opfuncs

// STEP elements of a row through `value`.
#define STEP_OF(value, inputs, n)                                                              \
    do {                                                                                       \
        pair x0 = fetch(&in[0], n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;                        \
        if ((inputs) > 1) x1 = fetch(&in[1], n);                                               \
        if ((inputs) > 2) x2 = fetch(&in[2], n);                                               \
        if ((inputs) > 3) x3 = fetch(&in[3], n), x4 = fetch(&in[4], n);                        \
        pair result = {value(x0.a, x1.a, x2.a, x3.a, x4.a, p, q, cut),                         \
                       value(x0.b, x1.b, x2.b, x3.b, x4.b, p, q, cut)};                        \
        put(to, format, n, result);                                                            \
    } while (0)

#define KERNEL(name, value, input_count)                                                       \
    static void name(const strip *s)                                                           \
    {                                                                                          \
        const strip_format format = s->operand[0].format;                                      \
        const float p = s->constant[0], q = s->constant[1];                                    \
        const bool cut = format == STRIP_DL16;                                                 \
        for (size_t row = 0; row < s->rows; row++) {                                           \
            uint8_t *to = s->operand[0].at + (int64_t)row * s->operand[0].row_stride;          \
            source in[input_count];                                                            \
            for (uint32_t o = 0; o < (input_count); o++) in[o] = source_of(s, o + 1, row);     \
            size_t n = 0;                                                                      \
            for (; n + STEP <= s->count; n += STEP) STEP_OF(value, input_count, n);            \
            if (n == s->count) continue;                                                       \
            uint8_t rest[input_count][STEP * 4] = {{0}}, result_rest[STEP * 4];                \
            for (uint32_t o = 0; o < (input_count); o++)                                       \
                begin_rest(&in[o], rest[o], n, s->count);                                      \
            uint8_t *end = to + n * element_bytes(format);                                     \
            to = result_rest;                                                                  \
            STEP_OF(value, input_count, 0);                                                    \
            memcpy(end, result_rest, (s->count - n) * element_bytes(format));                  \
        }                                                                                      \
    }

#define VALUE_F32(op, inputs, expression)                                                      \
    static inline V value_f32_##op(V a, V b, V c, V d, V e, float p_, float q_, bool cut)      \
    {                                                                                          \
        const V p = v_set(p_), q = v_set(q_);                                                  \
        (void)b, (void)c, (void)d, (void)e, (void)p, (void)q, (void)cut;                       \
        return (expression);                                                                   \
    }                                                                                          \
    KERNEL(f32_##op, value_f32_##op, inputs)

#define VALUE_F64(op, inputs, expression)                                                      \
    static inline D half_##op(D a, D b, D c, D d, D e, D p, D q)                               \
    {                                                                                          \
        (void)b, (void)c, (void)d, (void)e, (void)p, (void)q;                                  \
        return (expression);                                                                   \
    }                                                                                          \
    static inline V value_f64_##op(V a, V b, V c, V d, V e, float p_, float q_, bool cut)      \
    {                                                                                          \
        const D p = d_set((double)p_), q = d_set((double)q_);                                  \
        D low = half_##op(v_low(a), v_low(b), v_low(c), v_low(d), v_low(e), p, q);             \
        D high = half_##op(v_high(a), v_high(b), v_high(c), v_high(d), v_high(e), p, q);       \
        return cut ? v_join_cut(low, high) : v_join(low, high);                                \
    }                                                                                          \
    KERNEL(f64_##op, value_f64_##op, inputs)

COMMON_ROWS(VALUE_F32)
COMMON_ROWS(VALUE_F64)
F64_ROWS(VALUE_F64)

// --- Reductions

#define ADD_UP(a, b)     ((a) + (b))
#define ADD_SQUARE(a, b) ((a) + (b) * (b))
// A NaN of the accumulator wins over one of the value; equal values (zeros) give the value.
#define LARGEST(a, b)  v_pick(v_unordered(a, a), a, v_pick(v_unordered(b, b), b, v_max(a, b)))
#define SMALLEST(a, b) v_pick(v_unordered(a, a), a, v_pick(v_unordered(b, b), b, v_min(a, b)))

#define REDUCER(name, combine)                                                                 \
    static void name(const strip_reduction *r)                                                 \
    {                                                                                          \
        size_t n = 0;                                                                          \
        for (; n + STEP <= r->count; n += STEP) {                                              \
            source in = {.at = r->in + n * element_bytes(r->format), .format = r->format};     \
            pair sum = pair_load_f32((const uint8_t *)(r->accumulator + n));                   \
            for (size_t k = 0; k < r->depth; k++, in.at += r->step) {                          \
                pair x = fetch(&in, 0);                                                        \
                sum = (pair){combine(sum.a, x.a), combine(sum.b, x.b)};                        \
            }                                                                                  \
            pair_store_f32((uint8_t *)(r->accumulator + n), sum);                              \
        }                                                                                      \
        for (; n < r->count; n++) {                                                            \
            const uint8_t *at = r->in + n * element_bytes(r->format);                          \
            for (size_t k = 0; k < r->depth; k++, at += r->step)                               \
                r->accumulator[n] = one_##name(r->accumulator[n], load_one(at, r->format));    \
        }                                                                                      \
    }

static inline float one_reduce_sum(float a, float b)
{
    return a + b;
}

static inline float one_reduce_square(float a, float b)
{
    return a + b * b;
}

static inline float one_reduce_max(float a, float b)
{
    return opfunc_combine(OPFUNC_MAX, a, b);
}

static inline float one_reduce_min(float a, float b)
{
    return opfunc_combine(OPFUNC_MIN, a, b);
}

REDUCER(reduce_sum, ADD_UP)
REDUCER(reduce_square, ADD_SQUARE)
REDUCER(reduce_max, LARGEST)
REDUCER(reduce_min, SMALLEST)

static inline float raise(float a, float b)
{
    return a != a ? a : b != b ? b : a > b ? a : b;
}

static inline float lower(float a, float b)
{
    return a != a ? a : b != b ? b : a < b ? a : b;
}

#define HALVE(half, combine)                                                                   \
    for (int n = 0; n < (half); n++) values[n] = combine(values[n], values[n + (half)]);
#define FOLDER(name, combine)                                                                  \
    static void name(float *values)                                                            \
    {                                                                                          \
        HALVE(32, combine)                                                                     \
        HALVE(16, combine)                                                                     \
        HALVE(8, combine)                                                                      \
        HALVE(4, combine)                                                                      \
        HALVE(2, combine)                                                                      \
        HALVE(1, combine)                                                                      \
    }
FOLDER(fold_sum, ADD_UP)
FOLDER(fold_max, raise)
FOLDER(fold_min, lower)

#define F32_ENTRY(op, inputs, expression) [OPFUNC_##op] = f32_##op,
#define F64_ENTRY(op, inputs, expression) [OPFUNC_##op] = f64_##op,
#define STRIP_ENTRIES                                                                          \
    {                                                                                          \
        .f32 = {COMMON_ROWS(F32_ENTRY)}, .f64 = {COMMON_ROWS(F64_ENTRY) F64_ROWS(F64_ENTRY)},  \
        .sum = reduce_sum, .max = reduce_max, .min = reduce_min, .square = reduce_square,      \
        .fold_sum = fold_sum, .fold_max = fold_max, .fold_min = fold_min,                      \
    }
