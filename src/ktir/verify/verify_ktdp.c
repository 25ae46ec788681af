// SPDX-License-Identifier: Apache-2.0
//
// Rules of ktdp: views, access tiles, loads, stores, reductions between compute tiles.
#include "ktir/verify/verify.h"

static spyre_status verify_static_list(const ktir_module *m, const ktir_op *op, ktir_key key,
                                       const char *what, int64_t least)
{
    const ktir_attribute *list = ktir_find(m, op, key);
    const ktir_type *type = ktir_result_type(m, op);
    if (list->count != type->rank)
        return VERIFY_BAD(m, op, "%u %s for a memref of %u dims", list->count, what, type->rank);
    for (uint32_t d = 0; d < type->rank; d++) {
        int64_t number = list->list[d];
        if (number == KTIR_OPERAND) continue;
        if (number < least || number >> 40)
            return VERIFY_BAD(m, op, "%s has %lld in dim %u", what, (long long)number, d);
        if (key == KTIR_KEY_SIZES && type->size[d] != KTIR_DYNAMIC && type->size[d] != number)
            return VERIFY_BAD(m, op, "size %lld of dim %u, the type says %lld", (long long)number,
                              d, (long long)type->size[d]);
    }
    return NULL;
}

static spyre_status verify_memory_view(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(m, op);
    const ktir_attribute *set = ktir_find(m, op, KTIR_KEY_COORDINATE_SET);
    TRY(verify_indices(m, op, 0, op->operand_count));
    TRY(verify_static_list(m, op, KTIR_KEY_SIZES, "sizes", 0));
    TRY(verify_static_list(m, op, KTIR_KEY_STRIDES, "strides", 0));
    if (!ktir_find(m, op, KTIR_KEY_MEMORY_SPACE)) return VERIFY_BAD(m, op, "without memory_space");
    if (set && set->set->dims != type->rank)
        return VERIFY_BAD(m, op, "coordinate_set has %u dims, the memref %u", set->set->dims,
                          type->rank);
    const ktir_attribute *sizes = ktir_find(m, op, KTIR_KEY_SIZES);
    uint32_t dynamic = 0;
    for (uint32_t d = 0; d < sizes->count; d++) dynamic += sizes->list[d] == KTIR_OPERAND;
    if (set && set->set->symbols > dynamic)
        return VERIFY_BAD(m, op, "coordinate_set has %u symbols for %u sizes that are values",
                          set->set->symbols, dynamic);
    return NULL;
}

static spyre_status verify_distributed_view(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(m, op);
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const ktir_type *part = ktir_operand_type(m, op, n);
        const ktir_op *maker;
        if (part->kind != KTIR_MEMREF || part->element != type->element ||
            part->rank != type->rank)
            return verify_bad_operand(m, op, n, "parts have element type and rank of the whole");
        TRY(verify_maker(m, op, n, &maker));
        if (maker->opcode != KTIR_OP_MEMORY_VIEW ||
            !ktir_find(m, maker, KTIR_KEY_COORDINATE_SET))
            return verify_bad_operand(m, op, n, "a part is a memory view with a coordinate_set");
    }
    return NULL;
}

// The order permutes the dims of the set; the tile's sizes are the set's in that order.
static spyre_status verify_space(const ktir_module *m, const ktir_op *op, const ktir_set *set,
                                 const ktir_map *order, const ktir_type *tile)
{
    uint32_t permutation[KTIR_MOST_RANK];
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];
    if (set->dims != tile->rank)
        return VERIFY_BAD(m, op, "a set of %u dims for a tile of %u", set->dims, tile->rank);
    if (order && (order->dims != set->dims || order->symbols ||
                  !ktir_map_permutation(order, permutation)))
        return ktir_error(m, op, SPYRE_UNSUPPORTED, "an order that is no permutation of the dims");
    if (set->symbols || !ktir_set_box(set, NULL, least, most)) return NULL;
    for (uint32_t k = 0; k < tile->rank; k++) {
        uint32_t d = order ? permutation[k] : k;
        if (tile->size[k] != KTIR_DYNAMIC && most[d] - least[d] + 1 < tile->size[k])
            return VERIFY_BAD(m, op, "dim %u of the tile has %lld points, its set %lld", k,
                              (long long)tile->size[k], (long long)(most[d] - least[d] + 1));
    }
    return NULL;
}

static spyre_status verify_view_operand(const ktir_module *m, const ktir_op *op, uint32_t n)
{
    const ktir_op *maker;
    if (ktir_operand_type(m, op, n)->kind != KTIR_MEMREF)
        return verify_bad_operand(m, op, n, "a memory view is wanted");
    return verify_maker(m, op, n, &maker);
}

static spyre_status verify_access_tile(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *view = ktir_operand_type(m, op, 0), *tile = ktir_result_type(m, op);
    const ktir_map *map = ktir_find(m, op, KTIR_KEY_SUBSCRIPTS)->map;
    const ktir_attribute *base = ktir_find(m, op, KTIR_KEY_BASE_MAP);
    const ktir_attribute *set = ktir_find(m, op, KTIR_KEY_TILE_SET);
    TRY(verify_view_operand(m, op, 0));
    TRY(verify_indices(m, op, 1, op->operand_count));
    if (base && (base->map->dims != map->count || base->map->symbols))
        return VERIFY_BAD(m, op, "base_map takes %u values, there are %u", base->map->dims,
                          map->count);
    uint32_t coordinates = base ? base->map->count : map->count;
    if (coordinates != view->rank)
        return VERIFY_BAD(m, op, "%u coordinates into a view of %u dims", coordinates, view->rank);
    if (tile->rank != view->rank)
        return VERIFY_BAD(m, op, "a tile of %u dims of a view of %u", tile->rank, view->rank);
    return set ? verify_space(m, op, set->set, ktir_tile_order(m, op), tile) : NULL;
}

static spyre_status verify_indirect_tile(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *view = ktir_operand_type(m, op, 0), *tile = ktir_result_type(m, op);
    const ktir_map *map = ktir_find(m, op, KTIR_KEY_SUBSCRIPTS)->map;
    const ktir_attribute *variables = ktir_find(m, op, KTIR_KEY_VARIABLES);
    const ktir_attribute *views = ktir_find(m, op, KTIR_KEY_VIEWS);
    const ktir_attribute *set = ktir_find(m, op, KTIR_KEY_SPACE_SET);
    uint32_t first_view = 1 + map->dims - variables->count, wanted = 0;
    TRY(verify_view_operand(m, op, 0));
    TRY(verify_indices(m, op, 1, first_view));
    if (!set) return VERIFY_BAD(m, op, "without variables_space_set");
    if (views->count != view->rank)
        return VERIFY_BAD(m, op, "%u subscripts into a view of %u dims", views->count, view->rank);
    for (uint32_t d = 0; d < views->count; d++) {
        if (views->list[d] < 0) {
            wanted++;
            continue;
        }
        uint32_t n = first_view + (uint32_t)views->list[d];
        TRY(verify_view_operand(m, op, n));
        const ktir_type *index = ktir_operand_type(m, op, n);
        if (index->element != KTIR_I32 && index->element != KTIR_I64)
            return verify_bad_operand(m, op, n, "indices are i32 or i64");
        wanted += index->rank;
    }
    if (wanted != map->count)
        return VERIFY_BAD(m, op, "%u expressions for views of %u dims", map->count, wanted);
    if (set->set->dims != variables->count)
        return VERIFY_BAD(m, op, "%u variables, variables_space_set has %u dims", variables->count,
                          set->set->dims);
    return verify_space(m, op, set->set, ktir_tile_order(m, op), tile);
}

// The element type of the memory behind the tile is that of the tensor, and so are the sizes.
static spyre_status verify_access(const ktir_module *m, const ktir_op *op, uint32_t tile_operand,
                                  const ktir_type *tensor)
{
    const ktir_op *maker;
    const ktir_type *tile = ktir_operand_type(m, op, tile_operand);
    if (tile->kind != KTIR_TILE)
        return verify_bad_operand(m, op, tile_operand, "an access tile is wanted");
    TRY(verify_maker(m, op, tile_operand, &maker));
    if (ktir_operand_type(m, maker, 0)->element != tensor->element)
        return verify_bad_operand(m, op, tile_operand, "its view has other elements");
    if (ktir_same_sizes(tile, tensor)) return NULL;
    return verify_bad_operand(m, op, tile_operand, "the tensor has another shape");
}

static spyre_status verify_produce(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *future = ktir_result_type(m, op);
    ktir_type tensor = *future;
    tensor.kind = KTIR_TENSOR;
    const ktir_attribute *producers = ktir_find(m, op, KTIR_KEY_PRODUCERS);
    if (!producers || producers->set->dims != 1 || producers->set->symbols > 1)
        return VERIFY_BAD(m, op, "producer_tiles_per_group is a set of tiles (i)[g]");
    if (future->groups->dims != 1 || future->groups->symbols)
        return VERIFY_BAD(m, op, "groups is a set of groups (g)");
    return verify_combiner(m, op, NULL, ktir_op_region(m, op, 0)->argument_count > 0, &tensor);
}

static spyre_status verify_tile_reduce(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *future = ktir_operand_type(m, op, 0), *result = ktir_result_type(m, op);
    ktir_type tensor = *future;
    tensor.kind = KTIR_TENSOR;
    const ktir_attribute *consumers = ktir_find(m, op, KTIR_KEY_CONSUMERS);
    if (future->kind != KTIR_FUTURE)
        return verify_bad_operand(m, op, 0, "a tile_future is wanted");
    if (m->values.items[ktir_operand(m, op, 0)].definition == UINT32_MAX ||
        ktir_maker(m, op, 0)->opcode != KTIR_OP_PRODUCE)
        return verify_bad_operand(m, op, 0, "it comes from another operation than "
                                            "inter_tile_produce");
    if (!consumers || consumers->set->dims != 1 || consumers->set->symbols > 1)
        return VERIFY_BAD(m, op, "consumer_tiles_per_group is a set of tiles (i)[g]");
    if (ktir_find(m, op, KTIR_KEY_DEPENDENCY))
        return ktir_error(m, op, SPYRE_UNSUPPORTED,
                          "producer_dependency_per_consumer: consumers wait for all producers");
    for (uint32_t d = 0; d < future->rank; d++)
        if (future->size[d] == KTIR_DYNAMIC)
            return ktir_error(m, op, SPYRE_UNSUPPORTED, "a reduction of tensors of unknown sizes");
    if (ktir_type_elements(future) != ktir_type_elements(result) ||
        future->element != result->element)
        return verify_bad_result(m, op, "it has not as many elements as the partial tensors");
    if (op->operand_count > 1 && !ktir_type_same(ktir_operand_type(m, op, 1), &tensor))
        return verify_bad_operand(m, op, 1, "the identity has not the type of the partial tensors");
    return verify_combiner(m, op, &tensor, 2, &tensor);
}

spyre_status verify_ktdp(const ktir_module *m, const ktir_op *op)
{
    switch ((int)ktir_op_describe(op->opcode)->form) {
    case KTIR_FORM_TILE_ID:
        if (op->result_count <= KTIR_MOST_GRID) return NULL;
        return VERIFY_BAD(m, op, "%u results: a grid has at most %d dims", op->result_count,
                          KTIR_MOST_GRID);
    case KTIR_FORM_MEMORY_VIEW: return verify_memory_view(m, op);
    case KTIR_FORM_DISTRIBUTED_VIEW: return verify_distributed_view(m, op);
    case KTIR_FORM_ACCESS_TILE: return verify_access_tile(m, op);
    case KTIR_FORM_INDIRECT_TILE: return verify_indirect_tile(m, op);
    case KTIR_FORM_LOAD: return verify_access(m, op, 0, ktir_result_type(m, op));
    case KTIR_FORM_STORE:
        if (ktir_operand_type(m, op, 0)->kind != KTIR_TENSOR)
            return verify_bad_operand(m, op, 0, "a tensor is wanted");
        return verify_access(m, op, 1, ktir_operand_type(m, op, 0));
    case KTIR_FORM_PRODUCE: return verify_produce(m, op);
    default: return verify_tile_reduce(m, op);
    }
}
