// SPDX-License-Identifier: Apache-2.0
//
// The loops of card/strip.h. A file that includes this defines STRIP_TABLE and, before that:
//   V, D            fp32 and fp64 registers; +, -, * and / work on them
//   LANES           fp32 lanes of a V; a `pair` is 2 * LANES elements in two V, in any order
//   pair_load_dl16, pair_store_dl16, pair_load_f32, pair_store_f32      elements <-> pair
//   table_pairs     looks up the first elements of a run, returns how many
//   v_repeat_dl16   one element in all lanes
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
#define CHOOSE(mask) PICK(mask, SET_LIKE(a, 1.0f), ZERO)
#define NEITHER_NAN(a, b, x) PICK(UNORDERED(a, b), SET_LIKE(a, NAN), x)
#define RAISED PICK(OF(less, a)(a, p), p, a)
#define VARIANCE (b - a * a)
#define ZERO SET_LIKE(a, 0.0f)
#define POSITIVE(x) PICK(OF(less, a)(x, ZERO), ZERO, x)
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
    ROW(WHERE3,       3, PICK(OF(equal, a)(a, ZERO), c, b))                 \
    ROW(ABS,          1, QUIET(OF(magnitude, a)(a)))                        \
    ROW(NEG,          1, QUIET(-a))                                         \
    ROW(RELUFWD,      1, QUIET(PICK(OF(less_equal, a)(a, ZERO), ZERO, a)))  \
    ROW(FLOOR,        1, QUIET(OF(floor, a)(a)))                            \
    ROW(SQRT,         1, QUIET(OF(sqrt, a)(a)))                             \
    ROW(RECIPROCAL,   1, QUIET(SET_LIKE(a, 1.0f) / a))                      \
    ROW(CLIP,         1, QUIET(PICK(OF(less, a)(q, RAISED), q, RAISED)))    \
    ROW(IDENTITY,     1, a)
#define F64_ROWS(ROW)                                                                       \
    ROW(RSQRT,          1, QUIET(SET_LIKE(a, 1.0f) / OF(sqrt, a)(a)))                       \
    ROW(LAYERNORMSCALE, 2, QUIET(SET_LIKE(a, 1.0f) / OF(sqrt, a)(POSITIVE(VARIANCE) + p)))
#define F32_ROWS(ROW) ROW(LAYERNORMNORM, 5, QUIET(((a - b) * c) * d + e))

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

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// What a run reads of one input.
typedef struct {
    const uint8_t *at;
    strip_format format;
    bool repeats;
    pair value;                         // when it repeats
} source;

ALWAYS_INLINE pair fetch(const source *s, size_t n)
{
    if (s->repeats) return s->value;
    if (s->format == STRIP_DL16) return pair_load_dl16(s->at + 2 * n);
    pair x = pair_load_f32(s->at + 4 * n);
    return (pair){v_quieten(x.a), v_quieten(x.b)};
}

ALWAYS_INLINE void put(uint8_t *to, strip_format format, size_t n, pair x)
{
    if (format == STRIP_DL16) pair_store_dl16(to + 2 * n, x);
    else pair_store_f32(to + 4 * n, x);
}

// The last elements of a run, copied to where a whole step can be read.
ALWAYS_INLINE void begin_rest(source *s, uint8_t *buffer, size_t n, size_t count)
{
    size_t bytes = element_bytes(s->format);
    if (s->repeats) return;
    memcpy(buffer, s->at + n * bytes, (count - n) * bytes);
    s->at = buffer;
}

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

// The shapes that have loops of their own, all operands SEN169_FP16: all dense; the first input
// dense and the others repeating; the same, but the fourth and fifth dense too (weight and bias).
typedef enum { SHAPE_ANY, SHAPE_DENSE, SHAPE_ONE_DENSE, SHAPE_WEIGHTED } shape;

static inline shape shape_of(const strip *s, uint32_t inputs)
{
    uint32_t repeating = 0;
    for (uint32_t o = 0; o <= s->inputs; o++) {
        if (s->operand[o].format != STRIP_DL16) return SHAPE_ANY;
        if (o > 0 && s->operand[o].repeats) repeating++;
    }
    if (s->count % STEP != 0 || s->operand[1].repeats) return SHAPE_ANY;
    if (repeating == 0 && s->inputs == inputs) return SHAPE_DENSE;
    if (repeating == s->inputs - 1) return SHAPE_ONE_DENSE;
    bool weighted = s->inputs == 5 && repeating == 2 && s->operand[2].repeats &&
                    s->operand[3].repeats;
    return weighted ? SHAPE_WEIGHTED : SHAPE_ANY;
}

// Where a row of operand o begins; without such an operand, of the one before it.
ALWAYS_INLINE const uint8_t *row_of(const strip *s, uint32_t o, size_t row)
{
    const strip_operand *operand = &s->operand[o <= s->inputs ? o : s->inputs];
    return operand->at + (int64_t)row * operand->row_stride;
}

// layernormnorm without weight and bias multiplies by 1 and adds 0.
ALWAYS_INLINE V repeated(const strip *s, uint32_t o, size_t row)
{
    if (o > s->inputs) return v_set(o == OPFUNC_MAX_INPUTS ? 0.0f : 1.0f);
    return v_repeat_dl16(row_of(s, o, row));
}

// --- Opfuncs

// STEP elements of a row through `formula`.
#define STEP_OF(formula, inputs, n)                                                            \
    do {                                                                                       \
        pair x0 = fetch(&in[0], n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;                        \
        if ((inputs) > 1) x1 = fetch(&in[1], n);                                               \
        if ((inputs) > 2) x2 = fetch(&in[2], n);                                               \
        if ((inputs) > 3) x3 = fetch(&in[3], n), x4 = fetch(&in[4], n);                        \
        put(to, format, n, RESULT(formula));                                                   \
    } while (0)
#define RESULT(formula)                                                                        \
    (pair)                                                                                     \
    {                                                                                          \
        formula(x0.a, x1.a, x2.a, x3.a, x4.a, p, q, cut),                                      \
            formula(x0.b, x1.b, x2.b, x3.b, x4.b, p, q, cut)                                   \
    }

// A function for any shape and two loops for the common ones.
#define KERNEL(name, formula, inputs)                                                          \
    static void name##_any(const strip *s)                                                     \
    {                                                                                          \
        const strip_format format = s->operand[0].format;                                      \
        const float p = s->constant[0], q = s->constant[1];                                    \
        const bool cut = format == STRIP_DL16;                                                 \
        for (size_t row = 0; row < s->rows; row++) {                                           \
            uint8_t *to = s->operand[0].at + (int64_t)row * s->operand[0].row_stride;          \
            source in[inputs];                                                                 \
            for (uint32_t o = 0; o < (inputs); o++) in[o] = source_of(s, o + 1, row);          \
            size_t n = 0;                                                                      \
            for (; n + STEP <= s->count; n += STEP) STEP_OF(formula, inputs, n);               \
            if (n == s->count) continue;                                                       \
            uint8_t rest[inputs][STEP * 4] = {{0}}, result_rest[STEP * 4];                     \
            for (uint32_t o = 0; o < (inputs); o++) begin_rest(&in[o], rest[o], n, s->count);  \
            uint8_t *end = to + n * element_bytes(format);                                     \
            to = result_rest;                                                                  \
            STEP_OF(formula, inputs, 0);                                                       \
            memcpy(end, result_rest, (s->count - n) * element_bytes(format));                  \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_dense(const strip *s)                                            \
    {                                                                                          \
        const float p = s->constant[0], q = s->constant[1];                                    \
        const bool cut = true;                                                                 \
        for (size_t row = 0; row < s->rows; row++) {                                           \
            const uint8_t *at0 = row_of(s, 1, row), *at1 = row_of(s, 2, row);                  \
            const uint8_t *at2 = row_of(s, 3, row), *at3 = row_of(s, 4, row);                  \
            const uint8_t *at4 = row_of(s, 5, row);                                            \
            uint8_t *to = s->operand[0].at + (int64_t)row * s->operand[0].row_stride;          \
            for (size_t n = 0; n < s->count; n += STEP) {                                      \
                pair x0 = pair_load_dl16(at0 + 2 * n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;     \
                if ((inputs) > 1) x1 = pair_load_dl16(at1 + 2 * n);                            \
                if ((inputs) > 2) x2 = pair_load_dl16(at2 + 2 * n);                            \
                if ((inputs) > 3) x3 = pair_load_dl16(at3 + 2 * n);                            \
                if ((inputs) > 4) x4 = pair_load_dl16(at4 + 2 * n);                            \
                pair_store_dl16(to + 2 * n, RESULT(formula));                                  \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_one_dense(const strip *s, bool inverts, bool weighted)           \
    {                                                                                          \
        const float p = s->constant[0], q = s->constant[1];                                    \
        const bool cut = true;                                                                 \
        for (size_t row = 0; row < s->rows; row++) {                                           \
            const uint8_t *at0 = row_of(s, 1, row);                                            \
            const uint8_t *at3 = row_of(s, 4, row), *at4 = row_of(s, 5, row);                  \
            uint8_t *to = s->operand[0].at + (int64_t)row * s->operand[0].row_stride;          \
            V y1 = repeated(s, 2, row), y2 = y1, y3 = y1, y4 = y1;                             \
            if ((inputs) > 2) y2 = repeated(s, 3, row);                                        \
            if ((inputs) > 3) y3 = repeated(s, 4, row);                                        \
            if ((inputs) > 4) y4 = repeated(s, 5, row);                                        \
            if (inverts) y1 = v_set(1.0f) / y1;                                                \
            const pair x1 = {y1, y1}, x2 = {y2, y2};                                           \
            pair x3 = {y3, y3}, x4 = {y4, y4};                                                 \
            for (size_t n = 0; n < s->count; n += STEP) {                                      \
                pair x0 = pair_load_dl16(at0 + 2 * n);                                         \
                if (weighted) x3 = pair_load_dl16(at3 + 2 * n);                                \
                if (weighted) x4 = pair_load_dl16(at4 + 2 * n);                                \
                pair_store_dl16(to + 2 * n, RESULT(formula));                                  \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    static void name(const strip *s)                                                           \
    {                                                                                          \
        switch (shape_of(s, inputs)) {                                                         \
        case SHAPE_DENSE: name##_dense(s); return;                                             \
        case SHAPE_ONE_DENSE: name##_one_dense(s, false, false); return;                       \
        case SHAPE_WEIGHTED:                                                                   \
            if ((inputs) == 5) name##_one_dense(s, false, true);                               \
            return;                                                                            \
        case SHAPE_ANY: name##_any(s); return;                                                 \
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
F32_ROWS(VALUE_F32)
COMMON_ROWS(VALUE_F64)
F64_ROWS(VALUE_F64)

// One divisor a row of SEN169_FP16 costs a multiplication an element. With 10-bit significands no
// quotient is a tie, nor nearer to one than 2^-21 of it: a tie has an odd significand of 11 bits,
// and its product with the divisor is a whole number that is not the dividend. Two roundings to fp32
// are off by less than 2^-22.
static void f32_QUOTIENT(const strip *s)
{
    if (shape_of(s, 2) == SHAPE_ONE_DENSE) f32_MUL_one_dense(s, true, false);
    else f32_REALDIV(s);
}

static void look_up(uint8_t *to, const uint8_t *from, const uint16_t *table, size_t count)
{
    size_t n = table_pairs(to, from, table, count);
    for (; n < count; n++) {
        uint16_t code;
        memcpy(&code, from + 2 * n, sizeof code);
        memcpy(to + 2 * n, &table[code], sizeof code);
    }
}

// --- Reductions

#define ADD_UP(a, b)     ((a) + (b))
#define ADD_SQUARE(a, b) ((a) + (b) * (b))
// A NaN of the accumulator wins over one of the value; equal values (zeros) give the value.
#define NAN_FIRST(a, b, x) v_pick(v_unordered(a, a), a, v_pick(v_unordered(b, b), b, x))
#define LARGEST(a, b)      NAN_FIRST(a, b, v_max(a, b))
#define SMALLEST(a, b)     NAN_FIRST(a, b, v_min(a, b))
#define AS_IT_IS(a, x)     (x)
#define NAN_STAYS(a, x)    v_pick(v_unordered(a, a), a, x)

// SEN169_FP16 has no NaN, so its values go through `plain`, and `stays` (a, the result) puts a NaN
// of the accumulator back.
#define REDUCER(name, combine, plain, stays)                                                   \
    static void name(const strip_reduction *r)                                                 \
    {                                                                                          \
        size_t n = 0;                                                                          \
        for (; n + STEP <= r->count; n += STEP) {                                              \
            const uint8_t *in = r->in + n * element_bytes(r->format);                          \
            const pair first = pair_load_f32((const uint8_t *)(r->accumulator + n));           \
            pair sum = first;                                                                  \
            for (size_t k = 0; k < r->depth && r->format == STRIP_DL16; k++, in += r->step) {  \
                pair x = pair_load_dl16(in);                                                   \
                sum = (pair){plain(sum.a, x.a), plain(sum.b, x.b)};                            \
            }                                                                                  \
            if (r->format == STRIP_DL16)                                                       \
                sum = (pair){stays(first.a, sum.a), stays(first.b, sum.b)};                    \
            for (size_t k = 0; k < r->depth && r->format != STRIP_DL16; k++, in += r->step) {  \
                pair x = pair_load_f32(in);                                                    \
                x = (pair){v_quieten(x.a), v_quieten(x.b)};                                    \
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

REDUCER(reduce_sum, ADD_UP, ADD_UP, AS_IT_IS)
REDUCER(reduce_square, ADD_SQUARE, ADD_SQUARE, AS_IT_IS)
REDUCER(reduce_max, LARGEST, v_max, NAN_STAYS)
REDUCER(reduce_min, SMALLEST, v_min, NAN_STAYS)

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
        .f32 = {COMMON_ROWS(F32_ENTRY) F32_ROWS(F32_ENTRY)},                                   \
        .f64 = {COMMON_ROWS(F64_ENTRY) F64_ROWS(F64_ENTRY)},                                   \
        .quotient = f32_QUOTIENT, .lookup = look_up,                                           \
        .sum = reduce_sum, .max = reduce_max, .min = reduce_min, .square = reduce_square,      \
        .fold_sum = fold_sum, .fold_max = fold_max, .fold_min = fold_min,                      \
    }
