// SPDX-License-Identifier: Apache-2.0
//
// Random vector programs as machine code and op by op: the same bytes in memory. Ops stand in any
// order, over codes, halves and fp32 of every kind, with sums of whole and of partial rows; or are
// sums and products alone, whose ranges are known, of the least and largest plain elements as well.
#include "support/rounds.h"
#include "unit/check.h"

#include "card/codegen/vector_code.h"
#include "card/simd/simd.h"
#include "tensor/numeric.h"

enum {
    LANES = 64, ROWS = 11, STICKS = 3, UNITS = ROWS * STICKS, ELEMENTS = UNITS * LANES,
    MOST_STEPS = 40, KEPT = 3, PLAIN = KEPT - 1, SUMS = 3, AREAS = 4, SLOTS = 6,
    RANGES = 4,
};

// All that a program reads and writes.
typedef struct {
    uint16_t codes[AREAS][ELEMENTS];
    float wide[AREAS][ELEMENTS], kept[KEPT][ELEMENTS], sums[SUMS][ROWS * LANES];
    float rows[ROWS], code_rows[ROWS], ranged[RANGES][ROWS], line[STICKS * LANES];
    int64_t row_at[ROWS], stick_at[STICKS], wide_row_at[ROWS], wide_stick_at[STICKS];
} memory;

static _Alignas(64) memory by_op, by_code;

static float any_float(uint64_t *seed)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                       0xFFC01234, 0x7F800001, 1,          0x807FFFFF, 0x4F7FFFFF,
                                       0x30000000, 0x30001FFF, 0x4F7FA000, 0x477FF000};
    const uint64_t bits = check_random(seed) >> 16;
    uint32_t word = (uint32_t)bits;
    if (bits >> 40 < 16) word = special[bits % 14];
    else word = (word & 0x80FFFFFF) | (0x3E000000 + (uint32_t)(bits >> 36 & 3) * 0x800000);
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint32_t below(uint64_t *seed, uint32_t count)
{
    return (uint32_t)(check_random(seed) >> 33) % count;
}

// Of SEN169_FP16, with a size of at least 2^least and below 2^(least + powers), often one of both.
static uint16_t code_between(uint64_t *seed, int32_t least, int32_t powers)
{
    const uint32_t first = (uint32_t)(least + 31) << 9, last = first + ((uint32_t)powers << 9) - 1;
    const uint32_t how = below(seed, 8), sign = below(seed, 2) << 15;
    if (how < 2) return (uint16_t)((how ? last : first) | sign);
    return (uint16_t)((first + below(seed, last - first + 1)) | sign);
}

static int32_t least_of(uint32_t range)
{
    return (int32_t)range * 4 - 12;
}

// One element of `plain` is of any size, or all are of those that are plain when it is 0; the last
// kept values are plain.
static void fill(memory *m, uint32_t plain, uint64_t *seed)
{
    for (size_t area = 0; area < AREAS; area++) {
        for (size_t n = 0; n < ELEMENTS; n++) {
            const uint64_t bits = check_random(seed) >> 20;
            uint16_t *code = &m->codes[area][n];
            const bool is_plain = !plain || bits % plain;
            *code = (uint16_t)(!is_plain ? bits >> 8
                               : plain   ? 0x3800 + (bits >> 8) % 0x0C00
                                         : 0x2000 + (bits >> 8) % 0x3E01);
            if (is_plain && (bits >> 24 & 15) == 0) *code = 0;
            if (bits & 1 << 7) *code |= 0x8000;
            m->wide[area][n] = any_float(seed);
        }
    }
    for (size_t area = 0; area < KEPT; area++)
        for (size_t n = 0; n < ELEMENTS; n++) {
            const uint16_t code = (uint16_t)(0x2000 + below(seed, 0x3E01)) |
                                  (uint16_t)(below(seed, 2) << 15);
            m->kept[area][n] = area == PLAIN ? dl16_to_float(code) : any_float(seed);
        }
    for (size_t area = 0; area < SUMS; area++)
        for (size_t n = 0; n < ROWS * LANES; n++) m->sums[area][n] = 1.0f;
    for (size_t n = 0; n < STICKS * LANES; n++) m->line[n] = any_float(seed);
    for (size_t n = 0; n < ROWS; n++) {
        m->rows[n] = any_float(seed);
        m->code_rows[n] = dl16_to_float((uint16_t)below(seed, 1 << 16));
        for (uint32_t range = 0; range < RANGES; range++)
            m->ranged[range][n] = dl16_to_float(code_between(seed, least_of(range), 4));
        m->row_at[n] = (int64_t)n * LANES * 2;
        m->wide_row_at[n] = (int64_t)n * LANES * 4;
    }
    for (size_t n = 0; n < STICKS; n++) {
        m->stick_at[n] = (int64_t)n * ROWS * LANES * 2;
        m->wide_stick_at[n] = (int64_t)n * ROWS * LANES * 4;
    }
}

static uint32_t any_opfunc(uint64_t *seed, uint32_t inputs)
{
    opfunc op;
    do op = (opfunc)below(seed, OPFUNC_COUNT);
    while (!vector_applies(op, inputs));
    return (uint32_t)op;
}

static uint32_t any_formula(uint64_t *seed)
{
    opfunc op;
    do op = (opfunc)below(seed, OPFUNC_COUNT);
    while (!vector_has_formula(op, 1) && !vector_has_formula(op, 2));
    return (uint32_t)op;
}

static const float constants[2] = {-0.75f, 2.5f};

// Holds x or y, or takes what an earlier step has held.
static uint32_t any_slot_op(uint64_t *seed, uint32_t held)
{
    const uint32_t slot = below(seed, SLOTS);
    if (!(held >> slot & 1) || below(seed, 3) == 0)
        return below(seed, 2) ? VECTOR_HOLD_X(slot) : VECTOR_HOLD_Y(slot);
    return below(seed, 2) ? VECTOR_HELD_X(slot) : VECTOR_HELD_Y(slot);
}

// Of values of SEN169_FP16 in x and y, so that every op may stand behind every other; areas 0 and 1
// are read, 2 and 3 written.
static vector_step any_step(uint64_t *seed, memory *m, uint32_t held)
{
    static const uint32_t plain[] = {VECTOR_X_TO_Y, VECTOR_ZERO_Y, VECTOR_EXP, VECTOR_LOOK_UP};
    static const uint32_t moves[] = {VECTOR_LOAD_X, VECTOR_LOAD_Y, VECTOR_STORE, VECTOR_SPREAD_X,
                                     VECTOR_SPREAD_Y, VECTOR_STORE_LOOK_UP};
    static const uint32_t wide[] = {VECTOR_WIDE_X, VECTOR_WIDE_Y, VECTOR_STORE_WIDE};
    static const uint32_t values[] = {VECTOR_KEPT_X, VECTOR_KEPT_Y, VECTOR_KEEP, VECTOR_KEEP_Y};
    vector_step s = {.constant = constants, .rounding = VECTOR_ROUND};
    s.table = opfunc_dl16_table(OPFUNC_GELUFWD);
    switch (below(seed, 15)) {
    case 0: s.op = plain[below(seed, 4)]; break;
    case 1:
    case 12:
    case 13: s.op = any_slot_op(seed, held); break;
    case 2:
        s.op = moves[below(seed, 6)];
        s.halves = below(seed, 4) == 0;
        break;
    case 3: s.op = wide[below(seed, 3)]; break;
    case 4: s.op = values[below(seed, 4)]; break;
    case 5: s.op = VECTOR_SUM + below(seed, VECTOR_WIDE_PRODUCT + 1 - VECTOR_SUM); break;
    case 6: s.op = below(seed, 2) ? VECTOR_ROWS_Y : VECTOR_LINE_Y; break;
    case 7: s.op = VECTOR_SUB_F32 + below(seed, 3); break;
    case 8: s.op = VECTOR_APPLY + any_opfunc(seed, 1); break;
    case 9: s.op = VECTOR_APPLY_F32 + any_opfunc(seed, 1); break;
    case 10:
        s.op = (below(seed, 2) ? VECTOR_APPLY : VECTOR_APPLY_F32) + OPFUNC_WHERE3;
        s.slot = below(seed, SLOTS);
        s.holds = held >> s.slot & 1;
        break;
    case 14: s.op = VECTOR_FORMULA + any_formula(seed); break;
    default:
        s.op = (below(seed, 2) ? VECTOR_APPLY : VECTOR_APPLY_F32) + any_opfunc(seed, 2);
        break;
    }
    const bool stores = s.op >= VECTOR_STORE && s.op <= VECTOR_STORE_LOOK_UP;
    const bool stores_kept = s.op == VECTOR_KEEP || s.op == VECTOR_KEEP_Y;
    const uint32_t area = (stores ? 2 : 0) + below(seed, 2);
    s.wide = (s.op == VECTOR_SPREAD_X || s.op == VECTOR_SPREAD_Y) && !s.halves && below(seed, 2);
    if (s.wide || s.op == VECTOR_WIDE_X || s.op == VECTOR_WIDE_Y || s.op == VECTOR_STORE_WIDE) {
        s.at = (uint8_t *)m->wide[area];
        s.row_at = m->wide_row_at;
        s.stick_at = m->wide_stick_at;
        s.upper = 128;
    } else {
        s.at = (uint8_t *)m->codes[area];
        s.row_at = m->row_at;
        s.stick_at = m->stick_at;
    }
    const bool may_stream = s.op == VECTOR_STORE || s.op == VECTOR_LOAD_X || s.op == VECTOR_WIDE_X;
    s.streams = may_stream && below(seed, 4) == 0;
    s.values = s.op == VECTOR_ROWS_Y   ? m->rows
               : s.op == VECTOR_LINE_Y ? m->line
                                       : m->kept[below(seed, stores_kept ? PLAIN : KEPT)];
    s.plain = s.values == m->kept[PLAIN] && (s.op == VECTOR_KEPT_X || s.op == VECTOR_KEPT_Y) &&
              below(seed, 2);
    return s;
}

// A sum of NaN with other NaN has the payload of either: only sums of numbers are compared.
static vector_step bound_of(void)
{
    static const float bounds[2] = {-1000.0f, 1000.0f};
    return (vector_step){.op = VECTOR_APPLY + OPFUNC_CLIP, .constant = bounds,
                         .rounding = VECTOR_ROUND};
}

// A program with the step does not go by two units in turns.
static bool stays_alone(uint32_t op)
{
    return vector_sums(op) || vector_is_formula(op) || op == VECTOR_LOOK_UP ||
           op == VECTOR_STORE_LOOK_UP;
}

// Where codes are enough for all steps, all values are of SEN169_FP16.
static void use_codes_alone(memory *m, vector_step *steps, uint32_t count)
{
    const vector_program w = {.steps = steps, .count = count};
    if (!vector_is_narrow(&w)) return;
    for (uint32_t n = 0; n < count; n++)
        if (steps[n].values == m->rows) steps[n].values = m->code_rows;
}

static uint32_t any_program(uint64_t *seed, memory *m, vector_step *steps)
{
    const uint32_t count = 1 + below(seed, MOST_STEPS - 4);
    uint32_t made = 0, sums = 0;
    uint32_t held = 0;
    const bool in_pairs = below(seed, 2);
    while (made < count) {
        vector_step s = any_step(seed, m, held);
        if (in_pairs && stays_alone(s.op)) continue;
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            if (s.op == VECTOR_HOLD_X(slot) || s.op == VECTOR_HOLD_Y(slot)) held |= 1u << slot;
        if (vector_sums(s.op)) {
            if (sums == SUMS) continue;
            s.values = m->sums[sums++];
            steps[made++] = bound_of();
            s.begins = below(seed, 2);
            s.begin = 0.5f;
            s.folds = below(seed, 2);
            s.rest = below(seed, 2) ? below(seed, LANES) : 0;
            s.rest_of_each = below(seed, 2);
            s.rounding = VECTOR_AS_IS;
        } else if (s.op < VECTOR_APPLY && below(seed, 2)) {
            s.rounding = VECTOR_AS_IS;
        }
        steps[made++] = s;
    }
    use_codes_alone(m, steps, made);
    return made;
}

// Loads and sums alone, of the first lanes of each stick.
static uint32_t sums_alone(uint64_t *seed, memory *m, vector_step *steps)
{
    const uint32_t sums = 1 + below(seed, SUMS);
    uint32_t made = 0;
    for (uint32_t n = 0; n < sums; n++) {
        const vector_step load = {.op = VECTOR_LOAD_X, .at = (uint8_t *)m->codes[below(seed, 2)],
                                  .row_at = m->row_at, .stick_at = m->stick_at,
                                  .halves = below(seed, 4) == 0};
        const vector_step sum = {.op = VECTOR_SUM + below(seed, 8) / 5, .values = m->sums[n],
                                 .begins = below(seed, 2), .begin = 0.5f,
                                 .folds = below(seed, 2), .rest_of_each = below(seed, 8) > 0,
                                 .rest = below(seed, 8) ? 1 + below(seed, LANES / 2) : 40};
        steps[made++] = load;
        steps[made++] = sum;
    }
    return made;
}

static vector_step any_ranged(uint64_t *seed, memory *m)
{
    const uint32_t range = below(seed, RANGES);
    return (vector_step){.op = below(seed, 8) ? VECTOR_ROWS_Y : VECTOR_ROWS_X, .ranged = true,
                         .least = (int8_t)least_of(range), .most = (int8_t)(least_of(range) + 4),
                         .values = m->ranged[range]};
}

static vector_step any_load(uint64_t *seed, memory *m, uint32_t op)
{
    return (vector_step){.op = op, .at = (uint8_t *)m->codes[below(seed, 2)],
                         .row_at = m->row_at, .stick_at = m->stick_at,
                         .halves = below(seed, 8) == 0};
}

static vector_step any_wide(uint64_t *seed, memory *m)
{
    return (vector_step){.op = VECTOR_WIDE_Y, .at = (uint8_t *)m->wide[below(seed, 2)],
                         .row_at = m->wide_row_at, .stick_at = m->wide_stick_at, .upper = 128};
}

// All bits of x: a store would round it again.
static vector_step kept(memory *m, uint32_t area)
{
    return (vector_step){.op = VECTOR_KEEP, .values = m->kept[area]};
}

// What sums and products make of elements, some of fp32.
static uint32_t chain(uint64_t *seed, memory *m, vector_step *steps)
{
    static const opfunc ops[] = {OPFUNC_MUL, OPFUNC_MUL, OPFUNC_MUL, OPFUNC_ADD, OPFUNC_SUB,
                                 OPFUNC_MAXIMUM};
    const uint32_t count = 1 + below(seed, 14);
    uint32_t made = 0, held = 0;
    steps[made++] = any_load(seed, m, VECTOR_LOAD_X);
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t slot = below(seed, 2), how = below(seed, 8);
        if (how < 3) steps[made++] = any_ranged(seed, m);
        else if (how < 6) steps[made++] = any_load(seed, m, VECTOR_LOAD_Y);
        else if (how == 6 && below(seed, 4) == 0) steps[made++] = any_wide(seed, m);
        else if (held >> slot & 1) steps[made++] = (vector_step){.op = VECTOR_HELD_Y(slot)};
        else steps[made++] = (vector_step){.op = VECTOR_X_TO_Y};
        const uint32_t op = below(seed, 10) ? VECTOR_APPLY + ops[below(seed, 6)]
                                            : VECTOR_FORMULA + OPFUNC_FLOORDIV;
        steps[made++] = (vector_step){.op = op, .rounding = VECTOR_ROUND};
        if (below(seed, 3) == 0) {
            steps[made++] = (vector_step){.op = VECTOR_HOLD_X(slot)};
            held |= 1u << slot;
        }
        if (below(seed, 3) == 0) steps[made++] = kept(m, 1);
        if (below(seed, 8) == 0)
            steps[made++] = (vector_step){.op = VECTOR_APPLY + (below(seed, 2) ? OPFUNC_ABS
                                                                               : OPFUNC_RELUFWD)};
    }
    steps[made++] = kept(m, 0);
    return made;
}

// What stands between a condition and its choice, or behind that.
static uint32_t something(uint64_t *seed, memory *m, vector_step *steps)
{
    uint32_t made = 0;
    if (below(seed, 2)) return made;
    steps[made++] = any_load(seed, m, VECTOR_LOAD_Y);
    steps[made++] = (vector_step){.op = below(seed, 8) ? VECTOR_APPLY + OPFUNC_MUL
                                                       : VECTOR_FORMULA + OPFUNC_FLOORDIV,
                                  .rounding = below(seed, 2) ? VECTOR_ROUND : VECTOR_AS_IS};
    return made;
}

// Comparisons whose results choose, once or twice, and sometimes are values as well.
static uint32_t choices(uint64_t *seed, memory *m, vector_step *steps)
{
    const uint32_t count = 1 + below(seed, 4);
    uint32_t made = 0;
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t apply = below(seed, 4) ? VECTOR_APPLY : VECTOR_APPLY_F32;
        const uint32_t slot = below(seed, 2);
        steps[made++] = any_load(seed, m, VECTOR_LOAD_X);
        steps[made++] = below(seed, 4) ? any_load(seed, m, VECTOR_LOAD_Y) : any_wide(seed, m);
        steps[made++] = (vector_step){.op = apply + OPFUNC_EQUAL + below(seed, 6)};
        steps[made++] = (vector_step){.op = VECTOR_HOLD_X(slot)};
        if (below(seed, 8) == 0) steps[made++] = kept(m, 1);
        steps[made++] = any_load(seed, m, VECTOR_LOAD_X);
        made += something(seed, m, steps + made);
        for (uint32_t choice = 0; choice <= below(seed, 2); choice++) {
            const uint32_t by = below(seed, 8) || n == 0 ? slot : 1 - slot;
            steps[made++] = any_load(seed, m, VECTOR_LOAD_Y);
            steps[made++] = (vector_step){.op = apply + OPFUNC_WHERE3,
                                          .holds = n == 0 || by == slot, .slot = by,
                                          .values = m->kept[0]};
        }
        if (below(seed, 8) == 0) steps[made++] = (vector_step){.op = VECTOR_HELD_X(slot)};
        made += something(seed, m, steps + made);
        steps[made++] = kept(m, n % 2);
    }
    return made;
}

// All but one of `rare` are plain.
static void fill_chain(uint64_t *seed, memory *m, uint32_t rare)
{
    const int32_t powers = below(seed, 2) ? 19 : 31;
    for (size_t area = 0; area < 2; area++)
        for (size_t n = 0; n < ELEMENTS; n++)
            m->codes[area][n] = rare && !below(seed, rare) ? (uint16_t)below(seed, 1 << 16)
                                : below(seed, 32) ? code_between(seed, -15, powers)
                                                  : 0;
    for (size_t range = 0; range < RANGES; range++)
        for (size_t n = 0; n < ROWS; n++)
            m->ranged[range][n] = dl16_to_float(code_between(seed, least_of((uint32_t)range), 4));
}

static void move_to(memory *from, memory *to, vector_step *steps, uint32_t count)
{
    const ptrdiff_t bytes = (char *)to - (char *)from;
    for (uint32_t n = 0; n < count; n++) {
        if (steps[n].at) steps[n].at += bytes;
        if (!steps[n].values) continue;
        steps[n].values = (float *)(void *)((char *)steps[n].values + bytes);
    }
}

#if defined(__x86_64__)
static const uint32_t rare[] = {16, 256, 4096, 0};

// Of sums the lanes that are no elements are no rest.
static void sum_half(vector_step *steps, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        if (!vector_sums(steps[n].op)) continue;
        steps[n].rest = 1 + steps[n].rest % (LANES / 2);
        steps[n].rest_of_each = true;
    }
}

// What is kept of lanes that are no elements is nothing.
static void forget_upper_lanes(void)
{
    for (size_t n = 0; n < ELEMENTS; n++)
        for (size_t area = 0; area < KEPT && n % LANES >= LANES / 2; area++)
            by_op.kept[area][n] = by_code.kept[area][n] = 0;
}

// by_op, to which the steps belong, by op, and the same by code.
static void compare(const vector_program *w, vector_step *steps, uint32_t round)
{
    by_code = by_op;
    simd_avx512.run_program(w, NULL);
    move_to(&by_op, &by_code, steps, w->count);
    vector_loop *loop = vector_code_of(w);
    assert_non_null(loop);
    simd_avx512.run_program(w, loop);
    move_to(&by_code, &by_op, steps, w->count);
    if (w->half) forget_upper_lanes();
    for (size_t n = 0; n < sizeof(memory); n++) {
        if (((uint8_t *)&by_op)[n] == ((uint8_t *)&by_code)[n]) continue;
        for (uint32_t s = 0; s < w->count; s++)
            print_error("step %u: op %u (opfunc %d) rounding %d%s%s rest %u\n", s, steps[s].op,
                        steps[s].op >= VECTOR_APPLY
                            ? (int)((steps[s].op - VECTOR_APPLY) % OPFUNC_COUNT)
                            : -1,
                        steps[s].rounding, steps[s].halves ? " halves" : "",
                        steps[s].holds ? " holds" : "", steps[s].rest);
        fail_msg("round %u: byte %zu of %zu differs", round, n, sizeof(memory));
    }
}

// The table of programs has room for so many.
static uint32_t rounds_of(uint32_t standard)
{
    const uint32_t asked = test_rounds(standard);
    return asked < CODE_MOST_PROGRAMS / 2 ? asked : CODE_MOST_PROGRAMS / 2;
}
#endif

static void vector_code__does_what_its_ops_do(void **state)
{
    (void)state;
#if defined(__x86_64__)
    uint64_t seed = 5;
    if (simd_in_use() != &simd_avx512) skip();
    const uint32_t rounds = rounds_of(1500);
    for (uint32_t round = 0; round < rounds; round++) {
        vector_step steps[2 * MOST_STEPS];
        fill(&by_op, rare[round % 4], &seed);
        const uint32_t count = round % 8 == 3 ? sums_alone(&seed, &by_op, steps)
                                              : any_program(&seed, &by_op, steps);
        const vector_program w = {.steps = steps, .count = count, .rows = 1 + below(&seed, ROWS),
                                  .sticks = 1 + below(&seed, STICKS), .half = round % 4 == 1};
        if (w.half) sum_half(steps, count);
        compare(&w, steps, round);
    }
#else
    skip();
#endif
}

static void vector_code__looks_at_values_that_may_leave_the_format(void **state)
{
    (void)state;
#if defined(__x86_64__)
    uint64_t seed = 7;
    if (simd_in_use() != &simd_avx512) skip();
    const uint32_t rounds = rounds_of(1500);
    fill(&by_op, 0, &seed);
    for (uint32_t round = 0; round < rounds; round++) {
        vector_step steps[2 * MOST_STEPS];
        const uint32_t count = chain(&seed, &by_op, steps);
        const vector_program w = {.steps = steps, .count = count, .rows = ROWS, .sticks = STICKS,
                                  .half = round % 4 == 1};
        for (uint32_t n = 0; n < 4; n++) {
            fill_chain(&seed, &by_op, rare[n]);
            compare(&w, steps, round);
        }
    }
#else
    skip();
#endif
}

static void vector_code__chooses_by_conditions(void **state)
{
    (void)state;
#if defined(__x86_64__)
    uint64_t seed = 11;
    if (simd_in_use() != &simd_avx512) skip();
    const uint32_t rounds = rounds_of(1000);
    for (uint32_t round = 0; round < rounds; round++) {
        vector_step steps[2 * MOST_STEPS];
        fill(&by_op, rare[round % 4], &seed);
        const uint32_t count = choices(&seed, &by_op, steps);
        const vector_program w = {.steps = steps, .count = count, .rows = ROWS, .sticks = STICKS,
                                  .half = round % 4 == 1};
        compare(&w, steps, round);
    }
#else
    skip();
#endif
}

// x is a multiple of y, or next to one.
static void fill_multiples(uint64_t *seed, memory *m)
{
    for (size_t n = 0; n < ELEMENTS; n++) {
        const uint32_t bits = (uint32_t)(check_random(seed) >> 16);
        const float y = below(seed, 2) ? float_from_bits((bits & 0x80FFFFFF) | 0x3F000000)
                                       : dl16_to_float(code_between(seed, -9, 12));
        const float times = 1.0f + (float)below(seed, 1u << below(seed, 13));
        const float x = (below(seed, 2) ? times : -times) * y;
        m->wide[0][n] = float_from_bits(float_bits(x) + below(seed, 3) - 1);
        m->wide[1][n] = y;
    }
}

static void vector_code__quotients_next_to_whole_numbers(void **state)
{
    (void)state;
#if defined(__x86_64__)
    uint64_t seed = 9;
    if (simd_in_use() != &simd_avx512) skip();
    vector_step steps[] = {
        {.op = VECTOR_WIDE_X, .at = (uint8_t *)by_op.wide[0]},
        {.op = VECTOR_WIDE_Y, .at = (uint8_t *)by_op.wide[1]},
        {.op = VECTOR_FORMULA + OPFUNC_FLOORDIV, .rounding = VECTOR_ROUND},
        kept(&by_op, 0),
    };
    for (uint32_t n = 0; n < 2; n++) {
        steps[n].row_at = by_op.wide_row_at;
        steps[n].stick_at = by_op.wide_stick_at;
        steps[n].upper = 128;
    }
    const vector_program w = {.steps = steps, .count = 4, .rows = ROWS, .sticks = STICKS};
    fill(&by_op, 0, &seed);
    for (uint32_t round = 0; round < test_rounds(300); round++) {
        fill_multiples(&seed, &by_op);
        compare(&w, steps, round);
    }
#else
    skip();
#endif
}

// Windows of 64 lanes, each a place behind the one before it: products of 16 bits summed up, or the
// largest; some sums are NaN.
static void vector_code__windows_share_what_is_ready(void **state)
{
    (void)state;
#if defined(__x86_64__)
    uint64_t seed = 11;
    if (simd_in_use() != &simd_avx512) skip();
    int64_t place_at[ROWS];
    for (int64_t n = 0; n < ROWS; n++) place_at[n] = n * LANES * 4;
    fill(&by_op, 0, &seed);
    for (uint32_t round = 0; round < test_rounds(300); round++) {
        const uint32_t infinite = 1u << (4 + round % 8);
        for (size_t n = 0; n < UNITS * LANES; n++)
            by_op.kept[0][n] = dl16_to_float(code_between(&seed, -8, 16));
        for (size_t n = 0; n < STICKS * LANES; n++)
            by_op.line[n] = below(&seed, infinite) ? dl16_to_float(code_between(&seed, -8, 16)) : 0;
        if (round % 2) by_op.kept[0][below(&seed, 4 * LANES)] = INFINITY;
        vector_step steps[] = {
            {.op = VECTOR_READY_X, .at = (uint8_t *)by_op.kept[0], .row_at = place_at,
             .stick_at = place_at},
            {.op = VECTOR_LINE_Y, .values = by_op.line},
            {.op = round % 4 ? VECTOR_APPLY_F32 + OPFUNC_MUL : VECTOR_MUL_F32},
            {.op = VECTOR_SUM, .values = by_op.sums[0], .begins = round % 3, .begin = 0.5f},
        };
        const bool alone = below(&seed, 3) == 0;
        vector_step reduced[] = {steps[0], steps[3]};
        reduced[1].op = VECTOR_SUM + below(&seed, 4);
        const vector_program w = {.steps = alone ? reduced : steps, .count = alone ? 2 : 4,
                                  .rows = 1 + below(&seed, ROWS - STICKS),
                                  .sticks = 1 + below(&seed, STICKS)};
        for (size_t n = 0; n < ROWS * LANES; n++) by_op.sums[0][n] = 1.0f;
        compare(&w, alone ? reduced : steps, round);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_code__does_what_its_ops_do),
        cmocka_unit_test(vector_code__looks_at_values_that_may_leave_the_format),
        cmocka_unit_test(vector_code__chooses_by_conditions),
        cmocka_unit_test(vector_code__quotients_next_to_whole_numbers),
        cmocka_unit_test(vector_code__windows_share_what_is_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
