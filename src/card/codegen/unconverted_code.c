// SPDX-License-Identifier: Apache-2.0
//
// Vector programs that need no more than codes of SEN169_FP16: each step moves them, chooses one,
// says how two compare, or finds a whole number next to one. A value is then two registers of 32
// lanes of 16 bits instead of four of fp32, and elements are not converted:
//
//     LOAD_X; ceil; STORE                 27 instructions of 512 bits for 64 elements, not 55
//
// A code is a sign and a magnitude, of which larger ones stand for larger values; there is no NaN.
#include "card/codegen/unit_code.h"
#include "card/codegen/vector_code.h"
#include "tensor/numeric.h"

enum { LANES = 32, ONE = 31 << 9, EXPONENT_SHIFT = 9, EXPONENTS = 64 };

// Comparisons of integers of 16 bits (VPCMPW); masks, beside those of conditions.
enum { WORDS_LESS = 1, WORDS_NOT_EQUAL = 4, WORDS_NOT_LESS = 5 };
enum { ROUNDED = 1, CHOSEN = 2 };

// --- Which programs

static bool is_narrow_opfunc(uint32_t op)
{
    switch (op) {
    case VECTOR_APPLY + OPFUNC_IDENTITY:
    case VECTOR_APPLY + OPFUNC_ABS:
    case VECTOR_APPLY + OPFUNC_NEG:
    case VECTOR_APPLY + OPFUNC_RELUFWD:
    case VECTOR_APPLY + OPFUNC_SIGN:
    case VECTOR_APPLY + OPFUNC_FLOOR:
    case VECTOR_APPLY + OPFUNC_CEIL:
    case VECTOR_APPLY + OPFUNC_TRUNC:
    case VECTOR_APPLY + OPFUNC_MAXIMUM:
    case VECTOR_APPLY + OPFUNC_MINIMUM:
    case VECTOR_APPLY + OPFUNC_EQUAL:
    case VECTOR_APPLY + OPFUNC_NOTEQUAL:
    case VECTOR_APPLY + OPFUNC_LESSERTHAN:
    case VECTOR_APPLY + OPFUNC_LESSEREQUAL:
    case VECTOR_APPLY + OPFUNC_GREATERTHAN:
    case VECTOR_APPLY + OPFUNC_GREATEREQUAL: return true;
    default: return false;
    }
}

static bool is_narrow(const vector_step *s)
{
    switch (s->op) {
    case VECTOR_LOAD_X:
    case VECTOR_LOAD_Y:
    case VECTOR_SPREAD_X:
    case VECTOR_SPREAD_Y:
    case VECTOR_STORE:
    case VECTOR_STORE_LOOK_UP: return !s->halves && !s->wide;
    case VECTOR_ROWS_X:
    case VECTOR_ROWS_Y:
    case VECTOR_X_TO_Y:
    case VECTOR_ZERO_Y:
    case VECTOR_LOOK_UP: return true;
    case VECTOR_APPLY + OPFUNC_WHERE3: return s->holds;
    default: return s->op >= VECTOR_HELD || is_narrow_opfunc(s->op);
    }
}

bool vector_is_narrow(const vector_program *w)
{
    for (uint32_t n = 0; n < w->count; n++)
        if (!is_narrow(&w->steps[n])) return false;
    return true;
}

// --- Elements and values

static void load(unit_code *c, quarters *to)
{
    code_elements(c, true);
    code_release_all(c, to);
    code_prefetch_elements(c);
    for (uint32_t n = 0; n < code_parts(c); n++) {
        const zmm codes = code_new(c);
        code_load(c, codes, code_pair_at(c, n));
        code_set(c, to, n, codes);
    }
}

static void store(unit_code *c)
{
    code_elements(c, !c->step->streams);
    if (!c->step->streams) code_prefetch_elements(c);
    for (uint32_t n = 0; n < code_stored(c); n++)
        code_store_unit(c, code_pair_at(c, n), c->now.x.reg[n]);
}

static void spread(unit_code *c, quarters *to)
{
    code_elements(c, false);
    code_release_all(c, to);
    const zmm codes = code_new(c);
    code_op(c, VPBROADCASTW, codes, 0, code_element_at(c, 0));
    code_set_all(c, to, codes);
}

// Where the codes of a step whose value is the same for all rows are kept; CODE_MOST_SAME: nowhere.
static uint32_t place_of_same(const unit_code *c)
{
    uint32_t place = 0;
    if (!c->step->same) return CODE_MOST_SAME;
    for (const vector_step *s = c->program->steps; s < c->step; s++)
        place += vector_takes_rows(s->op) && s->same;
    return place < CODE_MOST_SAME ? place : CODE_MOST_SAME;
}

static operand same_at(uint32_t place)
{
    return at_offset(SLOTS, CODE_SAME + (int32_t)place * QUARTER_BYTES);
}

void code_load_same(unit_code *c)
{
    for (uint32_t n = 0; c->narrow && n < c->program->count; n++) {
        c->step = &c->program->steps[n];
        const uint32_t place = vector_takes_rows(c->step->op) ? place_of_same(c) : CODE_MOST_SAME;
        if (place == CODE_MOST_SAME) continue;
        const zmm codes = code_new(c);
        encode_load(&c->b, RAX, CODE_FIELD(values));
        code_narrow_value(c, codes, at_offset(RAX, 0));
        code_store(c, same_at(place), codes);
        code_release(c, codes);
    }
}

static void repeat_row(unit_code *c, quarters *to)
{
    const uint32_t place = place_of_same(c);
    code_release_all(c, to);
    const zmm codes = code_new(c);
    if (place < CODE_MOST_SAME) {
        code_load(c, codes, same_at(place));
    } else {
        encode_load(&c->b, RAX, CODE_FIELD(values));
        code_narrow_value(c, codes, at_index(RAX, ROW, 4, c->second ? 4 : 0));
    }
    code_set_all(c, to, codes);
}

// --- Comparisons

static void compare(unit_code *c, code_comparison how)
{
    if (code_condition(c, how)) return;
    code_compare_ranks(c, CHOSEN, how);
    for (uint32_t n = 0; n < code_parts(c); n++) {
        const zmm to = code_new(c);
        code_zeroed(c, VPBLENDMW, to, (mask)(CHOSEN + n), to, code_words(c, ONE));
        code_set(c, &c->now.x, n, to);
    }
}

// x where the mask of its part says so, else y.
static void choose(unit_code *c, mask first)
{
    for (uint32_t n = 0; n < code_parts(c); n++) {
        const zmm to = code_new(c);
        code_masked(c, VPBLENDMW, to, (mask)(first + n), c->now.y.reg[n],
                    in_zmm(c->now.x.reg[n]));
        code_set(c, &c->now.x, n, to);
    }
}

static void choose_by_value(unit_code *c)
{
    if (code_has_condition(c)) {
        choose(c, CODE_CONDITION);
        return;
    }
    const zmm magnitude = code_in_register(c, code_words(c, DL16_MERGED));
    for (uint32_t n = 0; n < code_parts(c); n++) {
        const operand held = code_first_input(c, n);
        code_op(c, VPTESTMW, (mask)(CHOSEN + n), magnitude, held);
        if (held.kind == OPERAND_ZMM) code_release(c, held.reg);
    }
    code_release(c, magnitude);
    choose(c, CHOSEN);
}

// --- Functions of one code

static void positive(unit_code *c, zmm to, zmm x)
{
    const zmm zero = code_in_register(c, code_words(c, 0));
    code_op(c, VPMAXSW, to, zero, in_zmm(x));
    code_release(c, zero);
}

// Zeros as they are.
static void sign_of(unit_code *c, zmm to, zmm x)
{
    const zmm sign = code_in_register(c, code_words(c, DL16_SIGN));
    code_op(c, VPTESTMW, CHOSEN, x, code_words(c, DL16_MERGED));
    code_op(c, VMOVAPS, to, 0, in_zmm(x));
    // 0xEA: what the first two have, and the third.
    code_op_byte(c, VPTERNLOGD, to, sign, code_words(c, ONE), 0xEA);
    code_masked(c, VPBLENDMW, to, CHOSEN, x, in_zmm(to));
    code_release(c, sign);
}

// Entries of a table of exponents, which `exponents` has above what is no exponent.
static zmm of_exponents(unit_code *c, zmm exponents, const uint16_t *table)
{
    uint32_t words[2][LANES / 2];
    for (uint32_t n = 0; n < EXPONENTS; n += 2)
        words[n / LANES][n % LANES / 2] = table[n] | (uint32_t)table[n + 1] << 16;
    const zmm found = code_new(c), low = code_in_register(c, constant_words(&c->b, words[0]));
    code_op(c, VMOVAPS, found, 0, in_zmm(exponents));
    code_op(c, VPERMI2W, found, low, constant_words(&c->b, words[1]));
    code_release(c, low);
    return found;
}

// kept: bits of a code that a whole number of the exponent has, below 1 its sign alone. step: what
// is added to the whole number below a magnitude for the one above it; a carry goes to the
// exponent.
static void find_whole_numbers(uint16_t *kept, uint16_t *step)
{
    const uint32_t bias = ONE >> EXPONENT_SHIFT;
    for (uint32_t n = 0; n < EXPONENTS; n++) {
        const uint32_t places = n - bias < EXPONENT_SHIFT ? EXPONENT_SHIFT + bias - n : 0;
        kept[n] = (uint16_t)(n < bias ? DL16_SIGN : 0xFFFFu << places);
        step[n] = (uint16_t)(n < bias ? ONE : 1u << places);
    }
}

// Away from zero where the code has `side`, WORDS_LESS or WORDS_NOT_LESS than zero; 0: nowhere.
static void round_whole(unit_code *c, zmm to, zmm x, uint8_t side)
{
    uint16_t kept[EXPONENTS], step[EXPONENTS];
    find_whole_numbers(kept, step);
    const zmm exponents = code_new(c);
    code_shift(c, SHIFT_WORDS, CODE_SHIFT_RIGHT, exponents, x, EXPONENT_SHIFT);
    const zmm bits = of_exponents(c, exponents, kept);
    code_op(c, VPANDD, to, x, in_zmm(bits));
    if (side) {
        const zmm further = of_exponents(c, exponents, step);
        code_op_byte(c, VPCMPW, ROUNDED, x, code_words(c, 0), side);
        encode(&c->b, VPCMPW, CHOSEN, to, in_zmm(x),
               (encoding){.lanes = ROUNDED, .has_byte = true, .byte = WORDS_NOT_EQUAL});
        code_masked(c, VPADDW, to, CHOSEN, to, in_zmm(further));
        code_release(c, further);
    }
    code_release(c, bits);
    code_release(c, exponents);
}

static void make_of_one(unit_code *c, opfunc op, zmm to, zmm x)
{
    switch ((int)op) {
    case OPFUNC_ABS: code_op(c, VPANDD, to, x, code_words(c, DL16_MERGED)); break;
    case OPFUNC_NEG: code_op(c, VPXORD, to, x, code_words(c, DL16_SIGN)); break;
    case OPFUNC_RELUFWD: positive(c, to, x); break;
    case OPFUNC_SIGN: sign_of(c, to, x); break;
    case OPFUNC_FLOOR: round_whole(c, to, x, WORDS_LESS); break;
    case OPFUNC_CEIL: round_whole(c, to, x, WORDS_NOT_LESS); break;
    case OPFUNC_TRUNC: round_whole(c, to, x, 0); break;
    default: c->fails = true; break;
    }
}

static void apply(unit_code *c, opfunc op)
{
    const code_comparison smaller = {CODE_LESS, false}, larger = {CODE_LESS, true};
    code_comparison how;
    if (op == OPFUNC_IDENTITY) return;
    if (code_comparison_of(op, &how)) {
        compare(c, how);
    } else if (op == OPFUNC_MAXIMUM || op == OPFUNC_MINIMUM) {
        code_compare_ranks(c, CHOSEN, op == OPFUNC_MAXIMUM ? larger : smaller);
        choose(c, CHOSEN);
    } else if (op == OPFUNC_WHERE3) {
        choose_by_value(c);
    } else {
        for (uint32_t n = 0; n < code_parts(c); n++) {
            const zmm to = code_new(c);
            make_of_one(c, op, to, c->now.x.reg[n]);
            code_set(c, &c->now.x, n, to);
        }
    }
}

bool code_narrow_step(unit_code *c)
{
    const uint32_t op = c->step->op;
    switch (op) {
    case VECTOR_LOAD_X: load(c, &c->now.x); return true;
    case VECTOR_LOAD_Y: load(c, &c->now.y); return true;
    case VECTOR_SPREAD_X: spread(c, &c->now.x); return true;
    case VECTOR_SPREAD_Y: spread(c, &c->now.y); return true;
    case VECTOR_ROWS_X: repeat_row(c, &c->now.x); return true;
    case VECTOR_ROWS_Y: repeat_row(c, &c->now.y); return true;
    case VECTOR_STORE: store(c); return true;
    default: break;
    }
    if (op < VECTOR_APPLY || op >= VECTOR_HELD) return false;
    apply(c, (opfunc)(op - VECTOR_APPLY));
    return true;
}
