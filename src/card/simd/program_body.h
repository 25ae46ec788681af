// SPDX-License-Identifier: Apache-2.0
//
// The loops of card/simd/vector_program.h, over the layer that card/simd/simd_body.h describes,
// whose part this is. A unit is a stick of one row: it stays in x while all steps pass by. Two rows
// at once would share the way to each step, but x and y then have no room in registers beside what
// a step needs.
#include "card/simd/vector_program.h"

enum { UNIT_PAIRS = STICK_LANES / STEP, HALF_PAIRS = UNIT_PAIRS / 2 };

typedef struct {
    size_t stick, row, sticks, rows;
    size_t stored;                      // pairs that leave the program
    size_t next;                        // the stick to fetch meanwhile,
    bool turns;                         // of the next block's rows
} unit;

typedef pair slot_pairs[UNIT_PAIRS];

#define EACH_PAIR(n) for (size_t n = 0; n < UNIT_PAIRS; n++)
#define EACH_STORED(n) for (size_t n = 0; n < u->stored; n++)
#define LANE_OF(n)   ((n) * STEP)

// Steps that are functions of their own take a copy of x, which would lie in memory otherwise.
typedef struct {
    pair of[UNIT_PAIRS];
} unit_pairs;

ALWAYS_INLINE unit_pairs copy_of(const pair *x)
{
    unit_pairs copy;
    EACH_PAIR(n) copy.of[n] = x[n];
    return copy;
}

ALWAYS_INLINE uint8_t *elements_of(const vector_step *s, const unit *u)
{
    return s->at + s->stick_at[u->stick] + s->row_at[u->row];
}

// Bytes to what the host's second cache fetches meanwhile.
ALWAYS_INLINE int64_t ahead_of(const vector_step *s, const unit *u)
{
    return s->stick_at[u->next] - s->stick_at[u->stick] + (u->turns ? s->ahead : 0);
}

ALWAYS_INLINE uint8_t *kept_of(const vector_step *s, const unit *u)
{
    return (uint8_t *)(s->values + (u->stick * u->rows + u->row) * STICK_LANES);
}

ALWAYS_INLINE void load_elements(pair *x, const vector_step *s, const unit *u)
{
    const uint8_t *at = elements_of(s, u);
    const int64_t ahead = ahead_of(s, u);
    __builtin_prefetch(at + ahead, 0, 2);
    __builtin_prefetch(at + ahead + 64, 0, 2);
    EACH_PAIR(n)
    x[n] = s->halves ? pair_load_f16(at + LANE_OF(n) * 2) : pair_load_dl16(at + LANE_OF(n) * 2);
}

// Runs of 32 elements in fp32.
ALWAYS_INLINE uint8_t *wide_of(const vector_step *s, const unit *u, size_t n)
{
    const size_t lane = LANE_OF(n);
    return elements_of(s, u) + (lane < 32 ? 0 : s->upper) + lane % 32 * 4;
}

ALWAYS_INLINE void load_wide(pair *x, const vector_step *s, const unit *u)
{
    const int64_t ahead = ahead_of(s, u);
    EACH_PAIR(n)
    {
        const uint8_t *at = wide_of(s, u, n);
        for (size_t line = 0; line < STEP * 4; line += 64) __builtin_prefetch(at + ahead + line);
        x[n] = pair_load_f32(at);
    }
}

ALWAYS_INLINE void store_wide(const pair *x, const vector_step *s, const unit *u)
{
    EACH_STORED(n) pair_store_f32(wide_of(s, u, n), x[n]);
}

ALWAYS_INLINE void store_elements(const pair *x, const vector_step *s, const unit *u)
{
    uint8_t *at = elements_of(s, u);
    const int64_t ahead = ahead_of(s, u);
    __builtin_prefetch(at + ahead, 1, 2);
    __builtin_prefetch(at + ahead + 64, 1, 2);
    EACH_STORED(n)
    if (s->halves) pair_store_f16(at + LANE_OF(n) * 2, x[n]);
    else pair_store_dl16(at + LANE_OF(n) * 2, x[n]);
}

ALWAYS_INLINE pair load_kept_pair(const vector_step *s, const unit *u, size_t n)
{
    return load_same(kept_of(s, u), SIMD_F32, LANE_OF(n));
}

ALWAYS_INLINE void load_kept(pair *x, const vector_step *s, const unit *u)
{
    EACH_PAIR(n) x[n] = load_kept_pair(s, u, n);
}

ALWAYS_INLINE void load_ready(pair *x, const vector_step *s, const unit *u)
{
    const uint8_t *at = elements_of(s, u);
    EACH_PAIR(n) x[n] = load_same(at, SIMD_F32, LANE_OF(n));
}

ALWAYS_INLINE void keep(const pair *x, const vector_step *s, const unit *u)
{
    uint8_t *at = kept_of(s, u);
    EACH_PAIR(n)
    store_same(at, SIMD_F32, LANE_OF(n), x[n]);
}

ALWAYS_INLINE void load_line(pair *y, const vector_step *s, const unit *u)
{
    const uint8_t *at = (const uint8_t *)(s->values + u->stick * STICK_LANES);
    EACH_PAIR(n)
    y[n] = load_same(at, SIMD_F32, LANE_OF(n));
}

ALWAYS_INLINE void repeat_rows(pair *y, const vector_step *s, const unit *u)
{
    const V value = v_set(s->values[u->row]);
    EACH_PAIR(n) y[n] = (pair){value, value};
}

static float element_at(const vector_step *s, const uint8_t *at)
{
    uint16_t code;
    float value;
    if (s->wide) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&code, at, sizeof code);
    return dl16_to_float(s->halves ? dl16_from_host_float(fp16_to_float(code)) : code);
}

ALWAYS_INLINE void spread(pair *y, const vector_step *s, const unit *u)
{
    const V value = v_set(element_at(s, elements_of(s, u)));
    EACH_PAIR(n) y[n] = (pair){value, value};
}

static void look_up_unit(pair *x, const uint16_t *table)
{
    uint8_t codes[UNIT_PAIRS * STEP * 2], found[UNIT_PAIRS * STEP * 2];
    EACH_PAIR(n)
    pair_store_dl16(codes + n * STEP * 2, x[n]);
    look_up(found, codes, table, UNIT_PAIRS * STEP);
    EACH_PAIR(n)
    x[n] = pair_load_dl16(found + n * STEP * 2);
}

static void store_found(const pair *x, const vector_step *s, const unit *u)
{
    uint8_t codes[UNIT_PAIRS * STEP * 2], *at = elements_of(s, u);
    EACH_PAIR(n)
    pair_store_dl16(codes + n * STEP * 2, x[n]);
    look_up(s->halves ? codes : at, codes, s->table, u->stored * STEP);
    for (size_t n = 0; s->halves && n < u->stored * STEP; n += STEP)
        pair_store_f16(at + n * 2, pair_load_dl16(codes + n * 2));
}

// --- Sums of rows: in the order of a pair's lanes while the program lasts

#define GATHER_ROWS(combine)                                                                  \
    EACH_PAIR(n)                                                                              \
    {                                                                                         \
        pair sum = load_same(at, SIMD_F32, LANE_OF(n));                                       \
        sum = (pair){combine(sum.a, x[n].a), combine(sum.b, x[n].b)};                         \
        store_same(at, SIMD_F32, LANE_OF(n), sum);                                            \
    }

// Of fp32 in sticks of 32: both halves of x join the row's, one after the other.
#define GATHER_HALVES(combine)                                                                \
    for (size_t n = 0; n < HALF_PAIRS; n++) {                                                 \
        pair sum = load_same(at, SIMD_F32, LANE_OF(n)), last = x[n + HALF_PAIRS];             \
        sum = (pair){combine(sum.a, x[n].a), combine(sum.b, x[n].b)};                         \
        sum = (pair){combine(sum.a, last.a), combine(sum.b, last.b)};                         \
        store_same(at, SIMD_F32, LANE_OF(n), sum);                                            \
    }

ALWAYS_INLINE void gather_sums(const pair *x, uint32_t op, const vector_step *s, const unit *u)
{
    uint8_t *at = (uint8_t *)(s->values + u->row * STICK_LANES);
    switch (op) {
    case VECTOR_SUM: GATHER_ROWS(ADD_UP) break;
    case VECTOR_SQUARES: GATHER_ROWS(ADD_EXACT_SQUARE) break;
    case VECTOR_MAX: GATHER_ROWS(v_max) break;
    case VECTOR_MIN: GATHER_ROWS(v_min) break;
    case VECTOR_PRODUCT: GATHER_ROWS(MULTIPLY) break;
    case VECTOR_WIDE_SUM: GATHER_HALVES(ADD_UP) break;
    case VECTOR_WIDE_SQUARES: GATHER_HALVES(ADD_SQUARE) break;
    case VECTOR_WIDE_MAX: GATHER_HALVES(LARGEST) break;
    case VECTOR_WIDE_MIN: GATHER_HALVES(SMALLEST) break;
    case VECTOR_WIDE_PRODUCT: GATHER_HALVES(MULTIPLY) break;
    default: break;
    }
}

// Of a stick of which some lanes are padding.
static void gather_rest(unit_pairs x, const vector_step *s, const unit *u)
{
    float numbers[STICK_LANES];
    const V neutral = v_set(vector_neutral(s->op)), rest = v_set((float)s->rest);
    for (size_t n = 0; n < STICK_LANES; n++) numbers[n] = (float)n;
    EACH_PAIR(n)
    {
        const pair lane = pair_load_f32((const uint8_t *)(numbers + LANE_OF(n)));
        x.of[n].a = v_pick(v_less(lane.a, rest), x.of[n].a, neutral);
        x.of[n].b = v_pick(v_less(lane.b, rest), x.of[n].b, neutral);
    }
    gather_sums(x.of, s->op, s, u);
}

static void begin_sums_of(const vector_step *s, size_t rows)
{
    const size_t lanes = vector_sums_wide(s->op) ? STICK_LANES / 2 : STICK_LANES;
    const V value = v_set(s->begin);
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < lanes; n += LANES)
            v_store((uint8_t *)(s->values + row * STICK_LANES + n), value);
}

static void begin_sums(const vector_program *w)
{
    for (const vector_step *s = w->steps; s < w->steps + w->count; s++)
        if (s->begins) begin_sums_of(s, w->rows);
}

#include "card/simd/fold_rows.h"

// --- Steps

#define FORMULA(combine)                                                                      \
    EACH_PAIR(n)                                                                              \
    x[n] = (pair){combine(x[n].a, y[n].a), combine(x[n].b, y[n].b)};
#define MINUS(a, b) ((a) - (b))
#define TIMES(a, b) ((a) * (b))

#define APPLY_AS(op, value, arity, dl16)                                                      \
    case op:                                                                                  \
        EACH_PAIR(n)                                                                          \
        {                                                                                     \
            const float p = s->constant[0], q = s->constant[1];                               \
            const pair x0 = (arity) == 3 ? first_of(held, s, u, n) : x[n], x3 = x0, x4 = x0;  \
            const pair x1 = (arity) == 3 ? x[n] : y[n], x2 = y[n];                            \
            x[n] = RESULT(value, dl16, dl16);                                                 \
        }                                                                                     \
        break;
// Values of SEN169_FP16 are no NaN.
#define APPLY(op, arity, worth, expression)                                                    \
    APPLY_AS(VECTOR_APPLY + OPFUNC_##op, value_f32_##op, arity, true)                         \
    APPLY_AS(VECTOR_APPLY_F32 + OPFUNC_##op, value_f32_##op, arity, false)

// NaN becomes infinity first, as in SEN169_FP16.
static inline V exp_of(V x)
{
    return v_exp_dl16(v_min(x, v_set(INFINITY)));
}

// The first of three inputs.
ALWAYS_INLINE pair first_of(slot_pairs *held, const vector_step *s, const unit *u, size_t n)
{
    return s->holds ? held[s->slot][n] : load_kept_pair(s, u, n);
}

static void apply_formula(pair *x, const pair *y, const vector_step *s)
{
    float first[STICK_LANES], second[STICK_LANES];
    EACH_PAIR(n)
    {
        store_same((uint8_t *)first, SIMD_F32, LANE_OF(n), x[n]);
        store_same((uint8_t *)second, SIMD_F32, LANE_OF(n), y[n]);
    }
    vector_formula(s, first, second);
    EACH_PAIR(n) x[n] = load_same((const uint8_t *)first, SIMD_F32, LANE_OF(n));
}

ALWAYS_INLINE void take_slot(pair *x, pair *y, slot_pairs *held, uint32_t op)
{
    const uint32_t slot = (op - VECTOR_HELD) / 4;
    EACH_PAIR(n)
    {
        if (op == VECTOR_HOLD_X(slot)) held[slot][n] = x[n];
        if (op == VECTOR_HOLD_Y(slot)) held[slot][n] = y[n];
        if (op == VECTOR_HELD_X(slot)) x[n] = held[slot][n];
        if (op == VECTOR_HELD_Y(slot)) y[n] = held[slot][n];
    }
}

ALWAYS_INLINE void take_step(pair *x, pair *y, slot_pairs *held, const vector_step *s,
                             const unit *u)
{
    const uint32_t op = s->op;
    switch (op) {
    case VECTOR_LOAD_X: load_elements(x, s, u); break;
    case VECTOR_WIDE_X: load_wide(x, s, u); break;
    case VECTOR_READY_X: load_ready(x, s, u); break;
    case VECTOR_KEPT_X: load_kept(x, s, u); break;
    case VECTOR_ROWS_X: repeat_rows(x, s, u); break;
    case VECTOR_SPREAD_X: spread(x, s, u); break;
    case VECTOR_SPREAD_Y: spread(y, s, u); break;
    case VECTOR_LOAD_Y: load_elements(y, s, u); break;
    case VECTOR_WIDE_Y: load_wide(y, s, u); break;
    case VECTOR_KEPT_Y: load_kept(y, s, u); break;
    case VECTOR_LINE_Y: load_line(y, s, u); break;
    case VECTOR_ROWS_Y: repeat_rows(y, s, u); break;
    case VECTOR_X_TO_Y: EACH_PAIR(n) y[n] = x[n]; break;
    case VECTOR_ZERO_Y: EACH_PAIR(n) y[n] = (pair){v_set(0.0f), v_set(0.0f)}; break;
    case VECTOR_SUB_F32: FORMULA(MINUS) break;
    case VECTOR_MUL_F32: FORMULA(TIMES) break;
    case VECTOR_ADD_F32: FORMULA(ADD_UP) break;
    case VECTOR_EXP: EACH_PAIR(n) x[n] = (pair){exp_of(x[n].a), exp_of(x[n].b)}; break;
    case VECTOR_LOOK_UP: {
        unit_pairs found = copy_of(x);
        look_up_unit(found.of, s->table);
        EACH_PAIR(n) x[n] = found.of[n];
        break;
    }
    case VECTOR_STORE: store_elements(x, s, u); break;
    case VECTOR_STORE_WIDE: store_wide(x, s, u); break;
    case VECTOR_STORE_LOOK_UP: {
        const unit_pairs codes = copy_of(x);
        store_found(codes.of, s, u);
        break;
    }
    case VECTOR_KEEP: keep(x, s, u); break;
    case VECTOR_KEEP_Y: keep(y, s, u); break;
    case VECTOR_SUM:
    case VECTOR_SQUARES:
    case VECTOR_MAX:
    case VECTOR_MIN:
    case VECTOR_PRODUCT:
    case VECTOR_WIDE_SUM:
    case VECTOR_WIDE_SQUARES:
    case VECTOR_WIDE_MAX:
    case VECTOR_WIDE_MIN:
    case VECTOR_WIDE_PRODUCT:
        if (s->rest && (s->rest_of_each || u->stick + 1 == u->sticks))
            gather_rest(copy_of(x), s, u);
        else gather_sums(x, op, s, u);
        break;
    COMMON_ROWS(APPLY)
    default:
        if (op >= VECTOR_HELD) {
            take_slot(x, y, held, op);
        } else if (vector_is_formula(op)) {
            unit_pairs result = copy_of(x);
            const unit_pairs other = copy_of(y);
            apply_formula(result.of, other.of, s);
            EACH_PAIR(n) x[n] = result.of[n];
            return;                                 // it has rounded
        }
        break;
    }
    if (s->rounding == VECTOR_SIGNIFICAND)
        EACH_PAIR(n) x[n] = (pair){v_round_bits(x[n].a), v_round_bits(x[n].b)};
    else if (s->rounding == VECTOR_ROUND)
        round_pairs(x, UNIT_PAIRS);
}

// --- Whether values are plain

static bool are_plain(const float *values, size_t count)
{
    const float least = ldexpf(1.0f, VECTOR_PLAIN_LEAST), most = ldexpf(1.0f, VECTOR_PLAIN_MOST);
    V small = v_set(0.0f), large = small;
    for (size_t n = 0; n < count; n += LANES) {
        const V size = v_magnitude(v_load((const uint8_t *)(values + n)));
        small = v_max(small, v_pick(v_less(size, v_set(least)), size, v_set(0.0f)));
        large = v_max(large, size);
    }
    float all[2][LANES];
    v_store((uint8_t *)all[0], small);
    v_store((uint8_t *)all[1], large);
    for (size_t n = 0; n < LANES; n++)
        if (all[0][n] > 0.0f || all[1][n] > most) return false;
    return true;
}

// --- Units

static size_t sticks_ahead(const vector_program *w)
{
    const size_t ahead = (VECTOR_UNITS_AHEAD + w->rows - 1) / w->rows;
    return ahead < w->sticks ? ahead : w->sticks;
}

// Op by op.
static void take_units(const vector_program *w, size_t ahead)
{
    for (size_t stick = 0; stick < w->sticks; stick++) {
        const bool turns = stick + ahead >= w->sticks;
        const size_t next = stick + ahead - (turns ? w->sticks : 0);
        for (size_t row = 0; row < w->rows; row++) {
            const unit u = {.stick = stick, .row = row, .sticks = w->sticks, .rows = w->rows,
                            .stored = w->half ? HALF_PAIRS : UNIT_PAIRS,
                            .turns = turns, .next = next};
            pair x[UNIT_PAIRS], y[UNIT_PAIRS];
            slot_pairs held[VECTOR_SLOTS];
            EACH_PAIR(n)
            x[n] = y[n] = (pair){v_set(0.0f), v_set(0.0f)};
            for (const vector_step *s = w->steps; s < w->steps + w->count; s++)
                take_step(x, y, held, s, &u);
        }
    }
}

static void run_program(const vector_program *w, vector_loop *loop)
{
    if (!loop || !vector_goes_by_rows(w)) begin_sums(w);
    (loop ? loop : take_units)(w, sticks_ahead(w));
    for (uint32_t n = 0; n < w->count; n++)
        if (vector_sums(w->steps[n].op)) end_sums(&w->steps[n], w->rows);
}
