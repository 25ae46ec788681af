// SPDX-License-Identifier: Apache-2.0
//
// Sums of windows that overlap, whose elements are converted already (VECTOR_READY_X): the largest
// of a window's elements, or their products with a line. A line's values serve several rows, whose
// sums stay in registers, and elements are an operand of the instruction that adds them:
//
//     for each 4 rows, then 2: for each stick: y; for each of the rows: sum = sum + x * y
//
// Products of two elements of 16 bits are exact, so that they need no rounding of their own. A NaN
// may have another sign than the steps give it: rows from one on are left to these.
#include "card/codegen/unit_code.h"

enum { MOST_ROWS = 4, FEWEST_ROWS = 2, MOST_LINES = 1 };

// Registers of the loops that nothing else needs here.
static const gpr window_of[MOST_ROWS] = {NEXT, TURNS, KEPT_BYTES, RDX};

typedef struct {
    const vector_step *ready, *line, *sum;
    quarters sums[MOST_ROWS], y;
} windows;

static bool multiplies(const vector_step *s)
{
    const bool product = s->op == VECTOR_MUL_F32 || s->op == VECTOR_APPLY_F32 + OPFUNC_MUL;
    return product && s->rounding == VECTOR_AS_IS;
}

static bool find_steps(const vector_program *w, windows *out)
{
    const vector_step *s = w->steps, *last = &s[w->count - 1];
    *out = (windows){.ready = s, .sum = last};
    if (w->half || s->op != VECTOR_READY_X || last->rest) return false;
    if (w->count == 2)
        return last->op == VECTOR_SUM || last->op == VECTOR_MAX || last->op == VECTOR_MIN;
    out->line = &s[1];
    return w->count == 4 && s[1].op == VECTOR_LINE_Y && !s[1].wide && multiplies(&s[2]) &&
           last->op == VECTOR_SUM;
}

static void load_windows(unit_code *c, const windows *w, uint32_t rows)
{
    c->step = w->ready;
    encode_load(&c->b, RCX, CODE_FIELD(row_at));
    for (uint32_t r = 0; r < rows; r++) {
        encode_load(&c->b, window_of[r], at_index(RCX, ROW, 8, (int32_t)r * 8));
        encode_add_memory(&c->b, window_of[r], CODE_FIELD(at));
    }
}

static void begin_sums(unit_code *c, const windows *w, uint32_t rows)
{
    c->step = w->sum;
    if (!w->sum->begins) code_values(c, ROW_BYTES);
    for (uint32_t n = 0; n < rows * QUARTERS; n++) {
        const zmm sum = w->sums[n / QUARTERS].reg[n % QUARTERS];
        if (w->sum->begins) code_op(c, VBROADCASTSS, sum, 0, CODE_FIELD(begin));
        else code_load(c, sum, at_offset(RAX, (int32_t)n * QUARTER_BYTES));
    }
}

static void store_sums(unit_code *c, const windows *w, uint32_t rows)
{
    c->step = w->sum;
    code_values(c, ROW_BYTES);
    for (uint32_t n = 0; n < rows * QUARTERS; n++)
        code_store(c, at_offset(RAX, (int32_t)n * QUARTER_BYTES),
                   w->sums[n / QUARTERS].reg[n % QUARTERS]);
}

static void add_window(unit_code *c, const windows *w, uint32_t row)
{
    for (uint32_t q = 0; q < QUARTERS; q++) {
        const operand x = at_index(window_of[row], FURTHER, 1, (int32_t)q * QUARTER_BYTES);
        const zmm sum = w->sums[row].reg[q];
        if (w->line) code_op(c, VFMADD231PS, sum, w->y.reg[q], x);
        else code_op(c, w->sum->op == VECTOR_SUM   ? VADDPS
                        : w->sum->op == VECTOR_MAX ? VMAXPS
                                                   : VMINPS, sum, sum, x);
    }
}

static void add_sticks(unit_code *c, const windows *w, uint32_t rows)
{
    if (w->line) {
        c->step = w->line;
        encode_load(&c->b, RAX, CODE_FIELD(values));
    }
    c->step = w->ready;
    encode_load(&c->b, RCX, CODE_FIELD(stick_at));
    encode_number(&c->b, STICK_BYTES, 0);
    encode_number(&c->b, STICK, 0);
    const size_t stick = c->b.size;
    encode_load(&c->b, FURTHER, at_index(RCX, STICK, 8, 0));
    for (uint32_t q = 0; w->line && q < QUARTERS; q++)
        code_load(c, w->y.reg[q], at_index(RAX, STICK_BYTES, 1, (int32_t)q * QUARTER_BYTES));
    for (uint32_t r = 0; r < rows; r++) add_window(c, w, r);
    encode_add_number(&c->b, STICK_BYTES, UNIT_BYTES);
    encode_add_number(&c->b, STICK, 1);
    encode_compare(&c->b, STICK, STICKS);
    set_jump(&c->b, encode_jump(&c->b, JUMP_BELOW), stick);
}

// The jump where a sum is NaN.
static size_t look_for_nan(unit_code *c, const windows *w, uint32_t rows)
{
    for (uint32_t n = 0; n < rows * QUARTERS; n += 2) {
        const zmm *sum = &w->sums[n / QUARTERS].reg[n % QUARTERS];
        code_compare(c, n ? 2 : 1, CODE_UNORDERED, sum[0], in_zmm(sum[1]));
        if (n) encode_either(&c->b, 1, 1, 2);
    }
    encode_test_mask(&c->b, 1);
    return encode_jump(&c->b, JUMP_IF_NOT_ZERO);
}

// So many rows at a time, as long as there are as many. The jump where a sum is NaN.
static size_t sum_rows(unit_code *c, const windows *w, uint32_t rows)
{
    const size_t begin = c->b.size;
    encode_load_address(&c->b, RAX, at_offset(ROW, (int32_t)rows - 1));
    encode_compare(&c->b, RAX, ROWS);
    const size_t fewer = encode_jump(&c->b, JUMP_NOT_BELOW);
    load_windows(c, w, rows);
    begin_sums(c, w, rows);
    add_sticks(c, w, rows);
    const size_t nan = look_for_nan(c, w, rows);
    store_sums(c, w, rows);
    encode_add_number(&c->b, ROW, (int32_t)rows);
    encode_add_number(&c->b, ROW_BYTES, (int32_t)rows * UNIT_BYTES);
    set_jump(&c->b, encode_jump(&c->b, JUMP), begin);
    set_jump(&c->b, fewer, c->b.size);
    return nan;
}

static void take_registers(unit_code *c, windows *w, bool take)
{
    for (uint32_t n = 0; n < (MOST_ROWS + MOST_LINES) * QUARTERS; n++) {
        quarters *of = n / QUARTERS < MOST_ROWS ? &w->sums[n / QUARTERS] : &w->y;
        if (take) of->reg[n % QUARTERS] = code_new(c);
        else code_release(c, of->reg[n % QUARTERS]);
    }
}

size_t code_sum_windows(unit_code *c)
{
    windows w;
    size_t nan[MOST_ROWS + 1];
    if (!find_steps(c->program, &w)) return 0;
    for (uint32_t q = 0; q < QUARTERS; q++) code_release(c, c->sums[0].reg[q]);
    take_registers(c, &w, true);
    for (uint32_t rows = MOST_ROWS; rows >= FEWEST_ROWS; rows /= 2)
        nan[rows] = sum_rows(c, &w, rows);
    take_registers(c, &w, false);
    for (uint32_t q = 0; q < QUARTERS; q++) code_share(c, c->sums[0].reg[q]);
    encode_compare(&c->b, ROW, ROWS);
    const size_t done = encode_jump(&c->b, JUMP_NOT_BELOW);
    for (uint32_t rows = MOST_ROWS; rows >= FEWEST_ROWS; rows /= 2)
        set_jump(&c->b, nan[rows], c->b.size);
    return done;
}
