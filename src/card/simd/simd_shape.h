// SPDX-License-Identifier: Apache-2.0
//
// What the operands of a vector loop look like: dense, one element a row, a line for all rows;
// strips cut into parts of one plane. Over the layer that card/simd/simd_body.h describes, whose
// part this is.

// --- Operands

static inline float load_one(const uint8_t *at, simd_format format)
{
    uint16_t code;
    float value;
    if (format == SIMD_F32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&code, at, sizeof code);
    return dl16_to_float(code);
}

ALWAYS_INLINE size_t element_bytes(simd_format format)
{
    return format == SIMD_DL16 ? 2 : 4;
}

static inline uint8_t *row_of(const simd_rows *s, uint32_t o, size_t row)
{
    return s->operand[o].at + (int64_t)row * s->operand[o].row_stride;
}

// From row to row of operand o; stands still where there is none.
typedef struct {
    uint8_t *at;
    int64_t step;
} mover;

ALWAYS_INLINE mover move(const simd_rows *s, uint32_t o)
{
    if (o > s->inputs) return (mover){s->operand[0].at, 0};
    return (mover){s->operand[o].at, s->operand[o].row_stride};
}

// Fp32 beside nothing but fp32 keeps the order of elements.
ALWAYS_INLINE pair load_same(const uint8_t *at, simd_format format, size_t n)
{
    if (format == SIMD_DL16) return pair_load_dl16(at + 2 * n);
    return (pair){v_load(at + 4 * n), v_load(at + 4 * (n + LANES))};
}

ALWAYS_INLINE void store_same(uint8_t *to, simd_format format, size_t n, pair x)
{
    if (format == SIMD_DL16) {
        pair_store_dl16(to + 2 * n, x);
    } else {
        v_store(to + 4 * n, x.a);
        v_store(to + 4 * (n + LANES), x.b);
    }
}

ALWAYS_INLINE pair load_mixed(const uint8_t *at, simd_format format, size_t n)
{
    return format == SIMD_DL16 ? pair_load_dl16(at + 2 * n) : pair_load_f32(at + 4 * n);
}

ALWAYS_INLINE void store_mixed(uint8_t *to, simd_format format, size_t n, pair x)
{
    if (format == SIMD_DL16) pair_store_dl16(to + 2 * n, x);
    else pair_store_f32(to + 4 * n, x);
}

// --- Inputs that have one element a row

enum { ROWS_MOST = 128 };
typedef struct {
    float of[1 + OPFUNC_MAX_INPUTS][ROWS_MOST];
} row_values;

ALWAYS_INLINE void fetch_rows(const simd_rows *s, uint32_t o, float *out, simd_format format)
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

static void fetch_operand(const simd_rows *s, uint32_t o, float *out)
{
    if (s->operand[o].format == SIMD_DL16) fetch_rows(s, o, out, SIMD_DL16);
    else fetch_rows(s, o, out, SIMD_F32);
}

// layernormnorm without weight and bias multiplies by 1 and adds 0.
static void fetch_values(const simd_rows *s, row_values *y)
{
    for (uint32_t o = 1; o <= s->inputs; o++)
        if (s->operand[o].repeats) fetch_operand(s, o, y->of[o]);
    for (uint32_t o = s->inputs + 1; s->inputs >= 3 && o <= OPFUNC_MAX_INPUTS; o++)
        for (size_t row = 0; row < ROWS_MOST; row++)
            y->of[o][row] = o == OPFUNC_MAX_INPUTS ? 0.0f : 1.0f;
}

// --- Parts: a plane of at most ROWS_MOST rows

typedef void part_function(const simd_rows *part, const row_values *y);

static simd_rows part_of(const simd_rows *s, size_t plane, size_t row)
{
    simd_rows part = *s;
    part.planes = 1;
    part.rows = s->rows - row < ROWS_MOST ? s->rows - row : ROWS_MOST;
    for (uint32_t o = 0; o <= s->inputs; o++)
        part.operand[o].at = row_of(s, o, row) + (int64_t)plane * s->operand[o].plane_stride;
    return part;
}

static bool same_in_all_planes(const simd_rows *s)
{
    for (uint32_t o = 1; o <= s->inputs; o++)
        if (s->operand[o].repeats && s->operand[o].plane_stride != 0) return false;
    return true;
}

static void run_parts(const simd_rows *s, part_function *run)
{
    row_values y;
    if (s->planes == 1 && s->rows <= ROWS_MOST) {
        fetch_values(s, &y);
        run(s, &y);
        return;
    }
    bool once = same_in_all_planes(s);
    for (size_t row = 0; row < s->rows; row += ROWS_MOST) {
        for (size_t plane = 0; plane < s->planes; plane++) {
            simd_rows part = part_of(s, plane, row);
            if (plane == 0 || !once) fetch_values(&part, &y);
            run(&part, &y);
        }
    }
}

// The shapes that have loops of their own. Operands of one format: all dense; the first input dense
// and the others one element a row; the same, but the last ones dense and equal for all rows (a
// bias; weight and bias). All inputs one element a row, in any formats (SPLAT). One dense input of
// another format than the result, or the first of two dense and the result fp32 (MIXED). The first
// input dense SEN169_FP16 like the result, the
// others equal for all rows, in any formats (LINES). For all others ANY. Layernormnorm, which does
// with a NaN what it does with any number, takes elements of a row in any format beside the others.
typedef enum {
    SHAPE_DENSE,
    SHAPE_ONE_DENSE,
    SHAPE_COLUMNS,
    SHAPE_UNIFORM_END,                      // SEN169_FP16 up to here, then the same in fp32
    SHAPE_SPLAT = 2 * SHAPE_UNIFORM_END,
    SHAPE_MIXED,
    SHAPE_LINES,
    SHAPE_ANY,
    SHAPES,
} shape;

// The first operand that is a column in SHAPE_COLUMNS.
#define FIRST_COLUMN(arity) ((arity) == 5 ? 4u : 2u)

static bool has_columns(const simd_rows *s, uint32_t inputs)
{
    bool columns = s->inputs == inputs && (inputs == 5 || inputs == 2);
    for (uint32_t o = 2; o <= s->inputs; o++) {
        const simd_operand *operand = &s->operand[o];
        bool column = !operand->repeats && operand->row_stride == 0;
        columns = columns && (o < FIRST_COLUMN(inputs) ? operand->repeats : column);
    }
    return columns;
}

static bool has_lines(const simd_rows *s, uint32_t inputs)
{
    bool lines = inputs == OPFUNC_MAX_INPUTS && s->count % STEP == 0 && !s->operand[1].repeats;
    for (uint32_t o = 0; o <= s->inputs; o++) {
        const simd_operand *operand = &s->operand[o];
        lines = lines && (o < 2 ? operand->format == SIMD_DL16 : operand->row_stride == 0);
    }
    return lines;
}

static bool mixes(const simd_rows *s, uint32_t inputs)
{
    return inputs == 1 || (inputs == 2 && s->inputs == 2 && s->operand[0].format == SIMD_F32 &&
                           !s->operand[1].repeats);
}

static shape shape_of(const simd_rows *s, uint32_t inputs)
{
    uint32_t repeating = 0;
    bool uniform = s->count % STEP == 0;
    for (uint32_t o = 0; o <= s->inputs; o++) {
        bool repeats = o > 0 && s->operand[o].repeats, any = repeats && inputs == OPFUNC_MAX_INPUTS;
        uniform = uniform && (any || s->operand[o].format == s->operand[0].format);
        if (repeats) repeating++;
    }
    if (repeating == s->inputs) return SHAPE_SPLAT;
    if (!uniform && s->count % STEP == 0 && mixes(s, inputs)) return SHAPE_MIXED;
    if (!uniform) return has_lines(s, inputs) ? SHAPE_LINES : SHAPE_ANY;
    if (s->operand[1].repeats) return SHAPE_ANY;
    shape first = s->operand[0].format == SIMD_DL16 ? 0 : SHAPE_UNIFORM_END;
    if (s->rows > 1 && has_columns(s, inputs)) return first + SHAPE_COLUMNS;
    if (repeating == 0 && s->inputs == inputs) return first + SHAPE_DENSE;
    if (repeating == s->inputs - 1) return first + SHAPE_ONE_DENSE;
    return has_lines(s, inputs) ? SHAPE_LINES : SHAPE_ANY;
}
