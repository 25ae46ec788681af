// SPDX-License-Identifier: Apache-2.0
//
// The loops of one opfunc for each shape of card/simd/simd_shape.h, as macros over its formula.
// Part of card/simd/simd_body.h.

// --- Runs of any shape

// What a run reads of one input.
typedef struct {
    const uint8_t *at;
    simd_format format;
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

static inline source source_of(const simd_rows *s, uint32_t o, size_t row)
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
#define EACH(o) (pair){v_set(y->of[o][row]), v_set(y->of[o][row])}
#define CONSTANTS const float p = s->constant[0], q = s->constant[1]

#define ANY_LOOPS(name, formula, arity)                                                        \
    ALWAYS_INLINE void name##_step(const simd_rows *s, const source *in, uint8_t *to, size_t n)    \
    {                                                                                          \
        CONSTANTS;                                                                             \
        pair x0 = fetch(&in[0], n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;                        \
        if ((arity) > 1) x1 = fetch(&in[(arity) > 1], n);                                      \
        if ((arity) > 2) x2 = fetch(&in[(arity) > 2 ? 2 : 0], n);                              \
        if ((arity) > 3) x3 = fetch(&in[(arity) > 3 ? 3 : 0], n);                              \
        if ((arity) > 4) x4 = fetch(&in[(arity) > 4 ? 4 : 0], n);                              \
        simd_format format = s->operand[0].format;                                            \
        store_mixed(to, format, n, RESULT(formula, format == SIMD_DL16, false));              \
    }                                                                                          \
    static void name##_any(const simd_rows *s, const row_values *y)                                \
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
    ALWAYS_INLINE void name##_between(const simd_rows *s, simd_format from, simd_format to)      \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const size_t rows = s->rows, count = s->count;                                         \
        mover out = move(s, 0), in = move(s, 1);                                               \
        for (size_t row = 0; row < rows; row++) {                                              \
            for (size_t n = 0; n < count; n += STEP) {                                         \
                pair x0 = load_mixed(in.at, from, n), x1 = x0, x2 = x0, x3 = x0, x4 = x0;      \
                store_mixed(out.at, to, n,                                                     \
                            RESULT(formula, to == SIMD_DL16, from == SIMD_DL16));            \
            }                                                                                  \
            out.at += out.step, in.at += in.step;                                              \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_widen(const simd_rows *s, const row_values *y, simd_format first,    \
                                    simd_format second, bool each)                             \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const size_t rows = s->rows, count = s->count;                                         \
        mover out = move(s, 0), in0 = move(s, 1), in1 = move(s, 2);                            \
        for (size_t row = 0; row < rows; row++) {                                              \
            const V value = v_set(each ? y->of[2][row] : 0.0f);                                \
            pair x1 = {value, value};                                                          \
            for (size_t n = 0; n < count; n += STEP) {                                         \
                pair x0 = load_mixed(in0.at, first, n), x2 = x0, x3 = x0, x4 = x0;             \
                if (!each) x1 = load_mixed(in1.at, second, n);                                 \
                store_mixed(out.at, SIMD_F32, n, RESULT(formula, false, false));               \
            }                                                                                  \
            out.at += out.step, in0.at += in0.step, in1.at += in1.step;                        \
        }                                                                                      \
    }                                                                                          \
    static void name##_mixed(const simd_rows *s, const row_values *y)                              \
    {                                                                                          \
        const simd_format first = s->operand[1].format, second = s->operand[2].format;         \
        if ((arity) > 2) name##_any(s, y);                                                     \
        else if ((arity) > 1 && s->operand[2].repeats && first == SIMD_DL16)                   \
            name##_widen(s, y, SIMD_DL16, SIMD_F32, true);                                     \
        else if ((arity) > 1 && s->operand[2].repeats)                                         \
            name##_widen(s, y, SIMD_F32, SIMD_F32, true);                                      \
        else if ((arity) > 1 && first == SIMD_F32)                                             \
            name##_widen(s, y, SIMD_F32, SIMD_DL16, false);                                    \
        else if ((arity) > 1 && second == SIMD_F32)                                            \
            name##_widen(s, y, SIMD_DL16, SIMD_F32, false);                                    \
        else if ((arity) > 1) name##_widen(s, y, SIMD_DL16, SIMD_DL16, false);                 \
        else if (s->operand[0].format == SIMD_F32) name##_between(s, SIMD_DL16, SIMD_F32);  \
        else name##_between(s, SIMD_F32, SIMD_DL16);                                         \
    }

// Lines are converted once for all rows.
#define LINES_LOOPS(name, formula, arity)                                                      \
    static void name##_lines(const simd_rows *s, const row_values *y)                              \
    {                                                                                          \
        CONSTANTS;                                                                             \
        source in[OPFUNC_MAX_INPUTS];                                                          \
        (void)y;                                                                               \
        for (uint32_t o = 1; o < (arity); o++) in[o] = source_of(s, o + 1, 0);                 \
        for (size_t n = 0; n < s->count && (arity) == OPFUNC_MAX_INPUTS; n += STEP) {          \
            const pair x1 = fetch(&in[1], n), x2 = fetch(&in[2], n);                           \
            const pair x3 = fetch(&in[3], n), x4 = fetch(&in[4], n);                           \
            mover out = move(s, 0), from = move(s, 1);                                         \
            for (size_t row = 0; row < s->rows; row++) {                                       \
                pair x0 = pair_load_dl16(from.at + 2 * n);                                     \
                pair_store_dl16(out.at + 2 * n, RESULT(formula, true, false));                 \
                out.at += out.step, from.at += from.step;                                      \
            }                                                                                  \
        }                                                                                      \
    }

// One value a row, computed for many rows at a time.
#define SPLAT_LOOPS(name, formula, arity)                                                      \
    static void name##_splat(const simd_rows *s, const row_values *y)                              \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool ends_dl16 = s->operand[0].format == SIMD_DL16;                             \
        float result[ROWS_MOST];                                                               \
        for (size_t row = 0; row < s->rows; row += STEP) {                                     \
            pair x0 = ROW_PAIR(1), x1 = x0, x2 = x0, x3 = x0, x4 = x0;                         \
            if ((arity) > 1) x1 = ROW_PAIR(2);                                                 \
            if ((arity) > 2) x2 = ROW_PAIR(3);                                                 \
            if ((arity) > 3) x3 = ROW_PAIR(4);                                                 \
            if ((arity) > 4) x4 = ROW_PAIR(5);                                                 \
            store_same((uint8_t *)result, SIMD_F32, row, RESULT(formula, ends_dl16, false));  \
        }                                                                                      \
        splat_rows(s, result);                                                                 \
    }
#define ROW_PAIR(o) load_same((const uint8_t *)y->of[o], SIMD_F32, row)

static void splat_rows(const simd_rows *s, const float *values)
{
    simd_format format = s->operand[0].format;
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
    ALWAYS_INLINE void name##_dense(const simd_rows *s, simd_format f)                            \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool dl16 = f == SIMD_DL16;                                                     \
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
    ALWAYS_INLINE void name##_one_dense_of(const simd_rows *s, const row_values *y,                \
                                           simd_format f, size_t count)                       \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool dl16 = f == SIMD_DL16;                                                     \
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
    ALWAYS_INLINE void name##_one_dense(const simd_rows *s, const row_values *y, simd_format f)   \
    {                                                                                          \
        if (s->count == STICK_LANES) name##_one_dense_of(s, y, f, STICK_LANES);                \
        else name##_one_dense_of(s, y, f, s->count);                                           \
    }                                                                                          \
    /* Of two steps at a time: a stick of SEN169_FP16 is one on every host but the portable one. */\
    ALWAYS_INLINE void name##_columns_at(const simd_rows *s, const row_values *y, simd_format f,\
                                         size_t at, size_t steps)                              \
    {                                                                                          \
        CONSTANTS;                                                                             \
        const bool dl16 = f == SIMD_DL16;                                                      \
        const size_t rows = s->rows, second = at + (steps - 1) * STEP;                         \
        const uint8_t *first_line = move(s, FIRST_COLUMN(arity)).at, *last = move(s, arity).at;\
        const pair c0 = load_same(first_line, f, at), c1 = load_same(last, f, at);             \
        const pair d0 = load_same(first_line, f, second), d1 = load_same(last, f, second);     \
        mover out = move(s, 0), in = move(s, 1);                                               \
        for (size_t row = 0; row < rows; row++) {                                              \
            const pair e1 = (arity) > 2 ? EACH(2) : c0, e2 = (arity) > 2 ? EACH(3) : c0;       \
            pair x0 = load_same(in.at, f, at), x1 = (arity) > 2 ? e1 : c0, x2 = e2;            \
            pair x3 = c0, x4 = c1;                                                             \
            store_same(out.at, f, at, RESULT(formula, dl16, dl16));                            \
            if (steps > 1) {                                                                   \
                x0 = load_same(in.at, f, second), x1 = (arity) > 2 ? e1 : d0;                  \
                x3 = d0, x4 = d1;                                                              \
                store_same(out.at, f, second, RESULT(formula, dl16, dl16));                    \
            }                                                                                  \
            out.at += out.step, in.at += in.step;                                              \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_columns(const simd_rows *s, const row_values *y, simd_format f)  \
    {                                                                                          \
        size_t n = 0;                                                                          \
        for (; n + 2 * STEP <= s->count; n += 2 * STEP) name##_columns_at(s, y, f, n, 2);      \
        if (n < s->count) name##_columns_at(s, y, f, n, 1);                                    \
    }                                                                                          \
    UNIFORM_PARTS(name, dl16, SIMD_DL16)                                                      \
    UNIFORM_PARTS(name, f32, SIMD_F32)
#define UNIFORM_PARTS(name, suffix, format)                                                    \
    static void name##_dense_##suffix(const simd_rows *s, const row_values *y)                     \
    {                                                                                          \
        (void)y;                                                                               \
        name##_dense(s, format);                                                               \
    }                                                                                          \
    static void name##_one_dense_##suffix(const simd_rows *s, const row_values *y)                 \
    {                                                                                          \
        name##_one_dense(s, y, format);                                                        \
    }                                                                                          \
    static void name##_columns_##suffix(const simd_rows *s, const row_values *y)                   \
    {                                                                                          \
        name##_columns(s, y, format);                                                          \
    }

// A function for any shape out of loops for each.
#define KERNEL(name, formula, arity)                                                           \
    ANY_LOOPS(name, formula, arity)                                                            \
    MIXED_LOOPS(name, formula, arity)                                                          \
    SPLAT_LOOPS(name, formula, arity)                                                          \
    LINES_LOOPS(name, formula, arity)                                                          \
    UNIFORM_LOOPS(name, formula, arity)                                                        \
    static void name(const simd_rows *s)                                                           \
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
            [SHAPE_LINES] = name##_lines,                                                      \
            [SHAPE_ANY] = name##_any,                                                          \
        };                                                                                     \
        run_parts(s, functions[shape_of(s, arity)]);                                           \
    }

// What needs fp64 takes its time anyway: no loops for particular shapes but one.
#define WIDE_KERNEL(name, formula, arity)                                                      \
    ANY_LOOPS(name, formula, arity)                                                            \
    SPLAT_LOOPS(name, formula, arity)                                                          \
    static void name(const simd_rows *s)                                                           \
    {                                                                                          \
        bool splat = shape_of(s, arity) == SHAPE_SPLAT;                                        \
        run_parts(s, splat ? name##_splat : name##_any);                                       \
    }
