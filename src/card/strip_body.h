// SPDX-License-Identifier: Apache-2.0
//
// The loops of card/strip.h. A file that includes this defines before that:
//   V, D            fp32 and fp64 registers; +, -, * and / work on them
//   LANES           fp32 lanes of a V; a `pair` is 2 * LANES elements in two V
//   pair_load_dl16, pair_store_dl16, pair_load_f32, pair_store_f32      elements <-> pair, in an
//                   order of elements that suits SEN169_FP16
//   v_load, v_store fp32 elements <-> V, in their order
//   table_pairs     looks up the first elements of a run, returns how many
//   v_low, v_high   the fp64 halves of a V; v_join and v_join_cut round and cut them back
//   v_fma           of SEN169_FP16 values a and b, and an fp32 sum
//   what card/strip_rows.h wants
#include <math.h>
#include <string.h>

#include "card/strip.h"
#include "card/strip_rows.h"
#include "tensor/numeric.h"

enum { STEP = 2 * LANES, STICK_LANES = 64 };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// --- Operands

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

ALWAYS_INLINE size_t element_bytes(strip_format format)
{
    return format == STRIP_DL16 ? 2 : 4;
}

static inline uint8_t *row_of(const strip *s, uint32_t o, size_t row)
{
    return s->operand[o].at + (int64_t)row * s->operand[o].row_stride;
}

// From row to row of operand o; stands still where the strip has none.
typedef struct {
    uint8_t *at;
    int64_t step;
} mover;

ALWAYS_INLINE mover move(const strip *s, uint32_t o)
{
    if (o > s->inputs) return (mover){s->operand[0].at, 0};
    return (mover){s->operand[o].at, s->operand[o].row_stride};
}

// Fp32 beside nothing but fp32 keeps the order of elements.
ALWAYS_INLINE pair load_same(const uint8_t *at, strip_format format, size_t n)
{
    if (format == STRIP_DL16) return pair_load_dl16(at + 2 * n);
    return (pair){v_load(at + 4 * n), v_load(at + 4 * (n + LANES))};
}

ALWAYS_INLINE void store_same(uint8_t *to, strip_format format, size_t n, pair x)
{
    if (format == STRIP_DL16) {
        pair_store_dl16(to + 2 * n, x);
    } else {
        v_store(to + 4 * n, x.a);
        v_store(to + 4 * (n + LANES), x.b);
    }
}

ALWAYS_INLINE pair load_mixed(const uint8_t *at, strip_format format, size_t n)
{
    return format == STRIP_DL16 ? pair_load_dl16(at + 2 * n) : pair_load_f32(at + 4 * n);
}

ALWAYS_INLINE void store_mixed(uint8_t *to, strip_format format, size_t n, pair x)
{
    if (format == STRIP_DL16) pair_store_dl16(to + 2 * n, x);
    else pair_store_f32(to + 4 * n, x);
}

// --- Inputs that have one element a row

enum { ROWS_MOST = 128 };
typedef struct {
    float of[1 + OPFUNC_MAX_INPUTS][ROWS_MOST];
} row_values;

ALWAYS_INLINE void fetch_rows(const strip *s, uint32_t o, float *out, strip_format format)
{
    const size_t bytes = element_bytes(format);
    mover in = move(s, o);
    for (size_t row = 0; row < s->rows; row += STEP) {
        uint8_t elements[STEP * 4] = {0};
        size_t count = s->rows - row < STEP ? s->rows - row : STEP;
        for (size_t n = 0; n < count; n++, in.at += in.step)
            memcpy(elements + n * bytes, in.at, bytes);
        pair_store_f32((uint8_t *)(out + row), load_mixed(elements, format, 0));
    }
}

static void fetch_operand(const strip *s, uint32_t o, float *out)
{
    if (s->operand[o].format == STRIP_DL16) fetch_rows(s, o, out, STRIP_DL16);
    else fetch_rows(s, o, out, STRIP_F32);
}

// layernormnorm without weight and bias multiplies by 1 and adds 0.
static void fetch_values(const strip *s, row_values *y)
{
    for (uint32_t o = 1; o <= s->inputs; o++)
        if (s->operand[o].repeats) fetch_operand(s, o, y->of[o]);
    for (uint32_t o = s->inputs + 1; s->inputs >= 3 && o <= OPFUNC_MAX_INPUTS; o++)
        for (size_t row = 0; row < ROWS_MOST; row++)
            y->of[o][row] = o == OPFUNC_MAX_INPUTS ? 0.0f : 1.0f;
}

static void fetch_inverses(const strip *s, row_values *y)
{
    fetch_values(s, y);
    for (size_t row = 0; row < ROWS_MOST; row += LANES) {
        uint8_t *at = (uint8_t *)(y->of[2] + row);
        v_store(at, v_set(1.0f) / v_load(at));
    }
}

typedef void value_fetcher(const strip *s, row_values *y);

// --- Parts: a plane of at most ROWS_MOST rows

typedef void part_function(const strip *part, const row_values *y);

static strip part_of(const strip *s, size_t plane, size_t row)
{
    strip part = *s;
    part.planes = 1;
    part.rows = s->rows - row < ROWS_MOST ? s->rows - row : ROWS_MOST;
    for (uint32_t o = 0; o <= s->inputs; o++)
        part.operand[o].at = row_of(s, o, row) + (int64_t)plane * s->operand[o].plane_stride;
    return part;
}

static bool same_in_all_planes(const strip *s)
{
    for (uint32_t o = 1; o <= s->inputs; o++)
        if (s->operand[o].repeats && s->operand[o].plane_stride != 0) return false;
    return true;
}

static void run_parts(const strip *s, part_function *run, value_fetcher *fetch)
{
    row_values y;
    bool once = same_in_all_planes(s);
    for (size_t row = 0; row < s->rows; row += ROWS_MOST) {
        for (size_t plane = 0; plane < s->planes; plane++) {
            strip part = part_of(s, plane, row);
            if (fetch && (plane == 0 || !once)) fetch(&part, &y);
            run(&part, &y);
        }
    }
}

// The shapes that have loops of their own. Operands of one format: all dense; the first input dense
// and the others one element a row; the same, but the last ones dense and equal for all rows (a
// bias; weight and bias). All inputs one element a row, in any formats (SPLAT). One dense input of
// another format than the result (MIXED). For all others ANY.
typedef enum {
    SHAPE_DENSE,
    SHAPE_ONE_DENSE,
    SHAPE_COLUMNS,
    SHAPE_UNIFORM_END,                      // SEN169_FP16 up to here, then the same in fp32
    SHAPE_SPLAT = 2 * SHAPE_UNIFORM_END,
    SHAPE_MIXED,
    SHAPE_ANY,
    SHAPES,
} shape;

// The first operand that is a column in SHAPE_COLUMNS.
#define FIRST_COLUMN(arity) ((arity) == 5 ? 4u : 2u)

static bool has_columns(const strip *s, uint32_t inputs)
{
    bool columns = s->inputs == inputs && (inputs == 5 || inputs == 2);
    for (uint32_t o = 2; o <= s->inputs; o++) {
        const strip_operand *operand = &s->operand[o];
        bool column = !operand->repeats && operand->row_stride == 0;
        columns = columns && (o < FIRST_COLUMN(inputs) ? operand->repeats : column);
    }
    return columns;
}

static shape shape_of(const strip *s, uint32_t inputs)
{
    uint32_t repeating = 0;
    bool uniform = s->count % STEP == 0;
    for (uint32_t o = 0; o <= s->inputs; o++) {
        uniform = uniform && s->operand[o].format == s->operand[0].format;
        if (o > 0 && s->operand[o].repeats) repeating++;
    }
    if (repeating == s->inputs) return SHAPE_SPLAT;
    if (!uniform && s->count % STEP == 0 && inputs == 1) return SHAPE_MIXED;
    if (!uniform || s->operand[1].repeats) return SHAPE_ANY;
    shape first = s->operand[0].format == STRIP_DL16 ? 0 : SHAPE_UNIFORM_END;
    if (s->rows > 1 && has_columns(s, inputs)) return first + SHAPE_COLUMNS;
    if (repeating == 0 && s->inputs == inputs) return first + SHAPE_DENSE;
    return repeating == s->inputs - 1 ? first + SHAPE_ONE_DENSE : SHAPE_ANY;
}

// --- Runs of any shape

// What a run reads of one input.
typedef struct {
    const uint8_t *at;
    strip_format format;
    bool repeats;
    pair value;                         // when it repeats
} source;

ALWAYS_INLINE pair fetch(const source *s, size_t n)
{
    return s->repeats ? s->value : load_mixed(s->at, s->format, n);
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
        V neutral = v_set(o == OPFUNC_MAX_INPUTS ? 0.0f : 1.0f);
        in.value = (pair){neutral, neutral};
        return in;
    }
    in.at = row_of(s, o, row);
    in.format = s->operand[o].format;
    in.repeats = s->operand[o].repeats;
    if (!in.repeats) return in;
    V value = v_set(load_one(in.at, in.format));
    in.value = (pair){value, value};
    return in;
}

// --- Opfuncs

// `formula` of a pair of each input, x0 to x4.
#define RESULT(formula, ends_dl16, no_nan)                                                     \
    (pair)                                                                                     \
    {                                                                                          \
        formula(x0.a, x1.a, x2.a, x3.a, x4.a, p, q, ends_dl16, no_nan),                        \
            formula(x0.b, x1.b, x2.b, x3.b, x4.b, p, q, ends_dl16, no_nan)                     \
    }
#define CONSTANTS const float p = s->constant[0], q = s->constant[1]

#define ANY_LOOPS(name, formula, arity)                                                        \
    ALWAYS_INLINE void name##_step(const strip *s, const source *in, uint8_t *to, size_t n)    \
    {                                                                                          \
        CONSTANTS;                                                                             \
        pair x0 = fetch(&in[0], n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;                        \
        if ((arity) > 1) x1 = fetch(&in[(arity) > 1], n);                                      \
        if ((arity) > 2) x2 = fetch(&in[(arity) > 2 ? 2 : 0], n);                              \
        if ((arity) > 3) x3 = fetch(&in[(arity) > 3 ? 3 : 0], n);                              \
        if ((arity) > 4) x4 = fetch(&in[(arity) > 4 ? 4 : 0], n);                              \
        strip_format format = s->operand[0].format;                                            \
        store_mixed(to, format, n, RESULT(formula, format == STRIP_DL16, false));              \
    }                                                                                          \
    static void name##_any(const strip *s, const row_values *y)                                \
    {                                                                                          \
        (void)y;                                                                               \
        for (size_t row = 0; row < s->rows; row++) {                                           \
            uint8_t *to = row_of(s, 0, row);                                                   \
            source in[arity];                                                                  \
            for (uint32_t o = 0; o < (arity); o++) in[o] = source_of(s, o + 1, row);           \
            size_t n = 0;                                                                      \
            for (; n + STEP <= s->count; n += STEP) name##_step(s, in, to, n);                 \
            if (n == s->count) continue;                                                       \
            size_t bytes = element_bytes(s->operand[0].format);                                \
            uint8_t rest[arity][STEP * 4] = {{0}}, result_rest[STEP * 4];                      \
            for (uint32_t o = 0; o < (arity); o++) begin_rest(&in[o], rest[o], n, s->count);   \
            name##_step(s, in, result_rest, 0);                                                \
            memcpy(to + n * bytes, result_rest, (s->count - n) * bytes);                       \
        }                                                                                      \
    }

#define MIXED_LOOPS(name, formula, arity)                                                      \
    ALWAYS_INLINE void name##_between(const strip *s, strip_format from, strip_format to)      \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const size_t rows = s->rows, count = s->count;                                         \
        mover out = move(s, 0), in = move(s, 1);                                               \
        for (size_t row = 0; row < rows; row++) {                                              \
            for (size_t n = 0; n < count; n += STEP) {                                         \
                pair x0 = load_mixed(in.at, from, n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;      \
                store_mixed(out.at, to, n,                                                     \
                            RESULT(formula, to == STRIP_DL16, from == STRIP_DL16));            \
            }                                                                                  \
            out.at += out.step, in.at += in.step;                                              \
        }                                                                                      \
    }                                                                                          \
    static void name##_mixed(const strip *s, const row_values *y)                              \
    {                                                                                          \
        if ((arity) > 1) name##_any(s, y);                                                     \
        else if (s->operand[0].format == STRIP_F32) name##_between(s, STRIP_DL16, STRIP_F32);  \
        else name##_between(s, STRIP_F32, STRIP_DL16);                                         \
    }

// One value a row, computed for many rows at a time.
#define SPLAT_LOOPS(name, formula, arity)                                                      \
    static void name##_splat(const strip *s, const row_values *y)                              \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool ends_dl16 = s->operand[0].format == STRIP_DL16;                             \
        float result[ROWS_MOST];                                                               \
        for (size_t row = 0; row < s->rows; row += STEP) {                                     \
            pair x0 = ROW_PAIR(1), x1 = x0, x2 = x0, x3 = x0, x4 = x0;                         \
            if ((arity) > 1) x1 = ROW_PAIR(2);                                                 \
            if ((arity) > 2) x2 = ROW_PAIR(3);                                                 \
            if ((arity) > 3) x3 = ROW_PAIR(4);                                                 \
            if ((arity) > 4) x4 = ROW_PAIR(5);                                                 \
            store_same((uint8_t *)result, STRIP_F32, row, RESULT(formula, ends_dl16, false));  \
        }                                                                                      \
        splat_rows(s, result);                                                                 \
    }
#define ROW_PAIR(o) load_same((const uint8_t *)y->of[o], STRIP_F32, row)

static void splat_rows(const strip *s, const float *values)
{
    strip_format format = s->operand[0].format;
    for (size_t row = 0; row < s->rows; row++) {
        V value = v_set(values[row]);
        const pair x = {value, value};
        uint8_t *to = row_of(s, 0, row), rest[STEP * 4];
        size_t n = 0, bytes = element_bytes(format);
        for (; n + STEP <= s->count; n += STEP) store_mixed(to, format, n, x);
        store_mixed(rest, format, 0, x);
        memcpy(to + n * bytes, rest, (s->count - n) * bytes);
    }
}

// Operands of one format. Columns are read once for all rows.
#define UNIFORM_LOOPS(name, formula, arity)                                                    \
    ALWAYS_INLINE void name##_dense(const strip *s, strip_format f)                            \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool dl16 = f == STRIP_DL16;                                                     \
        const size_t rows = s->rows, count = s->count;                                         \
        mover out = move(s, 0), in0 = move(s, 1), in1 = move(s, 2), in2 = move(s, 3),          \
              in3 = move(s, 4), in4 = move(s, 5);                                              \
        for (size_t row = 0; row < rows; row++) {                                              \
            for (size_t n = 0; n < count; n += STEP) {                                         \
                pair x0 = load_same(in0.at, f, n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;         \
                if ((arity) > 1) x1 = load_same(in1.at, f, n);                                 \
                if ((arity) > 2) x2 = load_same(in2.at, f, n);                                 \
                if ((arity) > 3) x3 = load_same(in3.at, f, n);                                 \
                if ((arity) > 4) x4 = load_same(in4.at, f, n);                                 \
                store_same(out.at, f, n, RESULT(formula, dl16, dl16));                         \
            }                                                                                  \
            out.at += out.step, in0.at += in0.step, in1.at += in1.step;                        \
            in2.at += in2.step, in3.at += in3.step, in4.at += in4.step;                        \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_one_dense_of(const strip *s, const row_values *y,                \
                                           strip_format f, size_t count)                       \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool dl16 = f == STRIP_DL16;                                                     \
        const size_t rows = s->rows;                                                           \
        mover out = move(s, 0), in = move(s, 1);                                               \
        for (size_t row = 0; row < rows; row++) {                                              \
            const pair x1 = EACH(2), x2 = (arity) > 2 ? EACH(3) : x1;                          \
            const pair x3 = (arity) > 3 ? EACH(4) : x1, x4 = (arity) > 4 ? EACH(5) : x1;       \
            for (size_t n = 0; n < count; n += STEP) {                                         \
                pair x0 = load_same(in.at, f, n);                                              \
                store_same(out.at, f, n, RESULT(formula, dl16, dl16));                         \
            }                                                                                  \
            out.at += out.step, in.at += in.step;                                              \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_one_dense(const strip *s, const row_values *y, strip_format f)   \
    {                                                                                          \
        if (s->count == STICK_LANES) name##_one_dense_of(s, y, f, STICK_LANES);                \
        else name##_one_dense_of(s, y, f, s->count);                                           \
    }                                                                                          \
    ALWAYS_INLINE void name##_columns(const strip *s, const row_values *y, strip_format f)     \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool dl16 = f == STRIP_DL16;                                                     \
        const size_t rows = s->rows, count = s->count;                                         \
        for (size_t n = 0; n < count; n += STEP) {                                             \
            const pair c0 = load_same(move(s, FIRST_COLUMN(arity)).at, f, n);                  \
            const pair c1 = load_same(move(s, arity).at, f, n);                                \
            mover out = move(s, 0), in = move(s, 1);                                           \
            for (size_t row = 0; row < rows; row++) {                                          \
                const pair x1 = (arity) > 2 ? EACH(2) : c0, x2 = (arity) > 2 ? EACH(3) : c0;   \
                const pair x3 = c0, x4 = c1;                                                   \
                pair x0 = load_same(in.at, f, n);                                              \
                store_same(out.at, f, n, RESULT(formula, dl16, dl16));                         \
                out.at += out.step, in.at += in.step;                                          \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    UNIFORM_PARTS(name, dl16, STRIP_DL16)                                                      \
    UNIFORM_PARTS(name, f32, STRIP_F32)
#define EACH(o) (pair){v_set(y->of[o][row]), v_set(y->of[o][row])}

#define UNIFORM_PARTS(name, suffix, format)                                                    \
    static void name##_dense_##suffix(const strip *s, const row_values *y)                     \
    {                                                                                          \
        (void)y;                                                                               \
        name##_dense(s, format);                                                               \
    }                                                                                          \
    static void name##_one_dense_##suffix(const strip *s, const row_values *y)                 \
    {                                                                                          \
        name##_one_dense(s, y, format);                                                        \
    }                                                                                          \
    static void name##_columns_##suffix(const strip *s, const row_values *y)                   \
    {                                                                                          \
        name##_columns(s, y, format);                                                          \
    }

// A function for any shape out of loops for each.
#define KERNEL(name, formula, arity)                                                           \
    ANY_LOOPS(name, formula, arity)                                                            \
    MIXED_LOOPS(name, formula, arity)                                                          \
    SPLAT_LOOPS(name, formula, arity)                                                          \
    UNIFORM_LOOPS(name, formula, arity)                                                        \
    static void name(const strip *s)                                                           \
    {                                                                                          \
        static part_function *const functions[SHAPES] = {                                      \
            [SHAPE_DENSE] = name##_dense_dl16,                                                 \
            [SHAPE_ONE_DENSE] = name##_one_dense_dl16,                                         \
            [SHAPE_COLUMNS] = name##_columns_dl16,                                             \
            [SHAPE_UNIFORM_END + SHAPE_DENSE] = name##_dense_f32,                              \
            [SHAPE_UNIFORM_END + SHAPE_ONE_DENSE] = name##_one_dense_f32,                      \
            [SHAPE_UNIFORM_END + SHAPE_COLUMNS] = name##_columns_f32,                          \
            [SHAPE_SPLAT] = name##_splat,                                                      \
            [SHAPE_MIXED] = name##_mixed,                                                      \
            [SHAPE_ANY] = name##_any,                                                          \
        };                                                                                     \
        run_parts(s, functions[shape_of(s, arity)], fetch_values);                             \
    }

// What needs fp64 takes its time anyway: no loops for particular shapes but one.
#define WIDE_KERNEL(name, formula, arity)                                                      \
    ANY_LOOPS(name, formula, arity)                                                            \
    SPLAT_LOOPS(name, formula, arity)                                                          \
    static void name(const strip *s)                                                           \
    {                                                                                          \
        bool splat = shape_of(s, arity) == SHAPE_SPLAT;                                        \
        run_parts(s, splat ? name##_splat : name##_any, fetch_values);                         \
    }

#define VALUE_F32(op, arity, expression)                                                       \
    static inline V value_f32_##op(V a, V b, V c, V d, V e, float p_, float q_,                \
                                   bool ends_dl16, bool no_nan)                                \
    {                                                                                          \
        const V p = v_set(p_), q = v_set(q_);                                                  \
        (void)b, (void)c, (void)d, (void)e, (void)p, (void)q, (void)ends_dl16, (void)no_nan;   \
        return (expression);                                                                   \
    }                                                                                          \
    KERNEL(f32_##op, value_f32_##op, arity)

#define VALUE_F64(op, arity, expression)                                                       \
    static inline D half_##op(D a, D b, D c, D d, D e, D p, D q, bool ends_dl16, bool no_nan)  \
    {                                                                                          \
        (void)b, (void)c, (void)d, (void)e, (void)p, (void)q, (void)ends_dl16, (void)no_nan;   \
        return (expression);                                                                   \
    }                                                                                          \
    static inline V value_f64_##op(V a, V b, V c, V d, V e, float p_, float q_,                \
                                   bool ends_dl16, bool no_nan)                                \
    {                                                                                          \
        const D p = d_set((double)p_), q = d_set((double)q_);                                  \
        D low = half_##op(v_low(a), v_low(b), v_low(c), v_low(d), v_low(e), p, q, ends_dl16,   \
                          no_nan);                                                             \
        D high = half_##op(v_high(a), v_high(b), v_high(c), v_high(d), v_high(e), p, q,        \
                           ends_dl16, no_nan);                                                 \
        return ends_dl16 ? v_join_cut(low, high) : v_join(low, high);                          \
    }                                                                                          \
    WIDE_KERNEL(f64_##op, value_f64_##op, arity)

COMMON_ROWS(VALUE_F32)
F32_ROWS(VALUE_F32)
COMMON_ROWS(VALUE_F64)
F64_ROWS(VALUE_F64)

// One divisor a row of SEN169_FP16 costs a multiplication an element. With 10-bit significands no
// quotient is a tie, nor nearer to one than 2^-21 of it: a tie has an odd significand of 11 bits,
// and its product with the divisor is a whole number that is not the dividend. Two roundings to
// fp32 are off by less than 2^-22.
static void f32_QUOTIENT(const strip *s)
{
    if (shape_of(s, 2) == SHAPE_ONE_DENSE) run_parts(s, f32_MUL_one_dense_dl16, fetch_inverses);
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

#include "card/strip_reduce.h"
#include "card/strip_multiply.h"
#include "card/walk_body.h"

#define F32_ENTRY(op, arity, expression) [OPFUNC_##op] = f32_##op,
#define F64_ENTRY(op, arity, expression) [OPFUNC_##op] = f64_##op,
#define STRIP_ENTRIES                                                                          \
    {                                                                                          \
        .f32 = {COMMON_ROWS(F32_ENTRY) F32_ROWS(F32_ENTRY)},                                   \
        .f64 = {COMMON_ROWS(F64_ENTRY) F64_ROWS(F64_ENTRY)},                                   \
        .quotient = f32_QUOTIENT, .lookup = look_up,                                           \
        .sum = reduce_sum, .max = reduce_max, .min = reduce_min, .square = reduce_square,      \
        .fold_sum = fold_sum, .fold_max = fold_max, .fold_min = fold_min,                      \
        .multiply = multiply, .few_rows = BLOCK_ROWS,                                          \
        .walk = walk_rows, .has_exp = HAS_EXP,                                                 \
    }
