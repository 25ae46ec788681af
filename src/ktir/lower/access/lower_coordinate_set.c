// SPDX-License-Identifier: Apache-2.0
//
// Whether the coordinates of a tile are in the coordinate_set of its view, on all cores, in all
// iterations. The range of a constraint over all of them says so, or over halves of them, and
// their halves, where it does not: the range of a quotient or remainder is no closer than its
// operand's tells.
//
//     d0 mod 4 <= 1 where d0 = 4 i + t, i < 2, t < 2       0 to 3 of 0 to 5: open
//                                                          i = 0: 0 to 1 of 0 to 1: in; i = 1: in
#include "base/integer.h"
#include "ktir/lower/access/lower_access.h"

enum { MOST_ASKED = 1 << 18, VARIABLES = ISA_MAX_LOOPS + KTIR_MOST_RANK };

typedef struct {
    int64_t low[VARIABLES], high[VARIABLES];    // of the iterations, of the tile's dims
} part;

typedef struct {
    int64_t least, most;
} range;

typedef struct {
    const access *a;
    const access_box *box;
    uint32_t core;
    const ktir_expr *constraint;
    bool equal;
    uint32_t asked;
} question;

typedef enum { ALL_IN, SOME_OUT, UNANSWERED } answer;

// --- Ranges; false beyond 64 bits

static bool add_product(int64_t *sum, int64_t a, int64_t b)
{
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

static bool linear_range(const question *q, const part *p, const int64_t *factor, int64_t rest,
                         range *out)
{
    const access_box *box = q->box;
    const uint32_t rank = q->a->v.rank;
    int64_t by[VARIABLES] = {0};
    bool fits = true;
    for (uint32_t s = 0; s < q->a->v.set->symbols; s++)
        fits = fits && add_product(&rest, factor[rank + s], q->a->v.symbols[s]);
    for (uint32_t d = 0; d < rank; d++) {
        fits = fits && add_product(&rest, factor[d], box->base[d].at[q->core]) &&
               add_product(&rest, factor[d], box->low[d]) &&
               add_product(&by[ISA_MAX_LOOPS + d], factor[d], box->step[d]);
        for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
            fits = fits && add_product(&by[n], factor[d], box->base[d].loop[n]);
    }
    *out = (range){rest, rest};
    for (uint32_t v = 0; v < VARIABLES; v++)
        fits = fits && add_product(&out->least, by[v], by[v] < 0 ? p->high[v] : p->low[v]) &&
               add_product(&out->most, by[v], by[v] < 0 ? p->low[v] : p->high[v]);
    return fits;
}

static bool multiply(range a, range b, range *out)
{
    const int64_t ends[][2] = {{a.least, b.least}, {a.least, b.most}, {a.most, b.least},
                               {a.most, b.most}};
    *out = (range){INT64_MAX, INT64_MIN};
    for (uint32_t n = 0; n < 4; n++) {
        int64_t product;
        if (__builtin_mul_overflow(ends[n][0], ends[n][1], &product)) return false;
        if (product < out->least) out->least = product;
        if (product > out->most) out->most = product;
    }
    return true;
}

static bool divide(ktir_expr_kind kind, range a, range b, range *out)
{
    const int64_t by = b.least, up = kind == KTIR_EXPR_CEILDIV ? by - 1 : 0;
    if (by != b.most || by < 1 || __builtin_add_overflow(a.least, up, &a.least) ||
        __builtin_add_overflow(a.most, up, &a.most))
        return false;
    *out = (range){divide_down(a.least, by), divide_down(a.most, by)};
    if (kind != KTIR_EXPR_MOD) return true;
    const bool same = out->least == out->most;
    *out = same ? (range){a.least - out->least * by, a.most - out->least * by}
                : (range){0, by - 1};
    return true;
}

static bool range_of(const question *q, const part *p, const ktir_expr *e, range *out)
{
    int64_t factor[KTIR_MOST_NAMES], rest;
    range a, b;
    if (ktir_expr_linear(e, factor, &rest)) return linear_range(q, p, factor, rest, out);
    if (!range_of(q, p, e->left, &a) || !range_of(q, p, e->right, &b)) return false;
    if (e->kind == KTIR_EXPR_ADD)
        return !__builtin_add_overflow(a.least, b.least, &out->least) &&
               !__builtin_add_overflow(a.most, b.most, &out->most);
    return e->kind == KTIR_EXPR_MUL ? multiply(a, b, out) : divide(e->kind, a, b, out);
}

// --- Parts

static uint32_t widest(const part *p)
{
    uint32_t found = 0;
    for (uint32_t v = 1; v < VARIABLES; v++)
        if (p->high[v] - p->low[v] > p->high[found] - p->low[found]) found = v;
    return found;
}

static answer ask(question *q, const part *p)
{
    range values;
    if (q->asked++ == MOST_ASKED || !range_of(q, p, q->constraint, &values)) return UNANSWERED;
    if (q->equal ? !values.least && !values.most : values.least >= 0) return ALL_IN;
    if (values.most < 0 || (q->equal && values.least > 0)) return SOME_OUT;
    const uint32_t v = widest(p);
    if (p->low[v] == p->high[v]) return SOME_OUT;
    part half = *p;
    half.high[v] = p->low[v] + (p->high[v] - p->low[v]) / 2;
    const answer first = ask(q, &half);
    if (first != ALL_IN) return first;
    half.low[v] = half.high[v] + 1;
    half.high[v] = p->high[v];
    return ask(q, &half);
}

static spyre_status check_on_core(lowering *w, question *q)
{
    part all = {.low = {0}};
    for (uint32_t n = 0; n < w->depth; n++) all.high[n] = w->trips[n] - 1;
    for (uint32_t d = 0; d < q->a->v.rank; d++)
        all.high[ISA_MAX_LOOPS + d] = (q->box->high[d] - q->box->low[d]) / q->box->step[d];
    switch (ask(q, &all)) {
    case ALL_IN: return NULL;
    case SOME_OUT:
        return ktir_error(w->m, q->a->op, SPYRE_DEVICE_FAULT,
                          "compute tile %u: coordinates that are not in the coordinate_set of line "
                          "%u", w->first_tile + q->core, q->a->v.op->line);
    case UNANSWERED: break;
    }
    return LOWER_NO(w, q->a->op, "a coordinate_set of numbers beyond 2^63, or of quotients that "
                    "%d parts of the tile do not tell", MOST_ASKED);
}

spyre_status access_check_set(lowering *w, const access *a, const access_box *box)
{
    const ktir_set *set = a->v.set;
    for (uint32_t c = 0; set && c < set->count; c++)
        for (uint32_t core = 0; core < ISA_CORES; core++) {
            question q = {a, box, core, set->constraints[c], set->equal[c], 0};
            if (w->active >> core & 1) TRY(check_on_core(w, &q));
        }
    return NULL;
}
