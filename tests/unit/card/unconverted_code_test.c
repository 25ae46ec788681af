// SPDX-License-Identifier: Apache-2.0
//
// Programs of codes alone as machine code and op by op: the same bytes in memory, for every code,
// and for random programs of zeros, infinities and their neighbours.
#include "support/rounds.h"
#include "unit/check.h"

#include "card/codegen/vector_code.h"
#include "card/simd/simd.h"
#include "tensor/numeric.h"

enum { LANES = 64, ROWS = 64, STICKS = 16, ELEMENTS = ROWS * STICKS * LANES,
       READ = 2, WRITTEN = 2, AREAS = READ + WRITTEN, MOST_STEPS = 24, SLOTS = 4 };

typedef struct {
    uint16_t codes[AREAS][ELEMENTS];
    float rows[2][ROWS];                    // the first has one value
} memory;

static _Alignas(64) memory by_op, by_code;
static int64_t row_at[ROWS], stick_at[STICKS];

static uint32_t below(uint64_t *seed, uint32_t count)
{
    return (uint32_t)(check_random(seed) >> 33) % count;
}

static uint16_t any_code(uint64_t *seed)
{
    static const uint16_t special[] = {0,      1,      0x7FFF, 0x7FFE, 0x3E00, 0x3E01, 0x3DFF,
                                       0x3C00, 0x4000, 0x4FFF, 0x5000, 0x4FFE, 0x01FF, 0x0200};
    const uint16_t code = (uint16_t)(below(seed, 2) ? special[below(seed, 14)]
                                                    : below(seed, 1 << 15));
    return code | (uint16_t)(below(seed, 2) << 15);
}

// All codes, once, in the first area.
static void fill(memory *m, uint64_t *seed)
{
    for (uint32_t n = 0; n < ELEMENTS; n++) {
        m->codes[0][n] = (uint16_t)n;
        for (uint32_t area = 1; area < AREAS; area++) m->codes[area][n] = any_code(seed);
    }
    const uint16_t same = any_code(seed);
    for (uint32_t row = 0; row < ROWS; row++) {
        m->rows[0][row] = dl16_to_float(same);
        m->rows[1][row] = dl16_to_float(any_code(seed));
        row_at[row] = (int64_t)row * LANES * 2;
    }
    for (uint32_t stick = 0; stick < STICKS; stick++)
        stick_at[stick] = (int64_t)stick * ROWS * LANES * 2;
}

static vector_step elements(memory *m, uint32_t op, uint32_t area)
{
    return (vector_step){.op = op, .at = (uint8_t *)m->codes[area], .row_at = row_at,
                         .stick_at = stick_at};
}

static vector_step row_value(memory *m, uint32_t op, uint32_t area)
{
    return (vector_step){.op = op, .values = m->rows[area], .same = area == 0};
}

static vector_step applied(opfunc op)
{
    return (vector_step){.op = VECTOR_APPLY + (uint32_t)op, .rounding = VECTOR_ROUND};
}

static void move_to(memory *from, memory *to, vector_step *steps, uint32_t count)
{
    const ptrdiff_t bytes = (char *)to - (char *)from;
    for (uint32_t n = 0; n < count; n++) {
        if (steps[n].at) steps[n].at += bytes;
        if (steps[n].values) steps[n].values = (float *)(void *)((char *)steps[n].values + bytes);
    }
}

// by_op, to which the steps belong, by op, and the same by code.
static void compare(vector_step *steps, uint32_t count, size_t rows, size_t sticks)
{
    const vector_program w = {.steps = steps, .count = count, .rows = rows, .sticks = sticks,
                              .half = count % 3 == 1};
    assert_true(vector_is_narrow(&w));
    by_code = by_op;
    simd_in_use()->run_program(&w, NULL);
    move_to(&by_op, &by_code, steps, count);
    vector_loop *loop = vector_code_of(&w);
    assert_non_null(loop);
    simd_in_use()->run_program(&w, loop);
    move_to(&by_code, &by_op, steps, count);
    for (size_t n = 0; n < ELEMENTS; n++)
        for (uint32_t area = READ; area < AREAS; area++) {
            if (by_op.codes[area][n] == by_code.codes[area][n]) continue;
            for (uint32_t s = 0; s < count; s++) print_error("step %u: op %u\n", s, steps[s].op);
            fail_msg("element %zu, codes %04x and %04x: %04x is %04x", n, by_op.codes[0][n],
                     by_op.codes[1][n], by_op.codes[area][n], by_code.codes[area][n]);
        }
}

static bool has_code(void)
{
#if defined(__x86_64__)
    return simd_in_use() == &simd_avx512;
#else
    return false;
#endif
}

static const opfunc unary[] = {OPFUNC_IDENTITY, OPFUNC_ABS,   OPFUNC_NEG,  OPFUNC_RELUFWD,
                               OPFUNC_SIGN,     OPFUNC_FLOOR, OPFUNC_CEIL, OPFUNC_TRUNC};
static const opfunc binary[] = {OPFUNC_MAXIMUM,     OPFUNC_MINIMUM,     OPFUNC_EQUAL,
                                OPFUNC_NOTEQUAL,    OPFUNC_LESSERTHAN,  OPFUNC_LESSEREQUAL,
                                OPFUNC_GREATERTHAN, OPFUNC_GREATEREQUAL};
enum { UNARY = sizeof unary / sizeof *unary, BINARY = sizeof binary / sizeof *binary };

static void unconverted_code__every_code(void **state)
{
    (void)state;
    uint64_t seed = 3;
    if (!has_code()) skip();
    fill(&by_op, &seed);
    for (uint32_t n = 0; n < UNARY; n++) {
        vector_step steps[] = {elements(&by_op, VECTOR_LOAD_X, 0), applied(unary[n]),
                               elements(&by_op, VECTOR_STORE, READ)};
        compare(steps, 3, ROWS, STICKS);
    }
}

static void unconverted_code__two_inputs(void **state)
{
    (void)state;
    uint64_t seed = 5;
    if (!has_code()) skip();
    for (uint32_t n = 0; n < BINARY * 4; n++) {
        fill(&by_op, &seed);
        vector_step others[] = {elements(&by_op, VECTOR_LOAD_Y, 1),
                                elements(&by_op, VECTOR_SPREAD_Y, 1),
                                row_value(&by_op, VECTOR_ROWS_Y, 0),
                                row_value(&by_op, VECTOR_ROWS_Y, 1)};
        vector_step steps[] = {elements(&by_op, VECTOR_LOAD_X, n / 4 % 2), others[n % 4],
                               applied(binary[n / 4]), elements(&by_op, VECTOR_STORE, READ)};
        compare(steps, 4, ROWS, STICKS);
    }
}

// --- Random programs

static vector_step any_input(uint64_t *seed)
{
    static const uint32_t ops[] = {VECTOR_LOAD_X, VECTOR_LOAD_Y, VECTOR_SPREAD_X, VECTOR_SPREAD_Y};
    if (below(seed, 4)) return elements(&by_op, ops[below(seed, 4)], below(seed, READ));
    return row_value(&by_op, below(seed, 2) ? VECTOR_ROWS_X : VECTOR_ROWS_Y, below(seed, 2));
}

static vector_step any_store(uint64_t *seed)
{
    vector_step s = elements(&by_op, below(seed, 6) ? VECTOR_STORE : VECTOR_STORE_LOOK_UP,
                             READ + below(seed, WRITTEN));
    s.streams = s.op == VECTOR_STORE && below(seed, 4) == 0;
    s.table = opfunc_dl16_table(OPFUNC_GELUFWD);
    return s;
}

// held: slots that have a value.
static vector_step any_choice(uint64_t *seed, uint32_t held)
{
    vector_step s = applied(OPFUNC_WHERE3);
    s.slot = below(seed, SLOTS);
    s.holds = held >> s.slot & 1;
    return s.holds ? s : applied(binary[below(seed, BINARY)]);
}

static vector_step any_slot(uint64_t *seed, uint32_t *held)
{
    const uint32_t slot = below(seed, SLOTS);
    if (*held >> slot & 1 && below(seed, 2))
        return (vector_step){.op = below(seed, 2) ? VECTOR_HELD_X(slot) : VECTOR_HELD_Y(slot)};
    *held |= 1u << slot;
    return (vector_step){.op = below(seed, 4) ? VECTOR_HOLD_X(slot) : VECTOR_HOLD_Y(slot)};
}

static vector_step any_move(uint64_t *seed)
{
    static const uint32_t ops[] = {VECTOR_X_TO_Y, VECTOR_ZERO_Y, VECTOR_LOOK_UP};
    return (vector_step){.op = ops[below(seed, 3)], .table = opfunc_dl16_table(OPFUNC_GELUFWD)};
}

static uint32_t any_program(uint64_t *seed, vector_step *steps)
{
    const uint32_t count = 1 + below(seed, MOST_STEPS);
    uint32_t held = 0;
    for (uint32_t n = 0; n < count; n++) {
        switch (below(seed, 10)) {
        case 0:
        case 1:
        case 2: steps[n] = any_input(seed); break;
        case 3: steps[n] = any_store(seed); break;
        case 4: steps[n] = any_choice(seed, held); break;
        case 5:
        case 6: steps[n] = any_slot(seed, &held); break;
        case 7: steps[n] = any_move(seed); break;
        case 8: steps[n] = applied(unary[below(seed, UNARY)]); break;
        default: steps[n] = applied(binary[below(seed, BINARY)]); break;
        }
    }
    steps[count] = elements(&by_op, VECTOR_STORE, READ);
    return count + 1;
}

static void unconverted_code__does_what_its_ops_do(void **state)
{
    (void)state;
    uint64_t seed = 7;
    if (!has_code()) skip();
    fill(&by_op, &seed);
    for (uint32_t round = 0; round < test_rounds(1000); round++) {
        vector_step steps[MOST_STEPS + 1];
        const uint32_t count = any_program(&seed, steps);
        if (round % 100 == 0) fill(&by_op, &seed);
        compare(steps, count, 1 + below(&seed, 5), 1 + below(&seed, STICKS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unconverted_code__every_code),
        cmocka_unit_test(unconverted_code__two_inputs),
        cmocka_unit_test(unconverted_code__does_what_its_ops_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
