// SPDX-License-Identifier: Apache-2.0
//
// Access tiles become strides and an offset of every core. What leaves a view, in any
// iteration on any core, is found here.
#include <string.h>

#include "ktir/lower/access/lower_access.h"

#define MOST_FACTOR ((int64_t)1 << 16)

void access_order(const lowering *w, const lowered_tensor *t, access *a)
{
    const ktir_map *order = ktir_tile_order(w->m, a->op);
    a->rank = t->rank;
    for (uint32_t k = 0; k < a->rank; k++) a->permutation[k] = k;
    if (order) (void)ktir_map_permutation(order, a->permutation);
}

const ktir_set *access_set(const lowering *w, const access *a)
{
    const ktir_set *set = ktir_tile_set(w->m, a->op);
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];
    bool is_box = !set || set->symbols || ktir_set_box(set, NULL, least, most);
    return is_box ? NULL : set;
}

spyre_status access_points(lowering *w, const lowered_tensor *t, access *a)
{
    const ktir_set *set = ktir_tile_set(w->m, a->op);
    int64_t least[KTIR_MOST_RANK] = {0}, most[KTIR_MOST_RANK];
    access_order(w, t, a);
    if (a->box) memcpy(least, a->box, a->rank * sizeof *least);
    else if (set && (set->symbols || !ktir_set_box(set, NULL, least, most)))
        return LOWER_NO(w, a->op, "its set has symbols");
    for (uint32_t k = 0; k < a->rank; k++) {
        a->least[k] = least[a->permutation[k]] + a->from[k];
        a->extent[k] = t->size[k];
    }
    return NULL;
}

// The value of a subscript: affine in values; variables of the operation count 0.
spyre_status access_subscript(lowering *w, const access *a, const ktir_expr *e, uint32_t own,
                       lowered_index *out, int64_t *factors)
{
    int64_t factor[KTIR_MOST_NAMES], constant;
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    ktir_bounds within = {0};
    for (uint32_t n = 0; n < KTIR_MOST_NAMES; n++) within.least[n] = 1;
    for (uint32_t k = 0; k < a->rank && own; k++) {
        within.least[a->permutation[k]] = a->least[k];
        within.most[a->permutation[k]] = a->least[k] + a->extent[k] - 1;
    }
    if (!ktir_expr_linear_within(e, &within, factor, &constant))
        return LOWER_NO(w, a->op, "a subscript that is not linear");
    *out = (lowered_index){.memory = LOWERING_NO_MEMORY};
    bool small = constant > -MOST_NUMBER && constant < MOST_NUMBER;
    for (uint32_t n = 0; n < map->dims; n++)
        small = small && factor[n] > -MOST_FACTOR && factor[n] < MOST_FACTOR;
    if (!small) return LOWER_NO(w, a->op, "a subscript with larger factors than 2^16");
    for (uint32_t c = 0; c < ISA_CORES; c++) out->at[c] = constant;
    for (uint32_t n = 0; n < own; n++) factors[n] = factor[n];
    for (uint32_t n = own; n < map->dims; n++) {
        const lowered_index *x = lower_operand(w, a->op, 1 + n - own)->index;
        if (!x || x->memory != LOWERING_NO_MEMORY)
            return LOWER_NO(w, a->op, "a subscript that is no number of the cores");
        if (!view_is_within(w, x, MOST_NUMBER)) return LOWER_NO(w, a->op, "an index beyond 2^40");
        for (uint32_t c = 0; c < ISA_CORES; c++)
            if (w->active >> c & 1) out->at[c] += factor[n] * x->at[c];
        for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) out->loop[l] += factor[n] * x->loop[l];
    }
    if (view_is_within(w, out, 2 * MOST_NUMBER)) return NULL;
    return LOWER_NO(w, a->op, "a subscript beyond 2^40");
}

// coordinates + [low, high] stay within dim d of the view, on all cores, in all iterations.
spyre_status access_check_bounds(lowering *w, const access *a, const lowered_index *x, uint32_t d,
                          int64_t low, int64_t high)
{
    const view *v = &a->v;
    for (uint32_t n = 0; n < w->depth; n++) {
        int64_t reach;
        if (__builtin_mul_overflow(x->loop[n], w->trips[n] - 1, &reach) ||
            reach <= -ISA_MOST_REACH || reach >= ISA_MOST_REACH)
            return LOWER_NO(w, a->op, "a subscript beyond 2^56");
        if (reach < 0) low += reach;
        else high += reach;
    }
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        if (!(w->active >> c & 1)) continue;
        int64_t first = x->at[c] + low, last = x->at[c] + high;
        if (first < v->least[d] || last > v->most[d])
            return ktir_error(w->m, a->op, SPYRE_DEVICE_FAULT,
                              "compute tile %u: coordinates %lld to %lld of dim %u, the view of "
                              "line %u has %lld to %lld", w->first_tile + c, (long long)first,
                              (long long)last, d, v->op->line, (long long)v->least[d],
                              (long long)v->most[d]);
    }
    return NULL;
}

void access_advance(access *a, const lowered_index *x, int64_t bytes, int64_t shift)
{
    for (uint32_t c = 0; c < ISA_CORES; c++) a->address.at[c] += (x->at[c] + shift) * bytes;
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++) a->address.loop[n] += x->loop[n] * bytes;
}

// The base coordinate along dim d: the subscript, or the base_map of all subscripts.
spyre_status access_base(lowering *w, const access *a, uint32_t d, lowered_index *out)
{
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    const ktir_attribute *base = ktir_find(w->m, a->op, KTIR_KEY_BASE_MAP);
    int64_t none[KTIR_MOST_NAMES], factor[KTIR_MOST_NAMES], constant;
    if (!base) return access_subscript(w, a, map->results[d], 0, out, none);
    bool small = ktir_expr_linear(base->map->results[d], factor, &constant) &&
                 constant > -MOST_NUMBER && constant < MOST_NUMBER;
    for (uint32_t r = 0; small && r < map->count; r++)
        small = factor[r] > -MOST_FACTOR && factor[r] < MOST_FACTOR;
    if (!small) return LOWER_NO(w, a->op, "a base_map that is not linear, or of large factors");
    *out = (lowered_index){.memory = LOWERING_NO_MEMORY};
    for (uint32_t c = 0; c < ISA_CORES; c++) out->at[c] = constant;
    for (uint32_t r = 0; r < map->count; r++) {
        lowered_index x;
        TRY(access_subscript(w, a, map->results[r], 0, &x, none));
        for (uint32_t c = 0; c < ISA_CORES; c++) out->at[c] += factor[r] * x.at[c];
        for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) out->loop[l] += factor[r] * x.loop[l];
    }
    if (view_is_within(w, out, 2 * MOST_NUMBER)) return NULL;
    return LOWER_NO(w, a->op, "a base coordinate beyond 2^40");
}

spyre_status access_direct(lowering *w, access *a)
{
    access_box box;
    a->address = a->v.first;
    for (uint32_t k = 0; k < a->rank; k++) {
        uint32_t d = a->permutation[k];
        const lowered_index *x = &box.base[d];
        box.low[d] = a->least[k];
        box.high[d] = a->least[k] + a->extent[k] - 1;
        box.step[d] = 1;
        TRY(access_base(w, a, d, &box.base[d]));
        TRY(access_check_bounds(w, a, x, d, box.low[d], box.high[d]));
        a->stride[k] = a->v.stride[d] * a->v.element;
        access_advance(a, x, a->stride[k], a->least[k] - a->v.origin[d]);
    }
    return access_check_set(w, a, &box);
}

// The operand in memory: an offset of every core by a parameter, or one for all.
spyre_status access_operand(lowering *w, const ktir_op *op, const access *a,
                            spyre_format format, isa_operand *out)
{
    lowered_index address = a->address;
    int64_t offset;
    address.memory = LOWERING_NO_MEMORY;
    *out = (isa_operand){.space = ISA_SPACE_MEMORY, .format = format, .arg = a->v.argument,
                         .slot = ISA_NO_SLOT};
    memcpy(out->loop_stride, address.loop, sizeof out->loop_stride);
    memset(address.loop, 0, sizeof address.loop);
    if (lower_uniform(w, &address, &offset)) {
        out->offset = offset;
        return NULL;
    }
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (!(w->active >> c & 1)) address.at[c] = 0;
    return lower_slot(w, op, address.at, &out->slot);
}

spyre_status access_move(lowering *w, const ktir_op *op, const access *a, const lowered_tensor *t)
{
    uint32_t memory = access_loads(a) ? 1 : 0;
    lowered_tile tile = {.i = {.opcode = a->opcode, .operand_count = 2}, .rank = t->rank};
    TRY(access_operand(w, op, a, t->format, &tile.i.operand[memory]));
    tile.i.operand[1 - memory] = (isa_operand){.format = t->format, .offset = t->offset};
    for (uint32_t k = 0; k < t->rank; k++) {
        tile.size[k] = t->size[k];
        tile.stride[memory][k] = a->stride[k];
        tile.stride[1 - memory][k] = t->stride[k];
    }
    return lower_tile(w, op, &tile);
}
