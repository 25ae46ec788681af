// SPDX-License-Identifier: Apache-2.0
//
// ktdp.load and ktdp.store: the points of an access tile in its order, one element after the other.
#include <stdlib.h>
#include <string.h>

#include "ktir/interpret/access.h"

// The points of an access tile: extents in the order of the tile's dims, which walk dims
// permutation[k] of the set.
typedef struct {
    const ktir_set *set;                // that filters, or null
    uint32_t rank;
    uint32_t permutation[KTIR_MOST_RANK];
    int64_t least[KTIR_MOST_RANK], extent[KTIR_MOST_RANK];      // by tile dim
    int64_t index[KTIR_MOST_RANK];
    int64_t point[KTIR_MOST_RANK];      // by dim of the set
} points;

static spyre_status start_points(tile *t, const ktir_op *op, const int64_t *sizes, uint32_t rank,
                                 points *p)
{
    const ktir_module *m = t->x->m;
    const ktir_set *set = ktir_tile_set(m, op);
    const ktir_map *order = ktir_tile_order(m, op);
    int64_t least[KTIR_MOST_RANK] = {0}, most[KTIR_MOST_RANK];
    *p = (points){.rank = rank};
    for (uint32_t k = 0; k < rank; k++) p->permutation[k] = k;
    if (order) (void)ktir_map_permutation(order, p->permutation);
    for (uint32_t k = 0; k < rank; k++) most[p->permutation[k]] = sizes[k] - 1;
    if (set && set->symbols) return machine_fault(t, op, "its set has symbols");
    if (set && !ktir_set_box(set, NULL, least, most)) {
        p->set = set;
        if (!ktir_set_bounds(set, least, most))
            return machine_fault(t, op, "its set has no bounds");
    }
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t d = p->permutation[k];
        p->least[k] = least[d];
        p->extent[k] = most[d] - least[d] + 1;
        if (!p->set && p->extent[k] > sizes[k]) p->extent[k] = sizes[k];
        if (!p->set && p->extent[k] < sizes[k])
            return machine_fault(t, op, "dim %u of the tile has %lld points, its set %lld", k,
                                 (long long)sizes[k], (long long)p->extent[k]);
        p->point[d] = least[d];
    }
    return NULL;
}

static bool next_index(points *p)
{
    for (uint32_t k = p->rank; k-- > 0;) {
        p->point[p->permutation[k]]++;
        if (++p->index[k] < p->extent[k]) return true;
        p->point[p->permutation[k]] = p->least[k];
        p->index[k] = 0;
    }
    return false;
}

static bool next_point(points *p)
{
    do {
        if (!next_index(p)) return false;
    } while (p->set && !ktir_set_holds(p->set, p->point));
    return true;
}

static bool first_point(points *p)
{
    for (uint32_t k = 0; k < p->rank; k++)
        if (p->extent[k] < 1) return false;
    return !p->set || ktir_set_holds(p->set, p->point) || next_point(p);
}

// --- Coordinates

typedef struct {
    const ktir_op *op;
    const ktir_map *map;
    const ktir_attribute *variables, *views;
    uint32_t own;                       // names that are variables of the operation
    int64_t names[KTIR_MOST_NAMES];
    int64_t base[KTIR_MOST_RANK];       // of a direct tile
    uint32_t rank;                      // of the view
    access_views *index;                // of index views; owned
} coordinates;

static spyre_status value_of(tile *t, const coordinates *c, uint32_t result, int64_t *out)
{
    if (ktir_expr_value(c->map->results[result], c->names, out)) return NULL;
    return machine_fault(t, c->op, "subscript %u has no value", result);
}

static spyre_status start_coordinates(tile *t, const ktir_op *op, coordinates *c)
{
    const ktir_module *m = t->x->m;
    const ktir_attribute *base = ktir_find(m, op, KTIR_KEY_BASE_MAP);
    c->op = op;
    c->map = ktir_find(m, op, KTIR_KEY_SUBSCRIPTS)->map;
    c->variables = ktir_find(m, op, KTIR_KEY_VARIABLES);
    c->views = ktir_find(m, op, KTIR_KEY_VIEWS);
    c->own = c->variables ? c->variables->count : 0;
    c->rank = ktir_operand_type(m, op, 0)->rank;
    for (uint32_t n = c->own; n < c->map->dims; n++) {
        const machine_cell *cell = machine_operand(t, op, 1 + n - c->own);
        if (cell->memory != MACHINE_NO_MEMORY)
            return machine_fault(t, op, "%s is an address, not an index",
                                 m->values.items[ktir_operand(m, op, 1 + n - c->own)].name);
        c->names[n] = cell->number.integer;
    }
    if (c->views) {
        uint32_t first = 1 + c->map->dims - c->own, count = op->operand_count - first;
        c->index = calloc(count + 1u, sizeof *c->index);
        TRY_ALLOC(c->index);
        for (uint32_t v = 0; v < count; v++) TRY(access_view_of(t, op, first + v, &c->index[v]));
        return NULL;
    }
    int64_t values[KTIR_MOST_RESULTS];
    for (uint32_t r = 0; r < c->map->count; r++) TRY(value_of(t, c, r, &values[r]));
    for (uint32_t d = 0; d < c->rank; d++) {
        c->base[d] = values[d];
        if (base && !ktir_expr_value(base->map->results[d], values, &c->base[d]))
            return machine_fault(t, op, "base_map has no value");
    }
    return NULL;
}

// The coordinate of a point: base + point, or the subscripts, those of index views looked up.
static spyre_status coordinate_of(tile *t, coordinates *c, const points *p, int64_t *out)
{
    if (!c->views) {
        for (uint32_t d = 0; d < c->rank; d++)
            if (__builtin_add_overflow(c->base[d], p->point[d], &out[d]))
                return machine_fault(t, c->op, "a coordinate beyond 64 bits");
        return NULL;
    }
    memcpy(c->names, p->point, c->own * sizeof *c->names);
    for (uint32_t d = 0, result = 0; d < c->rank; d++) {
        if (c->views->list[d] < 0) {
            TRY(value_of(t, c, result++, &out[d]));
            continue;
        }
        const access_views *index = &c->index[c->views->list[d]];
        int64_t at[KTIR_MOST_RANK];
        uint8_t *bytes;
        for (uint32_t n = 0; n < index->part[0].rank; n++) TRY(value_of(t, c, result++, &at[n]));
        TRY(access_address(t, c->op, index, at, NULL, &bytes));
        out[d] = ktir_element_load(index->part[0].element_bytes == 8 ? KTIR_I64 : KTIR_I32, bytes)
                     .integer;
    }
    return NULL;
}

// --- Load and store

typedef struct {
    points p;
    coordinates c;
    access_views views;
} access;

static spyre_status start(tile *t, const ktir_op *op, uint32_t operand, const int64_t *sizes,
                          uint32_t rank, access *a)
{
    const ktir_module *m = t->x->m;
    const ktir_op *maker = ktir_maker(m, op, operand);
    TRY(start_points(t, maker, sizes, rank, &a->p));
    TRY(start_coordinates(t, maker, &a->c));
    return access_view_of(t, maker, 0, &a->views);
}

static spyre_status count_points(tile *t, const ktir_op *op, int64_t done, int64_t wanted)
{
    if (done == wanted) return NULL;
    return machine_fault(t, op, "the set has %s points than the tile's %lld",
                         done > wanted ? "more" : "fewer", (long long)wanted);
}

static spyre_status load_points(tile *t, const ktir_op *op, access *a, ktir_tensor *out)
{
    int64_t done = 0;
    for (bool more = first_point(&a->p); more; more = next_point(&a->p)) {
        int64_t at[KTIR_MOST_RANK];
        uint8_t *bytes;
        if (done == out->count) return count_points(t, op, done + 1, out->count);
        TRY(coordinate_of(t, &a->c, &a->p, at));
        TRY(access_address(t, op, &a->views, at, NULL, &bytes));
        out->at[done++] = ktir_element_load(out->element, bytes);
    }
    return count_points(t, op, done, out->count);
}

static spyre_status load_tile(tile *t, const ktir_op *op, access *a, ktir_tensor **out_tensor)
{
    const ktir_type *type = ktir_result_type(t->x->m, op);
    const ktir_type *tile_type = ktir_operand_type(t->x->m, op, 0);
    int64_t sizes[KTIR_MOST_RANK];
    for (uint32_t d = 0; d < type->rank; d++) {
        sizes[d] = type->size[d] == KTIR_DYNAMIC ? tile_type->size[d] : type->size[d];
        if (sizes[d] == KTIR_DYNAMIC)
            return machine_fault(t, op, "dim %u of tile and tensor is unknown", d);
    }
    TRY(start(t, op, 0, sizes, type->rank, a));
    *out_tensor = ktir_tensor_new(type->element, type->rank, sizes);
    return *out_tensor ? load_points(t, op, a, *out_tensor) : NULL;
}

spyre_status machine_load(tile *t, const ktir_op *op)
{
    access a = {0};
    ktir_tensor *out = NULL;
    spyre_status status = load_tile(t, op, &a, &out);
    free(a.c.index);
    if (!status) return machine_give(t, op, op->first_result, out);
    ktir_tensor_drop(out);
    return status;
}

static spyre_status store_tile(tile *t, const ktir_op *op, access *a)
{
    const ktir_tensor *data = machine_tensor(t, op, 0);
    int64_t done = 0;
    TRY(start(t, op, 1, data->size, data->rank, a));
    for (bool more = first_point(&a->p); more; more = next_point(&a->p)) {
        int64_t at[KTIR_MOST_RANK];
        uint8_t *bytes, value[8];
        if (done == data->count) return count_points(t, op, done + 1, data->count);
        ktir_element_store(data->element, value, data->at[done++]);
        TRY(coordinate_of(t, &a->c, &a->p, at));
        TRY(access_address(t, op, &a->views, at, value, &bytes));
        memcpy(bytes, value, ktir_element_describe(data->element)->bytes);
    }
    return count_points(t, op, done, data->count);
}

spyre_status machine_store(tile *t, const ktir_op *op)
{
    access a = {0};
    spyre_status status = store_tile(t, op, &a);
    free(a.c.index);
    return status;
}
