// SPDX-License-Identifier: Apache-2.0
//
// Views: sizes, strides and where they begin, for every core. A distributed view whose parts
// lie side by side is one view.
#include "ktir/lower/access/lower_access.h"

enum { MOST_SLICES = 16 };

static spyre_status number_at(lowering *w, const ktir_op *op, ktir_key key, uint32_t d,
                              uint32_t *next, int64_t *out)
{
    const ktir_attribute *list = ktir_find(w->m, op, key);
    *out = list->list[d];
    if (*out != KTIR_OPERAND) return NULL;
    const lowered_index *x = lower_operand(w, op, (*next)++)->index;
    if (x && lower_uniform(w, x, out)) return NULL;
    w->wants_unroll = true;
    return LOWER_NO(w, op, "a size or stride that differs between cores or iterations");
}

// Numbers of addresses and subscripts that sums and products of them are safe with.
bool view_is_within(const lowering *w, const lowered_index *x, int64_t bound)
{
    bool within = true;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (w->active >> c & 1) within = within && x->at[c] > -bound && x->at[c] < bound;
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
        within = within && x->loop[n] > -bound && x->loop[n] < bound;
    return within;
}

static void forget_others(const lowering *w, lowered_index *x)
{
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (!(w->active >> c & 1)) x->at[c] = 0;
}

static spyre_status place_of(lowering *w, const ktir_op *op, view *v)
{
    const lowered_index *base = lower_operand(w, op, 0)->index;
    int64_t address;
    int64_t space = ktir_number(w->m, op, KTIR_KEY_MEMORY_SPACE, KTIR_HBM);
    if (space != KTIR_HBM) return place_of_view(w, op, space, v);
    v->first = *base;
    if (base->memory != LOWERING_NO_MEMORY) {
        v->argument = (uint16_t)base->memory;
    } else {
        if (!lower_uniform(w, base, &address))
            return LOWER_NO(w, op, "a constant address that differs between cores or iterations");
        uint32_t p = 0;
        while (p < w->call->placed_count && (w->call->placed[p].space != KTIR_HBM ||
                                             w->call->placed[p].address != address))
            p++;
        if (p == w->call->placed_count)
            return LOWER_NO(w, op, "address %lld, where no view begins", (long long)address);
        v->argument = (uint16_t)(w->first_placed + p);
        v->first = *lower_index_of(w, 0);
    }
    if (!view_is_within(w, &v->first, MOST_NUMBER))
        return LOWER_NO(w, op, "an address beyond 2^40");
    forget_others(w, &v->first);
    for (uint32_t c = 0; c < ISA_CORES; c++) v->first.at[c] *= v->element;
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++) v->first.loop[n] *= v->element;
    return NULL;
}

static void whole_range(view *v)
{
    for (uint32_t d = 0; d < v->rank; d++) {
        v->least[d] = v->origin[d];
        v->most[d] = v->origin[d] + v->size[d] - 1;
    }
}

// Sizes that are values, in their order.
static void find_symbols(const lowering *w, const view *v, int64_t *symbols)
{
    const ktir_attribute *sizes = ktir_find(w->m, v->op, KTIR_KEY_SIZES);
    uint32_t count = 0;
    for (uint32_t d = 0; d < sizes->count; d++)
        if (sizes->list[d] == KTIR_OPERAND) symbols[count++] = v->size[d];
}

// The box of the view's coordinate_set; false when it has none, or another set.
static bool coordinate_box(const lowering *w, const view *v, int64_t *least, int64_t *most)
{
    const ktir_attribute *set = ktir_find(w->m, v->op, KTIR_KEY_COORDINATE_SET);
    int64_t symbols[KTIR_MOST_RANK];
    find_symbols(w, v, symbols);
    return set && ktir_set_box(set->set, symbols, least, most);
}

// Coordinates are below the sizes and in the coordinate_set.
static spyre_status set_range(lowering *w, view *v)
{
    const ktir_attribute *set = ktir_find(w->m, v->op, KTIR_KEY_COORDINATE_SET);
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];
    whole_range(v);
    if (!set) return NULL;
    if (!coordinate_box(w, v, least, most)) {
        v->set = set->set;
        find_symbols(w, v, v->symbols);
        return NULL;
    }
    for (uint32_t d = 0; d < v->rank; d++) {
        if (least[d] > v->least[d]) v->least[d] = least[d];
        if (most[d] < v->most[d]) v->most[d] = most[d];
    }
    return NULL;
}

static spyre_status memory_view(lowering *w, const ktir_op *op, view *v)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    uint32_t next = 1;
    *v = (view){.op = op, .rank = type->rank,
                .element = ktir_element_describe(type->element)->bytes};
    for (uint32_t d = 0; d < v->rank; d++)
        TRY(number_at(w, op, KTIR_KEY_SIZES, d, &next, &v->size[d]));
    for (uint32_t d = 0; d < v->rank; d++)
        TRY(number_at(w, op, KTIR_KEY_STRIDES, d, &next, &v->stride[d]));
    int64_t reach = 0, bytes;
    for (uint32_t d = 0; d < v->rank; d++) {
        if (v->size[d] < 0 || v->size[d] >= MOST_NUMBER || v->stride[d] < 0)
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "size %lld, stride %lld of dim %u",
                              (long long)v->size[d], (long long)v->stride[d], d);
        if (v->size[d] < 2) v->stride[d] = 0;
        if (__builtin_mul_overflow(v->size[d] * v->element, v->stride[d], &bytes) ||
            __builtin_add_overflow(reach, bytes, &reach) || reach >= ISA_MOST_REACH)
            return LOWER_NO(w, op, "a view that reaches beyond 2^56 bytes");
    }
    return place_of(w, op, v);
}

// An entry of a slice: a number that is the same on all cores.
static spyre_status subview(lowering *w, const ktir_op *op, view *v)
{
    static const ktir_key keys[] = {KTIR_KEY_OFFSETS, KTIR_KEY_SIZES, KTIR_KEY_STRIDES};
    int64_t numbers[3][KTIR_MOST_RANK];
    uint32_t next = 1;
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t d = 0; d < v->rank; d++)
            TRY(number_at(w, op, keys[k], d, &next, &numbers[k][d]));
    for (uint32_t d = 0; d < v->rank; d++) {
        int64_t offset = numbers[0][d], size = numbers[1][d], stride = numbers[2][d];
        if (offset < 0 || size < 1 || stride < 1 || offset >= v->size[d] ||
            (v->size[d] - 1 - offset) / stride < size - 1)
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT,
                              "offset %lld, size %lld, stride %lld run off dim %u, which has %lld",
                              (long long)offset, (long long)size, (long long)stride, d,
                              (long long)v->size[d]);
        for (uint32_t c = 0; c < ISA_CORES; c++)
            v->first.at[c] += offset * v->stride[d] * v->element;
        v->size[d] = size;
        v->stride[d] = size > 1 ? v->stride[d] * stride : 0;
    }
    v->op = op;
    return NULL;
}

// Bytes that so many coordinates of a dim are apart; false beyond any address.
static bool distance_of(const view *v, uint32_t d, int64_t coordinates, int64_t *out)
{
    return !__builtin_mul_overflow(coordinates, v->stride[d] * v->element, out) &&
           *out > -ISA_MOST_REACH && *out < ISA_MOST_REACH;
}

// Parts that lie as one view would: same memory, same strides, the distance that their coordinates
// have. False when they do not.
static bool join_part(const lowering *w, view *whole, const view *part)
{
    bool same = whole->argument == part->argument && whole->in_lx == part->in_lx &&
                whole->owner == part->owner;
    int64_t shift = 0, bytes;
    for (uint32_t d = 0; d < whole->rank && same; d++) {
        same = whole->stride[d] == part->stride[d] &&
               distance_of(whole, d, part->origin[d] - whole->origin[d], &bytes);
        if (same) shift += bytes;
    }
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (w->active >> c & 1) same = same && part->first.at[c] - whole->first.at[c] == shift;
    if (!same) return false;
    for (uint32_t d = 0; d < whole->rank; d++) {
        int64_t low = whole->origin[d] < part->origin[d] ? whole->origin[d] : part->origin[d];
        int64_t high = whole->origin[d] + whole->size[d], other = part->origin[d] + part->size[d];
        if (other > high) high = other;
        int64_t moved = (low - whole->origin[d]) * whole->stride[d] * whole->element;
        for (uint32_t c = 0; c < ISA_CORES; c++) whole->first.at[c] += moved;
        whole->origin[d] = low;
        whole->size[d] = high - low;
    }
    return true;
}

static spyre_status set_origin(lowering *w, const ktir_op *op, view *v)
{
    int64_t most[KTIR_MOST_RANK];
    if (!coordinate_box(w, v, v->origin, most))
        return LOWER_NO(w, op, "a part whose coordinate_set is no box");
    for (uint32_t d = 0; d < v->rank; d++)
        if (v->origin[d] <= -MOST_NUMBER || v->origin[d] >= MOST_NUMBER)
            return LOWER_NO(w, op, "a part at coordinate %lld of dim %u", (long long)v->origin[d],
                            d);
    return NULL;
}

static spyre_status parts_of(lowering *w, const ktir_op *maker, views *out)
{
    bool joins = true;
    if (maker->operand_count > MOST_PARTS)
        return LOWER_NO(w, maker, "more than %d parts", MOST_PARTS);
    for (uint32_t p = 0; p < maker->operand_count; p++) {
        TRY(memory_view(w, ktir_maker(w->m, maker, p), &out->part[p]));
        TRY(set_origin(w, maker, &out->part[p]));
    }
    view whole = out->part[0];
    for (uint32_t p = 1; p < maker->operand_count && joins; p++)
        joins = join_part(w, &whole, &out->part[p]);
    out->distributed = true;
    out->count = joins ? 1 : maker->operand_count;
    if (joins) out->part[0] = whole;
    whole_range(&out->part[0]);
    return NULL;
}

spyre_status view_find_parts(lowering *w, const ktir_op *op, uint32_t n, views *out)
{
    const ktir_op *maker = ktir_maker(w->m, op, n);
    out->count = 1;
    out->distributed = false;
    if (maker->opcode == KTIR_OP_MEMORY_VIEW) {
        TRY(memory_view(w, maker, &out->part[0]));
        return set_range(w, &out->part[0]);
    }
    if (maker->opcode == KTIR_OP_DISTRIBUTED_VIEW) return parts_of(w, maker, out);
    const ktir_op *slices[MOST_SLICES];
    uint32_t count = 0;
    for (; maker->opcode == KTIR_OP_SUBVIEW; maker = ktir_maker(w->m, maker, 0)) {
        if (count == MOST_SLICES) return LOWER_NO(w, maker, "a view of more views");
        slices[count++] = maker;
    }
    if (maker->opcode != KTIR_OP_MEMORY_VIEW) return LOWER_NO(w, maker, "parts of parts");
    TRY(memory_view(w, maker, &out->part[0]));
    while (count-- > 0) TRY(subview(w, slices[count], &out->part[0]));
    whole_range(&out->part[0]);
    return NULL;
}

spyre_status view_find(lowering *w, const ktir_op *op, uint32_t n, view *v)
{
    views all;
    TRY(view_find_parts(w, op, n, &all));
    *v = all.part[0];
    if (v->in_lx) return LOWER_NO(w, op, "indices into LX, or of it");
    if (v->set) return LOWER_NO(w, op, "indices into a coordinate_set that is no box, or of it");
    if (all.count == 1) return NULL;
    return LOWER_NO(w, op, "parts that do not lie side by side in one memory");
}
