// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores and gathers: views and access tiles become strides and an offset of every core.
// What leaves a view, in any iteration on any core, is found here.
#include <string.h>

#include "ktir/lowering.h"

typedef struct {
    const ktir_op *op;
    uint16_t argument;                  // of the program
    lowered_index first;                // bytes from the argument's begin
    int64_t element;
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK], stride[KTIR_MOST_RANK];       // elements
    int64_t origin[KTIR_MOST_RANK];     // coordinates count from here
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];        // coordinates that it has
} view;

#define MOST_NUMBER ((int64_t)1 << 40)
#define MOST_FACTOR ((int64_t)1 << 16)

// --- Views

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
static bool is_within(const lowering *w, const lowered_index *x, int64_t bound)
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
    if (ktir_number(w->m, op, KTIR_KEY_MEMORY_SPACE, KTIR_HBM) != KTIR_HBM)
        return LOWER_NO(w, op, "a view of LX: what lies there is for the card's tensors");
    v->first = *base;
    if (base->memory != LOWERING_NO_MEMORY) {
        v->argument = (uint16_t)base->memory;
    } else {
        if (!lower_uniform(w, base, &address))
            return LOWER_NO(w, op, "a constant address that differs between cores or iterations");
        uint32_t p = 0;
        while (p < w->call->placed_count && w->call->placed[p].address != address) p++;
        if (p == w->call->placed_count)
            return LOWER_NO(w, op, "address %lld, where no view begins", (long long)address);
        v->argument = (uint16_t)(w->first_placed + p);
        v->first = *lower_index_of(w, 0);
    }
    if (!is_within(w, &v->first, MOST_NUMBER)) return LOWER_NO(w, op, "an address beyond 2^40");
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

// The box of the view's coordinate_set; false when it has none, or another set.
static bool coordinate_box(const lowering *w, const view *v, int64_t *least, int64_t *most)
{
    const ktir_attribute *set = ktir_find(w->m, v->op, KTIR_KEY_COORDINATE_SET);
    const ktir_attribute *sizes = ktir_find(w->m, v->op, KTIR_KEY_SIZES);
    int64_t symbols[KTIR_MOST_RANK];
    uint32_t count = 0;
    for (uint32_t d = 0; d < sizes->count; d++)
        if (sizes->list[d] == KTIR_OPERAND) symbols[count++] = v->size[d];
    return set && ktir_set_box(set->set, symbols, least, most);
}

// Coordinates are below the sizes and in the coordinate_set.
static spyre_status set_range(lowering *w, view *v)
{
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];
    whole_range(v);
    if (!ktir_find(w->m, v->op, KTIR_KEY_COORDINATE_SET)) return NULL;
    if (!coordinate_box(w, v, least, most))
        return LOWER_NO(w, v->op, "a coordinate_set that is no box");
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

// Parts that lie as one view would: same memory, same strides, the distance that their coordinates
// have. False when they do not.
static bool join_part(const lowering *w, view *whole, const view *part)
{
    bool same = whole->argument == part->argument;
    int64_t shift = 0;
    for (uint32_t d = 0; d < whole->rank; d++) {
        same = same && whole->stride[d] == part->stride[d];
        shift += (part->origin[d] - whole->origin[d]) * whole->stride[d] * whole->element;
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
    if (coordinate_box(w, v, v->origin, most)) return NULL;
    return LOWER_NO(w, op, "a part whose coordinate_set is no box");
}

static const ktir_op *maker_of(const lowering *w, const ktir_op *op, uint32_t n)
{
    return &w->m->ops.items[w->m->values.items[ktir_operand(w->m, op, n)].definition];
}

// The view that operand n is; of a distributed one, when its parts do not join, the first `count`.
enum { MOST_PARTS = 32, MOST_SLICES = 16 };
typedef struct {
    uint32_t count;
    view part[MOST_PARTS];
} views;

static spyre_status parts_of(lowering *w, const ktir_op *maker, views *out)
{
    bool joins = true;
    if (maker->operand_count > MOST_PARTS)
        return LOWER_NO(w, maker, "more than %d parts", MOST_PARTS);
    for (uint32_t p = 0; p < maker->operand_count; p++) {
        TRY(memory_view(w, maker_of(w, maker, p), &out->part[p]));
        TRY(set_origin(w, maker, &out->part[p]));
    }
    view whole = out->part[0];
    for (uint32_t p = 1; p < maker->operand_count && joins; p++)
        joins = join_part(w, &whole, &out->part[p]);
    out->count = joins ? 1 : maker->operand_count;
    if (joins) out->part[0] = whole;
    whole_range(&out->part[0]);
    return NULL;
}

static spyre_status views_of(lowering *w, const ktir_op *op, uint32_t n, views *out)
{
    const ktir_op *maker = maker_of(w, op, n);
    out->count = 1;
    if (maker->opcode == KTIR_OP_MEMORY_VIEW) {
        TRY(memory_view(w, maker, &out->part[0]));
        return set_range(w, &out->part[0]);
    }
    if (maker->opcode == KTIR_OP_DISTRIBUTED_VIEW) return parts_of(w, maker, out);
    const ktir_op *slices[MOST_SLICES];
    uint32_t count = 0;
    for (; maker->opcode == KTIR_OP_SUBVIEW; maker = maker_of(w, maker, 0)) {
        if (count == MOST_SLICES) return LOWER_NO(w, maker, "a view of more views");
        slices[count++] = maker;
    }
    if (maker->opcode != KTIR_OP_MEMORY_VIEW) return LOWER_NO(w, maker, "parts of parts");
    TRY(memory_view(w, maker, &out->part[0]));
    while (count-- > 0) TRY(subview(w, slices[count], &out->part[0]));
    whole_range(&out->part[0]);
    return NULL;
}

static spyre_status view_of(lowering *w, const ktir_op *op, uint32_t n, view *v)
{
    views all;
    TRY(views_of(w, op, n, &all));
    *v = all.part[0];
    if (all.count == 1) return NULL;
    return LOWER_NO(w, op, "parts that do not lie side by side in one memory");
}

// --- Access tiles

typedef struct {
    const ktir_op *op;                  // that constructs the tile
    view v;
    uint32_t rank;
    uint32_t permutation[KTIR_MOST_RANK];
    int64_t least[KTIR_MOST_RANK], extent[KTIR_MOST_RANK];      // by dim of the tile
    lowered_index address;              // of its first point, in bytes
    int64_t stride[KTIR_MOST_RANK];     // bytes, by dim of the tile
} access;

static spyre_status points_of(lowering *w, const lowered_tensor *t, access *a)
{
    const ktir_attribute *set = ktir_find(w->m, a->op, KTIR_KEY_TILE_SET);
    const ktir_attribute *order = ktir_find(w->m, a->op, KTIR_KEY_TILE_ORDER);
    int64_t least[KTIR_MOST_RANK] = {0}, most[KTIR_MOST_RANK];
    if (!set) set = ktir_find(w->m, a->op, KTIR_KEY_SPACE_SET);
    if (!order) order = ktir_find(w->m, a->op, KTIR_KEY_SPACE_ORDER);
    a->rank = t->rank;
    for (uint32_t k = 0; k < a->rank; k++) a->permutation[k] = k;
    if (order) (void)ktir_map_permutation(order->map, a->permutation);
    if (set && (set->set->symbols || !ktir_set_box(set->set, NULL, least, most)))
        return LOWER_NO(w, a->op, "a set that is no box");
    for (uint32_t k = 0; k < a->rank; k++) {
        a->least[k] = least[a->permutation[k]];
        a->extent[k] = t->size[k];
    }
    return NULL;
}

// The value of a subscript: affine in values; variables of the operation count 0.
static spyre_status subscript(lowering *w, const access *a, const ktir_expr *e, uint32_t own,
                              lowered_index *out, int64_t *factors)
{
    int64_t factor[KTIR_MOST_NAMES], constant;
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    if (!ktir_expr_linear(e, factor, &constant))
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
        if (!is_within(w, x, MOST_NUMBER)) return LOWER_NO(w, a->op, "an index beyond 2^40");
        for (uint32_t c = 0; c < ISA_CORES; c++)
            if (w->active >> c & 1) out->at[c] += factor[n] * x->at[c];
        for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) out->loop[l] += factor[n] * x->loop[l];
    }
    if (is_within(w, out, 2 * MOST_NUMBER)) return NULL;
    return LOWER_NO(w, a->op, "a subscript beyond 2^40");
}

// coordinates + [low, high] stay within dim d of the view, on all cores, in all iterations.
static spyre_status check_bounds(lowering *w, const access *a, const lowered_index *x, uint32_t d,
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

static void advance(access *a, const lowered_index *x, int64_t bytes, int64_t shift)
{
    for (uint32_t c = 0; c < ISA_CORES; c++) a->address.at[c] += (x->at[c] + shift) * bytes;
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++) a->address.loop[n] += x->loop[n] * bytes;
}

// The base coordinate along dim d: the subscript, or the base_map of all subscripts.
static spyre_status base_of(lowering *w, const access *a, uint32_t d, lowered_index *out)
{
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    const ktir_attribute *base = ktir_find(w->m, a->op, KTIR_KEY_BASE_MAP);
    int64_t none[KTIR_MOST_NAMES], factor[KTIR_MOST_NAMES], constant;
    if (!base) return subscript(w, a, map->results[d], 0, out, none);
    bool small = ktir_expr_linear(base->map->results[d], factor, &constant) &&
                 constant > -MOST_NUMBER && constant < MOST_NUMBER;
    for (uint32_t r = 0; small && r < map->count; r++)
        small = factor[r] > -MOST_FACTOR && factor[r] < MOST_FACTOR;
    if (!small) return LOWER_NO(w, a->op, "a base_map that is not linear, or of large factors");
    *out = (lowered_index){.memory = LOWERING_NO_MEMORY};
    for (uint32_t c = 0; c < ISA_CORES; c++) out->at[c] = constant;
    for (uint32_t r = 0; r < map->count; r++) {
        lowered_index x;
        TRY(subscript(w, a, map->results[r], 0, &x, none));
        for (uint32_t c = 0; c < ISA_CORES; c++) out->at[c] += factor[r] * x.at[c];
        for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) out->loop[l] += factor[r] * x.loop[l];
    }
    if (is_within(w, out, 2 * MOST_NUMBER)) return NULL;
    return LOWER_NO(w, a->op, "a base coordinate beyond 2^40");
}

static spyre_status direct(lowering *w, access *a)
{
    a->address = a->v.first;
    for (uint32_t k = 0; k < a->rank; k++) {
        uint32_t d = a->permutation[k];
        lowered_index x;
        TRY(base_of(w, a, d, &x));
        TRY(check_bounds(w, a, &x, d, a->least[k], a->least[k] + a->extent[k] - 1));
        a->stride[k] = a->v.stride[d] * a->v.element;
        advance(a, &x, a->stride[k], a->least[k] - a->v.origin[d]);
    }
    return NULL;
}

// The operand in memory: an offset of every core by a parameter, or one for all.
static spyre_status memory_operand(lowering *w, const ktir_op *op, const access *a,
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

static spyre_status move(lowering *w, const ktir_op *op, isa_opcode opcode, const access *a,
                         const lowered_tensor *t)
{
    uint32_t memory = opcode == ISA_STORE ? 0 : 1;
    lowered_tile tile = {.i = {.opcode = opcode, .operand_count = 2}, .rank = t->rank};
    TRY(memory_operand(w, op, a, t->format, &tile.i.operand[memory]));
    tile.i.operand[1 - memory] = (isa_operand){.format = t->format, .offset = t->offset};
    for (uint32_t k = 0; k < t->rank; k++) {
        tile.size[k] = t->size[k];
        tile.stride[memory][k] = a->stride[k];
        tile.stride[1 - memory][k] = t->stride[k];
    }
    return lower_tile(w, op, &tile);
}

// --- Gathers: one dim of the view by a view of indices, linear in the tile's variables.

typedef struct {
    const ktir_attribute *views;
    uint32_t own, dim;                  // variables; the dim of the view that is looked up
    int64_t factor[KTIR_MOST_NAMES];    // of the index along variables
} gather;

static spyre_status indirect(lowering *w, const ktir_op *op, access *a, gather *g, access *index)
{
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    uint32_t result = 0, found = 0, first_view;
    g->views = ktir_find(w->m, a->op, KTIR_KEY_VIEWS);
    g->own = ktir_find(w->m, a->op, KTIR_KEY_VARIABLES)->count;
    first_view = 1 + map->dims - g->own;
    a->address = a->v.first;
    memset(a->stride, 0, sizeof a->stride);
    for (uint32_t d = 0; d < g->views->count; d++) {
        bool looked_up = g->views->list[d] >= 0;
        const access *of = a;
        uint32_t dims = 1;
        if (looked_up) {
            if (found++) return LOWER_NO(w, a->op, "indices in more than one dim");
            g->dim = d;
            *index = (access){.op = a->op, .rank = a->rank};
            TRY(view_of(w, a->op, first_view + (uint32_t)g->views->list[d], &index->v));
            index->address = index->v.first;
            dims = index->v.rank;
            of = index;
        }
        for (uint32_t n = 0; n < dims; n++, result++) {
            int64_t factor[KTIR_MOST_NAMES] = {0}, low = 0, high = 0;
            uint32_t at = looked_up ? n : d;
            access *to = looked_up ? index : a;
            lowered_index x;
            TRY(subscript(w, a, map->results[result], g->own, &x, factor));
            int64_t bytes = of->v.stride[at] * of->v.element;
            for (uint32_t k = 0; k < a->rank; k++) {
                int64_t f = factor[a->permutation[k]], first = f * a->least[k];
                int64_t last = f * (a->least[k] + a->extent[k] - 1);
                low += first < last ? first : last;
                high += first < last ? last : first;
                to->stride[k] += f * bytes;
                for (uint32_t c = 0; c < ISA_CORES; c++) to->address.at[c] += first * bytes;
            }
            TRY(check_bounds(w, of, &x, at, low, high));
            advance(to, &x, bytes, -of->v.origin[at]);
        }
    }
    return found == 1 ? NULL : LOWER_NO(w, op, "no indices");
}

// The indices of all points as int32 in LX.
static spyre_status load_indices(lowering *w, const ktir_op *op, const access *a, const access *ix,
                                 lowered_tensor *out)
{
    bool wide = ix->v.element == 8;
    spyre_format format = wide ? SPYRE_FORMAT_IEEE_INT64 : SPYRE_FORMAT_IEEE_INT32;
    lowered_tensor loaded;
    access dense = *ix;
    int64_t size[KTIR_MOST_RANK];
    // Variables that the index does not depend on are not loaded.
    for (uint32_t k = 0; k < a->rank; k++) size[k] = ix->stride[k] ? a->extent[k] : 1;
    TRY(lower_scratch(w, op, format, a->rank, size, lower_number(w, op), &loaded));
    TRY(move(w, op, ISA_LOAD, &dense, &loaded));
    *out = loaded;
    if (wide) {
        TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, a->rank, size, lower_number(w, op),
                          out));
        TRY(lower_copy(w, op, out, &loaded));
    }
    for (uint32_t k = 0; k < a->rank; k++)
        if (!ix->stride[k]) out->stride[k] = 0;
    return NULL;
}

static spyre_status gather_load(lowering *w, const ktir_op *op, access *a, const lowered_tensor *t)
{
    gather g = {0};
    access index;
    lowered_tensor rows;
    TRY(indirect(w, op, a, &g, &index));
    TRY(load_indices(w, op, a, &index, &rows));
    lowered_tile tile = {.i = {.opcode = ISA_GATHER, .operand_count = 3,
                               .row_stride = a->v.stride[g.dim] * a->v.element,
                               .row_count = a->v.size[g.dim]},
                         .rank = t->rank};
    TRY(memory_operand(w, op, a, t->format, &tile.i.operand[1]));
    tile.i.operand[0] = (isa_operand){.format = t->format, .offset = t->offset};
    tile.i.operand[2] = (isa_operand){.format = rows.format, .offset = rows.offset};
    for (uint32_t k = 0; k < t->rank; k++) {
        tile.size[k] = t->size[k];
        tile.stride[0][k] = t->stride[k];
        tile.stride[1][k] = a->stride[k];
        tile.stride[2][k] = rows.stride[k];
    }
    return lower_tile(w, op, &tile);
}

// --- Load and store

// One instruction for the part of the tile that lies in `v`; *out_count elements.
static spyre_status move_part(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                              const int64_t *base, const lowered_tensor *t, int64_t *out_count)
{
    const view *v = &a->v;
    lowered_tensor part = *t;
    a->address = v->first;
    *out_count = 1;
    for (uint32_t k = 0; k < a->rank; k++) {
        uint32_t d = a->permutation[k];
        int64_t low = base[d] + a->least[k], from = low, to = low + a->extent[k] - 1;
        if (from < v->origin[d]) from = v->origin[d];
        if (to >= v->origin[d] + v->size[d]) to = v->origin[d] + v->size[d] - 1;
        if (from > to) {
            *out_count = 0;
            return NULL;
        }
        part.size[k] = to - from + 1;
        part.offset += (from - low) * t->stride[k];
        a->stride[k] = v->stride[d] * v->element;
        for (uint32_t c = 0; c < ISA_CORES; c++)
            a->address.at[c] += (from - v->origin[d]) * a->stride[k];
        *out_count *= part.size[k];
    }
    return move(w, op, opcode, a, &part);
}

// A tile over several parts: where it begins is known and the same on all cores.
static spyre_status move_parts(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                               const views *all, const lowered_tensor *t)
{
    int64_t base[KTIR_MOST_RANK], wanted = 1, moved = 0;
    for (uint32_t d = 0; d < a->rank; d++) {
        lowered_index x;
        TRY(base_of(w, a, d, &x));
        wanted *= t->size[d];
        if (lower_uniform(w, &x, &base[d])) continue;
        w->wants_unroll = true;
        return LOWER_NO(w, a->op, "another place in parts of memory for every core");
    }
    for (uint32_t p = 0; p < all->count; p++) {
        int64_t count;
        a->v = all->part[p];
        TRY(move_part(w, op, opcode, a, base, t, &count));
        moved += count;
    }
    if (moved == wanted) return NULL;
    return ktir_error(w->m, a->op, SPYRE_DEVICE_FAULT,
                      "%lld of its %lld coordinates are in the parts of the view",
                      (long long)moved, (long long)wanted);
}

static spyre_status move_tile(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                              const lowered_tensor *t)
{
    views all;
    TRY(views_of(w, a->op, 0, &all));
    TRY(points_of(w, t, a));
    a->v = all.part[0];
    if (all.count > 1) return move_parts(w, op, opcode, a, &all, t);
    TRY(direct(w, a));
    return move(w, op, opcode, a, t);
}

spyre_status lower_load(lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    access a = {.op = maker_of(w, op, 0)};
    int64_t size[KTIR_MOST_RANK];
    lowered_tensor *t;
    for (uint32_t d = 0; d < type->rank; d++) {
        size[d] = type->size[d];
        if (size[d] == KTIR_DYNAMIC) size[d] = ktir_operand_type(w->m, op, 0)->size[d];
        if (size[d] == KTIR_DYNAMIC) return LOWER_NO(w, op, "a tile of unknown size");
    }
    TRY(lower_new(w, op, op->first_result, type->element, type->rank, size, &t));
    if (a.op->opcode != KTIR_OP_INDIRECT_TILE) return move_tile(w, op, ISA_LOAD, &a, t);
    TRY(view_of(w, a.op, 0, &a.v));
    TRY(points_of(w, t, &a));
    return gather_load(w, op, &a, t);
}

spyre_status lower_store(lowering *w, const ktir_op *op)
{
    access a = {.op = maker_of(w, op, 1)};
    lowered_tensor t;
    if (a.op->opcode == KTIR_OP_INDIRECT_TILE)
        return LOWER_NO(w, op, "the card has no scatter");
    TRY(lower_in_lx(w, op, lower_operand(w, op, 0)->tensor, &t));
    return move_tile(w, op, ISA_STORE, &a, &t);
}
