// SPDX-License-Identifier: Apache-2.0
//
// Regions over elements: every operation of the region is a vector instruction on whole tensors of
// the iteration space. Dims that are reduced are loops of the card, in the order of the definition,
// so that any region goes that reads what it has made so far.
#include <string.h>

#include "ktir/ir/combiner.h"
#include "ktir/lower/lowering.h"

// The iteration space of a region. There is a loop of the card for every dim that is reduced, in
// whose iterations the region makes of all points of the others and of the result what the result
// becomes. *extent: 1 along the loops.
typedef struct {
    uint32_t rank, loops;
    int64_t extent[KTIR_MOST_RANK];
    uint32_t loop_of[KTIR_MOST_RANK];   // of a reduced dim
    bool reduced[KTIR_MOST_RANK];
} space;

// A tensor as the loops walk it; dim k of it is dim of[k] of the space, or stays where it is.
static void walk(const space *a, const uint32_t *of, const lowered_tensor *from,
                 lowered_tensor *to)
{
    *to = *from;
    to->rank = a->rank;
    memset(to->stride, 0, sizeof to->stride);
    memcpy(to->size, a->extent, sizeof to->size);
    for (uint32_t k = 0; k < from->rank; k++) {
        if (of[k] == UINT32_MAX) continue;
        if (a->reduced[of[k]]) to->loop[a->loop_of[of[k]]] += from->stride[k];
        else to->stride[of[k]] += from->stride[k];
    }
}

static spyre_status walk_argument(lowering *w, const space *a, const uint32_t *of,
                                  const lowered_tensor *from, uint32_t argument)
{
    lowered_tensor *t = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(t);
    walk(a, of, from, t);
    w->cells[argument].tensor = t;
    return NULL;
}

// Operand n of a linalg.generic, which is `from`, as its region's argument.
static spyre_status bind(lowering *w, const ktir_op *op, uint32_t n, const space *a,
                         lowered_tensor from)
{
    const ktir_map *map = ktir_find(w->m, op, KTIR_KEY_INDEXING_MAPS)->maps[n];
    uint32_t of[KTIR_MOST_RANK];
    for (uint32_t k = 0; k < from.rank; k++) {
        const ktir_expr *e = map->results[k];
        of[k] = e->kind == KTIR_EXPR_NAME ? (uint32_t)e->number : UINT32_MAX;
        if (of[k] == UINT32_MAX && !from.is_constant) from.offset += e->number * from.stride[k];
    }
    return walk_argument(w, a, of, &from, ktir_op_region(w->m, op, 0)->first_argument + n);
}

// Whether what an operation makes of integers that are not negative is none, either.
static bool stays_natural(const ktir_op *inner)
{
    ktir_integer integer = ktir_op_describe(inner->opcode)->integer;
    return integer != KTIR_INTEGER_SUB && integer != KTIR_INTEGER_XOR &&
           integer != KTIR_INTEGER_SHL && inner->opcode != KTIR_OP_FPTOSI;
}

// Operand n of an operation of the region; numbers of the cores become elements.
static spyre_status point_operand(lowering *w, const ktir_op *op, const ktir_op *inner, uint32_t n,
                                  lowered_tensor *made, const lowered_tensor **out)
{
    const lowered_cell *cell = lower_operand(w, inner, n);
    *out = cell->tensor;
    if (cell->tensor) return NULL;
    *out = made;
    return lower_number_tensor(w, op, cell->index, made);
}

static bool all_numbers(const lowering *w, const ktir_op *op)
{
    for (uint32_t n = 0; n < op->operand_count; n++)
        if (!lower_operand(w, op, n)->index) return false;
    return op->operand_count;
}

static spyre_status count_points(lowering *w, const ktir_op *op, const ktir_op *inner,
                                 const space *a)
{
    int64_t dim = ktir_number(w->m, inner, KTIR_KEY_VALUE, 0);
    lowered_tensor *t = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(t);
    if (dim < 0 || dim >= a->rank)
        return LOWER_NO(w, inner, "there is no dim %lld", (long long)dim);
    w->cells[inner->first_result].tensor = t;
    if (!a->reduced[dim])
        return lower_count_along(w, op, lower_number(w, op), (lowered_sizes){a->rank, a->extent},
                                 (uint32_t)dim, t);
    lowered_index iteration = {.memory = LOWERING_NO_MEMORY};
    iteration.loop[a->loop_of[dim]] = 1;
    return lower_number_tensor(w, op, &iteration, t);
}

// An operation of the region, for all points.
static spyre_status point_op(lowering *w, const ktir_op *op, const ktir_op *inner, const space *a)
{
    const ktir_op_info *info = ktir_op_describe(inner->opcode);
    const lowered_tensor *inputs[3];
    lowered_tensor made[3], *out;
    bool done = true;
    if (info->form == KTIR_FORM_LINALG_INDEX) return count_points(w, op, inner, a);
    if (info->form > KTIR_FORM_CAST) return LOWER_NO(w, inner, "it is no operation on elements");
    if (info->form == KTIR_FORM_CONSTANT || all_numbers(w, inner)) {
        TRY(lower_indices(w, inner, &done));
        return done ? NULL : lower_elementwise(w, inner);
    }
    if (inner->operand_count > 3) return LOWER_NO(w, inner, "the card has no opfunc for it");
    bool natural = stays_natural(inner);
    for (uint32_t n = 0; n < inner->operand_count; n++) {
        TRY(point_operand(w, op, inner, n, &made[n], &inputs[n]));
        natural = natural && (inputs[n]->is_natural || inputs[n]->format == SPYRE_FORMAT_BOOL);
    }
    uint32_t value = inner->first_result, last = lower_number(w, op);
    ktir_element element = ktir_result_type(w->m, inner)->element;
    if (w->last_use[value] < last) w->last_use[value] = last;
    bool counts = element == KTIR_INDEX || element == KTIR_I64;     // 32 bits of them
    TRY(lower_new(w, op, value, counts ? KTIR_I32 : element, (lowered_sizes){a->rank, a->extent},
                  &out));
    out->is_natural = natural && !ktir_element_describe(element)->is_float && element != KTIR_I1;
    return lower_elements(w, inner, inner->opcode, out, inputs, inner->operand_count);
}

// The sizes of the iteration space.
static spyre_status find_extents(const lowering *w, const ktir_op *op, int64_t *extent)
{
    const ktir_attribute *maps = ktir_find(w->m, op, KTIR_KEY_INDEXING_MAPS);
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const lowered_tensor *t = lower_operand(w, op, n)->tensor;
        for (uint32_t k = 0; k < maps->maps[n]->count; k++) {
            int64_t d = maps->maps[n]->results[k]->number;
            if (maps->maps[n]->results[k]->kind == KTIR_EXPR_NUMBER) {
                if (d < t->size[k]) continue;
                return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "its map asks for index %lld of "
                                  "%lld", (long long)d, (long long)t->size[k]);
            }
            if (extent[d] && extent[d] != t->size[k])
                return ktir_error(w->m, op, SPYRE_DEVICE_FAULT,
                                  "dim d%lld has %lld and %lld points", (long long)d,
                                  (long long)extent[d], (long long)t->size[k]);
            extent[d] = t->size[k];
        }
    }
    return NULL;
}

// Binds the region's arguments, lowers what computes its result, which is what it yields.
static spyre_status run_region(lowering *w, const ktir_op *op, const space *a,
                               const lowered_tensor **out_result)
{
    const ktir_region *region = ktir_op_region(w->m, op, 0);
    const ktir_op *yield = &w->m->ops.items[region->end - 1];
    for (uint32_t n = region->begin; n + 1 < region->end; n++)
        TRY(point_op(w, op, &w->m->ops.items[n], a));
    *out_result = lower_operand(w, yield, 0)->tensor;
    return *out_result ? NULL : LOWER_NO(w, yield, "it yields a number of the cores");
}

// Every point on its own: the result lies as outs' map says.
static spyre_status generic_points(lowering *w, const ktir_op *op, const space *a)
{
    const ktir_attribute *maps = ktir_find(w->m, op, KTIR_KEY_INDEXING_MAPS);
    uint32_t permutation[KTIR_MOST_RANK];
    const lowered_tensor *result;
    if (!ktir_map_permutation(maps->maps[op->operand_count - 1], permutation))
        return LOWER_NO(w, op, "outs is walked by less than all dims");
    for (uint32_t n = 0; n < op->operand_count; n++)
        TRY(bind(w, op, n, a, *lower_operand(w, op, n)->tensor));
    TRY(run_region(w, op, a, &result));
    lowered_tensor *out = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(out);
    *out = *result;
    for (uint32_t k = 0; k < a->rank; k++) {
        out->size[k] = a->extent[permutation[k]];
        out->stride[k] = result->rank ? result->stride[permutation[k]] : 0;
    }
    out->rank = a->rank;
    lower_set_tensor(w, op->first_result, out);
    return NULL;
}

static spyre_status open_loops(lowering *w, const ktir_op *op, space *a)
{
    for (uint32_t d = 0; d < a->rank; d++) {
        if (!a->reduced[d]) continue;
        a->loop_of[d] = w->depth;
        TRY(lower_loop(w, op, a->extent[d]));
        a->extent[d] = 1;
        a->loops++;
    }
    return NULL;
}

static spyre_status close_loops(lowering *w, const space *a, uint32_t begin)
{
    for (uint32_t n = 0; n < a->loops; n++)
        TRY(lower_end_loop(w, lower_first_queue(w, begin)));
    return NULL;
}

static spyre_status begin_result(lowering *w, const ktir_op *op, lowered_tensor **out)
{
    const lowered_tensor *start = lower_operand(w, op, op->operand_count - 1)->tensor;
    TRY(lower_new(w, op, op->first_result, ktir_result_type(w->m, op)->element, lower_sizes(start),
                  out));
    return lower_copy(w, op, *out, start);
}

static spyre_status generic_reduces(lowering *w, const ktir_op *op, space *a)
{
    const uint32_t outs = op->operand_count - 1;
    lowered_tensor *out;
    const lowered_tensor *result;
    TRY(begin_result(w, op, &out));
    TRY(open_loops(w, op, a));
    uint32_t begin = w->program->code.count;
    for (uint32_t n = 0; n <= outs; n++)
        TRY(bind(w, op, n, a, n == outs ? *out : *lower_operand(w, op, n)->tensor));
    TRY(run_region(w, op, a, &result));
    const uint32_t sum = ktir_op_region(w->m, op, 0)->first_argument + outs;
    TRY(lower_copy(w, op, w->cells[sum].tensor, result));
    return close_loops(w, a, begin);
}

spyre_status lower_generic(lowering *w, const ktir_op *op)
{
    const ktir_attribute *iterators = ktir_find(w->m, op, KTIR_KEY_ITERATORS);
    space a = {.rank = iterators->count};
    bool reduces = false;
    TRY(find_extents(w, op, a.extent));
    for (uint32_t d = 0; d < a.rank; d++) {
        a.reduced[d] = iterators->list[d] != 0;
        reduces = reduces || a.reduced[d];
    }
    return reduces ? generic_reduces(w, op, &a) : generic_points(w, op, &a);
}

spyre_status lower_reduce_in_loops(lowering *w, const ktir_op *op)
{
    const ktir_attribute *dims = ktir_find(w->m, op, KTIR_KEY_DIMENSIONS);
    const lowered_tensor *from = lower_operand(w, op, 0)->tensor;
    space a = {.rank = from->rank};
    uint32_t all[KTIR_MOST_RANK], kept[KTIR_MOST_RANK], count = 0;
    lowered_tensor *out, in, sum;
    memcpy(a.extent, from->size, sizeof a.extent);
    for (uint32_t n = 0; n < dims->count; n++) a.reduced[dims->list[n]] = true;
    for (uint32_t d = 0; d < a.rank; d++) {
        all[d] = d;
        if (!a.reduced[d]) kept[count++] = d;
    }
    TRY(begin_result(w, op, &out));
    TRY(open_loops(w, op, &a));
    uint32_t begin = w->program->code.count;
    walk(&a, all, from, &in);
    walk(&a, kept, out, &sum);
    if (ktir_find(w->m, op, KTIR_KEY_COMBINER)) {
        const ktir_op_info *info = ktir_op_describe(combiner_opcode(w->m, op));
        const lowered_tensor *both[] = {&in, &sum};
        TRY(info->integer != KTIR_INTEGER_NONE
                ? lower_integer(w, op, info->integer, &sum, both, 2)
                : lower_vector(w, op, info->op, &sum, both, 2));
        return close_loops(w, &a, begin);
    }
    uint32_t first = ktir_op_region(w->m, op, 0)->first_argument;
    const lowered_tensor *result;
    TRY(walk_argument(w, &a, all, from, first));
    TRY(walk_argument(w, &a, kept, out, first + 1));
    TRY(run_region(w, op, &a, &result));
    TRY(lower_copy(w, op, &sum, result));
    return close_loops(w, &a, begin);
}

spyre_status lower_map_region(lowering *w, const ktir_op *op)
{
    const lowered_tensor *outs = lower_operand(w, op, op->operand_count - 1)->tensor, *result;
    uint32_t first = ktir_op_region(w->m, op, 0)->first_argument;
    for (uint32_t n = 0; n + 1 < op->operand_count; n++)
        w->cells[first + n].tensor = lower_operand(w, op, n)->tensor;
    space a = {.rank = outs->rank};
    memcpy(a.extent, outs->size, sizeof a.extent);
    TRY(run_region(w, op, &a, &result));
    lowered_tensor *out = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(out);
    *out = *result;
    lower_set_tensor(w, op->first_result, out);
    return NULL;
}
