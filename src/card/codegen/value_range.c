// SPDX-License-Identifier: Apache-2.0
//
// Ranges as powers of two, from step to step. A value v other than 0 has 2^least <= |v| <= 2^most
// and is a multiple of 2^unit; rounding to fewer bits changes none of that. A sum cannot be less
// than the unit of its terms.
#include "card/codegen/value_range.h"

typedef struct {
    bool known;
    int32_t least, unit, most;
} range;

typedef struct {
    range x, y, slot[VECTOR_SLOTS];
} ranges;

enum { FAR = 96, LEAST_ROUNDED = -30, MOST_ROUNDED = 32 };

static const range unknown = {.known = false};
static const range plain_element = {true, VECTOR_PLAIN_LEAST, VECTOR_PLAIN_LEAST - 9,
                                    VECTOR_PLAIN_MOST};

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static range within(range r)
{
    return r.known && r.unit > -FAR && r.most < FAR ? r : unknown;
}

static range either(range a, range b)
{
    return (range){a.known && b.known, smaller(a.least, b.least), smaller(a.unit, b.unit),
                   larger(a.most, b.most)};
}

static range sum(range a, range b)
{
    const int32_t unit = smaller(a.unit, b.unit);
    return within((range){a.known && b.known, unit, unit, larger(a.most, b.most) + 1});
}

static range product(range a, range b)
{
    return within((range){a.known && b.known, a.least + b.least, a.unit + b.unit,
                          a.most + b.most});
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
    case OPFUNC_RELUFWD:
    case OPFUNC_IDENTITY: return r->x;
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

static void take_step(const vector_step *s, bool plain, ranges *r)
{
    const range element = plain || s->plain ? plain_element : unknown;
    switch (s->op) {
    case VECTOR_LOAD_X:
    case VECTOR_KEPT_X: r->x = element; break;
    case VECTOR_LOAD_Y:
    case VECTOR_KEPT_Y: r->y = element; break;
    case VECTOR_X_TO_Y: r->y = r->x; break;
    case VECTOR_SUB_F32:
    case VECTOR_ADD_F32: r->x = sum(r->x, r->y); break;
    case VECTOR_MUL_F32: r->x = product(r->x, r->y); break;
    case VECTOR_WIDE_Y:
    case VECTOR_LINE_Y:
    case VECTOR_ROWS_Y:
    case VECTOR_SPREAD_Y:
    case VECTOR_ZERO_Y: r->y = unknown; break;
    case VECTOR_WIDE_X:
    case VECTOR_ROWS_X:
    case VECTOR_SPREAD_X:
    case VECTOR_EXP:
    case VECTOR_LOOK_UP: r->x = unknown; break;
    default:
        if (s->op >= VECTOR_HELD) take_slot(s->op, r);
        else if (vector_is_formula(s->op)) r->x = unknown;
        else if (s->op >= VECTOR_APPLY_F32) r->x = of_opfunc((opfunc)(s->op - VECTOR_APPLY_F32), r);
        else if (s->op >= VECTOR_APPLY) r->x = of_opfunc((opfunc)(s->op - VECTOR_APPLY), r);
        break;
    }
}

// *out: steps that need no look where the elements of `plain` steps are plain. Returns how many.
static uint32_t find_rounded(const vector_program *w, const step_marks *plain, step_marks *out)
{
    ranges r = {.x = unknown};
    uint32_t count = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        take_step(&w->steps[n], plain->of[n], &r);
        const bool rounds = w->steps[n].rounding == VECTOR_ROUND;
        out->of[n] = rounds && r.x.known && r.x.least >= LEAST_ROUNDED && r.x.most <= MOST_ROUNDED;
        if (rounds && !out->of[n]) r.x = unknown;
        count += out->of[n];
    }
    return count;
}

static bool loads(const vector_step *s)
{
    return s->op == VECTOR_LOAD_X || s->op == VECTOR_LOAD_Y;
}

bool choose_plain(const vector_program *w, step_marks *out_plain, step_marks *out_rounded,
                  step_marks *out_always)
{
    const step_marks none = {.of = {false}};
    step_marks tried = none, rounded;
    for (uint32_t n = 0; n < w->count; n++) {
        const uint32_t op = w->steps[n].op;
        if (op >= VECTOR_STORE && op <= VECTOR_STORE_LOOK_UP) break;
        tried.of[n] = loads(&w->steps[n]);
    }
    const uint32_t most = find_rounded(w, &tried, out_rounded);
    uint32_t wanted = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        if (!tried.of[n]) continue;
        tried.of[n] = false;
        if (find_rounded(w, &tried, &rounded) == most) continue;
        tried.of[n] = true;
        wanted++;
    }
    *out_plain = tried;
    const uint32_t always = find_rounded(w, &none, out_always);
    return wanted && wanted <= most - always;
}
