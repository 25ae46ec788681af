// SPDX-License-Identifier: Apache-2.0
//
// Ranges as powers of two, from step to step. A value v other than 0 has 2^least <= |v| <= 2^most
// and is a multiple of 2^unit; rounding to fewer bits changes none of that. A sum cannot be less
// than the unit of its terms, nor than the unit that the smaller one has where it comes near to the
// larger one:
//
//     0.2 + v, v of 9 fraction bits: beyond 2^-4, or v is a multiple of 2^-13 and so is the sum
#include "card/codegen/value_range.h"

typedef struct {
    value_nan nan;
    bool known;                             // else it may be infinite, too
    bool zero;                              // it may be
    bool valid;                             // a value of SEN169_FP16 once it has its significand
    int32_t fraction;                       // bits
    int32_t least, unit, most;
} range;

typedef struct {
    range x, y, slot[VECTOR_SLOTS];
} ranges;

enum {
    FAR = 96, FRACTION = 9, FRACTION_F32 = 23,
    LEAST_VALUE = -31, LEAST_ROUNDED = -30, MOST_ROUNDED = 32,
    LEAST_MOST = 4,                         // larger elements are no rarity
};

static const range unknown = {.nan = VALUE_ANY_NAN};

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

// Of a value with `fraction`, `least` and `most`.
static range within(range r)
{
    r.unit = larger(r.unit, r.least - r.fraction);
    return r.known && r.unit > -FAR && r.most < FAR ? r : (range){.nan = r.nan};
}

static range value_between(int32_t least, int32_t most, bool zero)
{
    return (range){.nan = VALUE_NO_NAN, .known = true, .zero = zero, .valid = true,
                   .fraction = FRACTION, .least = least, .unit = least - FRACTION, .most = most};
}

static range rounded(range r)
{
    r.fraction = FRACTION;
    return within(r);
}

// A value of SEN169_FP16, rounded with a look at its range.
static range looked_at(range r)
{
    r.nan = VALUE_NO_NAN;
    if (!r.known || r.most > MOST_ROUNDED) return (range){.nan = r.nan};
    r.zero = r.valid = true;
    r.least = larger(r.least, LEAST_VALUE);
    return rounded(r);
}

static value_nan less(value_nan a, value_nan b)
{
    return a < b ? a : b;
}

// Of what is computed of such a value; of two of them, where none of them is NaN for other reasons.
static range computed(range a)
{
    return (range){.nan = a.nan == VALUE_NO_NAN ? VALUE_NO_NAN : VALUE_QUIET_NAN};
}

static value_nan nan_of_two(range a, range b, bool makes_none)
{
    const bool none = less(a.nan, b.nan) == VALUE_NO_NAN && makes_none;
    return none ? VALUE_NO_NAN : VALUE_QUIET_NAN;
}

static range either(range a, range b)
{
    return (range){.nan = less(a.nan, b.nan), .known = a.known && b.known, .zero = a.zero || b.zero,
                   .valid = a.valid && b.valid, .fraction = larger(a.fraction, b.fraction),
                   .least = smaller(a.least, b.least), .unit = smaller(a.unit, b.unit),
                   .most = larger(a.most, b.most)};
}

static range sum(range a, range b)
{
    const int32_t near = larger(a.least, b.least) - 1 - larger(a.fraction, b.fraction);
    const int32_t unit = smaller(a.unit, b.unit), both = larger(unit, near);
    range r = {.nan = nan_of_two(a, b, a.known || b.known), .known = a.known && b.known,
               .zero = true, .fraction = FRACTION_F32, .least = both, .unit = unit,
               .most = larger(a.most, b.most) + 1};
    r.valid = both >= LEAST_ROUNDED && (!a.zero || b.valid) && (!b.zero || a.valid);
    if (a.zero) r.least = smaller(r.least, b.least);
    if (b.zero) r.least = smaller(r.least, a.least);
    r.valid = r.valid && r.most <= MOST_ROUNDED;
    return within(r);
}

static range product(range a, range b)
{
    const bool scales = (a.known && !a.zero) || (b.known && !b.zero);
    range r = {.nan = nan_of_two(a, b, scales || (a.known && b.known)),
               .known = a.known && b.known, .zero = a.zero || b.zero, .fraction = FRACTION_F32,
               .least = a.least + b.least, .unit = a.unit + b.unit, .most = a.most + b.most};
    r.valid = r.least >= LEAST_ROUNDED && r.most <= MOST_ROUNDED;
    return within(r);
}

static range positive(range r)
{
    r.zero = true;
    return r;
}

static range of_opfunc(opfunc op, const ranges *r)
{
    switch ((int)op) {
    case OPFUNC_ADD:
    case OPFUNC_SUB: return sum(r->x, r->y);
    case OPFUNC_MUL: return product(r->x, r->y);
    case OPFUNC_MAXIMUM:
    case OPFUNC_MINIMUM:
    case OPFUNC_WHERE3: return either(r->x, r->y);
    case OPFUNC_ABS:
    case OPFUNC_NEG:
    case OPFUNC_IDENTITY: return r->x;
    case OPFUNC_RELUFWD: return positive(r->x);
    case OPFUNC_CLIP:
    case OPFUNC_RELU6FWD: return (range){.nan = r->x.nan};
    case OPFUNC_FLOOR:
    case OPFUNC_CEIL:
    case OPFUNC_TRUNC:
    case OPFUNC_ROUND:
    case OPFUNC_RECIPROCAL: return computed(r->x);
    case OPFUNC_SIGN:
    case OPFUNC_EQUAL:
    case OPFUNC_NOTEQUAL:
    case OPFUNC_LESSERTHAN:
    case OPFUNC_LESSEREQUAL:
    case OPFUNC_GREATERTHAN:
    case OPFUNC_GREATEREQUAL: return (range){.nan = VALUE_NO_NAN};
    default: return (range){.nan = VALUE_QUIET_NAN};
    }
}

// In fp32 each of them makes a NaN quiet.
static range of_opfunc_f32(opfunc op, const ranges *r)
{
    range made = of_opfunc(op, r);
    if (made.nan == VALUE_ANY_NAN) made.nan = VALUE_QUIET_NAN;
    return made;
}

// What loads or makes elements of SEN169_FP16 brings no NaN.
static range element_of(const vector_step *s, bool plain, int32_t most)
{
    if (s->ranged) return value_between(s->least, s->most, false);
    if (s->plain) return value_between(VECTOR_PLAIN_LEAST, VECTOR_PLAIN_MOST, true);
    if (plain) return value_between(VECTOR_PLAIN_LEAST, most, true);
    switch (s->op) {
    case VECTOR_LOAD_X:
    case VECTOR_LOAD_Y:
    case VECTOR_READY_X:
    case VECTOR_ZERO_Y:
    case VECTOR_EXP:
    case VECTOR_LOOK_UP: return (range){.nan = VALUE_NO_NAN};
    case VECTOR_LINE_Y:
    case VECTOR_SPREAD_X:
    case VECTOR_SPREAD_Y: return s->wide ? unknown : (range){.nan = VALUE_NO_NAN};
    default: return unknown;
    }
}

static void take_slot(uint32_t op, ranges *r)
{
    range *slot = &r->slot[(op - VECTOR_HELD) / 4];
    switch ((op - VECTOR_HELD) % 4) {
    case 0: *slot = r->x; break;
    case 1: *slot = r->y; break;
    case 2: r->x = *slot; break;
    default: r->y = *slot; break;
    }
}

static void take_step(const vector_step *s, bool plain, int32_t most, ranges *r)
{
    const uint32_t f32 = VECTOR_APPLY_F32;
    const range element = element_of(s, plain, most);
    switch (s->op) {
    case VECTOR_X_TO_Y: r->y = r->x; break;
    case VECTOR_SUB_F32:
    case VECTOR_ADD_F32: r->x = sum(r->x, r->y); break;
    case VECTOR_MUL_F32: r->x = product(r->x, r->y); break;
    default:
        if (s->op >= VECTOR_HELD) take_slot(s->op, r);
        else if (vector_is_formula(s->op)) r->x = unknown;
        else if (s->op >= f32) r->x = of_opfunc_f32((opfunc)(s->op - f32), r);
        else if (s->op >= VECTOR_APPLY) r->x = of_opfunc((opfunc)(s->op - VECTOR_APPLY), r);
        else if (vector_describe(s->op)->gives == VECTOR_X) r->x = element;
        else if (vector_describe(s->op)->gives == VECTOR_Y) r->y = element;
        break;
    }
}

// *out: whether x is NaN behind each step, and steps that need no look where the elements of
// `plain` steps are plain, and at most 2^most. Returns how many.
static uint32_t find_rounded(const vector_program *w, const step_marks *plain, int32_t most,
                             step_marks *out)
{
    ranges r = {.x = unknown};
    uint32_t count = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        const vector_rounding rounding = w->steps[n].rounding;
        take_step(&w->steps[n], plain->of[n], most, &r);
        out->of[n] = rounding == VECTOR_ROUND && r.x.known && r.x.valid;
        out->nan[n] = (uint8_t)r.x.nan;
        if (rounding == VECTOR_ROUND && !out->of[n]) r.x = looked_at(r.x);
        else if (rounding != VECTOR_AS_IS) r.x = rounded(r.x);
        count += out->of[n];
    }
    return count;
}

static bool loads(const vector_step *s)
{
    return s->op == VECTOR_LOAD_X || s->op == VECTOR_LOAD_Y;
}

static uint32_t count_roundings(const vector_program *w)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < w->count; n++) count += w->steps[n].rounding == VECTOR_ROUND;
    return count;
}

// The largest `most`; a smaller one where half of the steps that would need a look need none with
// it. Returns how many need none.
static uint32_t choose_most(const vector_program *w, const step_marks *plain, int32_t *out_most)
{
    const uint32_t all = count_roundings(w);
    step_marks marks;
    *out_most = VECTOR_PLAIN_MOST;
    uint32_t best = find_rounded(w, plain, VECTOR_PLAIN_MOST, &marks);
    for (int32_t most = VECTOR_PLAIN_MOST / 2; most >= LEAST_MOST; most /= 2) {
        const uint32_t count = find_rounded(w, plain, most, &marks);
        if (count == best || 2 * (count - best) < all - best) continue;
        *out_most = most;
        best = count;
    }
    return best;
}

bool choose_plain(const vector_program *w, plain_choice *out)
{
    const step_marks none = {.of = {false}};
    step_marks tried = none;
    for (uint32_t n = 0; n < w->count; n++) {
        if (vector_stores(w->steps[n].op)) break;
        tried.of[n] = loads(&w->steps[n]);
    }
    const uint32_t best = choose_most(w, &tried, &out->most);
    uint32_t wanted = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        if (!tried.of[n]) continue;
        tried.of[n] = false;
        if (find_rounded(w, &tried, out->most, &out->rounded) == best) continue;
        tried.of[n] = true;
        wanted++;
    }
    out->plain = tried;
    find_rounded(w, &tried, out->most, &out->rounded);
    const uint32_t always = find_rounded(w, &none, out->most, &out->always);
    return wanted && wanted <= best - always;
}
