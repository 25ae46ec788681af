// SPDX-License-Identifier: Apache-2.0
//
// Redundant rounding: steps do for a value no more than its readers need. A value is rounded for
// those that see more than its significand, and a NaN becomes the positive quiet one for those that
// can tell.
//
//     sub fp32; abs fp32; mul fp32; STORE_WIDE        a NaN is made positive and quiet three times
//     SUB_F32; abs; mul fp32; STORE_WIDE              once
//
//     KEEP; mul round; X_TO_Y; KEPT_X; maximum; STORE the store rounds, whichever is larger
//     mul round; X_TO_Y; KEPT_X; where3; STORE        the store rounds, whichever is chosen
#include "card/row_fusion/program/program_builder.h"

// --- Roundings

static bool ends_value(uint32_t op)
{
    return vector_describe(op)->gives == VECTOR_X;
}

// Elements of SEN169_FP16 that lie anywhere.
static bool brings_y(uint32_t op)
{
    return vector_describe(op)->gives == VECTOR_Y && vector_takes_elements(op) &&
           op != VECTOR_WIDE_Y;
}

// maximum(v, v y), which a store rounds: as rounding keeps the order, and of a v that is 0 the
// product is 0 already, of the same sign as rounded, the store may round what is the larger one.
static bool is_stored_if_larger(const rows_step *steps, uint32_t n, uint32_t count)
{
    static const uint32_t behind[] = {VECTOR_X_TO_Y, VECTOR_KEPT_X,
                                      VECTOR_APPLY + OPFUNC_MAXIMUM, VECTOR_STORE};
    enum { BEHIND = sizeof behind / sizeof *behind };
    if (steps[n].op != VECTOR_APPLY + OPFUNC_MUL || n < 2 || count != n + 1 + BEHIND) return false;
    for (uint32_t k = 0; k < BEHIND; k++)
        if (steps[n + 1 + k].op != behind[k]) return false;
    const rows_step *of = &steps[n - 2];
    return brings_y(steps[n - 1].op) && (of->op == VECTOR_KEEP || of->op == VECTOR_KEPT_X) &&
           of->value == steps[n + 2].value;
}

// How y must be rounded for an op.
static vector_rounding wants_of_y(uint32_t op)
{
    const vector_op_info *info = vector_describe(op);
    const bool computes = info->gives == VECTOR_X && info->at == VECTOR_NOWHERE;
    return computes || op == VECTOR_KEEP_Y ? VECTOR_ROUND : VECTOR_AS_IS;
}

// How what is in x and in y must be rounded for steps behind.
typedef struct {
    vector_rounding x, y;
} roundings;

static vector_rounding stricter(vector_rounding a, vector_rounding b)
{
    return a > b ? a : b;
}

// From those behind a step to those before it. What is copied, or chosen by a condition, is the
// same value as before.
static roundings wanted_before(uint32_t op, roundings behind)
{
    const vector_op_info *info = vector_describe(op);
    roundings wanted = {info->wants, wants_of_y(op)};
    if (op == VECTOR_X_TO_Y) wanted.x = behind.y;
    if (op == VECTOR_APPLY + OPFUNC_WHERE3) wanted.x = wanted.y = behind.x;
    if (info->gives != VECTOR_X) wanted.x = stricter(wanted.x, behind.x);
    if (info->gives != VECTOR_Y) wanted.y = stricter(wanted.y, behind.y);
    return wanted;
}

// Rounds no more than the ops behind it need.
static void relax_roundings(uint32_t count, rows_step *steps)
{
    roundings behind = {VECTOR_AS_IS, VECTOR_AS_IS};
    for (uint32_t n = count; n-- > 0;) {
        const vector_rounding most =
            is_stored_if_larger(steps, n, count) ? VECTOR_AS_IS : behind.x;
        // From fp64 to SEN169_FP16 by way of fp32 would round twice.
        const bool once = vector_is_formula(steps[n].op);
        if (steps[n].rounding > most && !once) steps[n].rounding = most;
        behind = wanted_before(steps[n].op, behind);
    }
}

// --- NaN

// Who of a vector program can tell one NaN from another.
typedef struct {
    bool x, y, value[ROWS_MOST_STEPS];
} nan_readers;

// An op that does the same, with NaN as the host makes it; the op itself where there is none.
static uint32_t with_any_nan(uint32_t op)
{
    const uint32_t function = op - VECTOR_APPLY_F32;
    switch (function) {
    case OPFUNC_ADD: return VECTOR_ADD_F32;
    case OPFUNC_SUB: return VECTOR_SUB_F32;
    case OPFUNC_MUL: return VECTOR_MUL_F32;
    default: break;
    }
    const bool same = function == OPFUNC_REALDIV || vector_applies((opfunc)function, 1);
    return same ? VECTOR_APPLY + function : op;
}

// In fp32. SEN169_FP16 has no NaN: what is rounded to it is infinite.
static void pass_opfunc(rows_step *s, nan_readers *readers)
{
    const uint32_t function = s->op - VECTOR_APPLY_F32;
    const bool told = readers->x && s->rounding == VECTOR_AS_IS;
    const bool copies = function == OPFUNC_IDENTITY || function == OPFUNC_WHERE3;
    if (!told) s->op = with_any_nan(s->op);
    readers->x = told && copies;
    if (function == OPFUNC_WHERE3) readers->y |= told;
}

// From those behind a step to those before it.
static void pass_step(const rows_builder *b, rows_step *s, nan_readers *readers)
{
    // What other vector programs take as well is as it should be.
    const bool passes = s->value != ROWS_NONE && b->values[s->value].passes;
    const bool told = !passes || readers->value[s->value];
    switch (s->op) {
    case VECTOR_KEEP: readers->x |= told; return;
    case VECTOR_KEEP_Y: readers->y |= told; return;
    case VECTOR_KEPT_Y:
        if (passes) readers->value[s->value] |= readers->y;
        readers->y = false;
        return;
    case VECTOR_X_TO_Y:
        readers->x |= readers->y;
        readers->y = false;
        return;
    case VECTOR_KEPT_X:
        if (passes) readers->value[s->value] |= readers->x;
        break;
    default: break;
    }
    if (s->op == VECTOR_STORE_WIDE || vector_sums(s->op)) readers->x = true;
    else if (vector_is_formula(s->op)) readers->x = readers->y = true;
    else if (s->op >= VECTOR_APPLY_F32) pass_opfunc(s, readers);
    else if (ends_value(s->op)) readers->x = false;
}

static void relax_nan(const rows_builder *b, uint32_t count, rows_step *steps)
{
    nan_readers readers = {.x = false};
    while (count-- > 0) pass_step(b, &steps[count], &readers);
}

void rows_drop_roundings(const rows_builder *b, uint32_t count, rows_step *steps)
{
    relax_roundings(count, steps);
    relax_nan(b, count, steps);
}
