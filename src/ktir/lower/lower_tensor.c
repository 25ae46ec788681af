// SPDX-License-Identifier: Apache-2.0
//
// Tensors in LX: room for them, where results lie, what one iteration hands to the next.
#include <string.h>

#include "ktir/lower/lowering.h"

void lower_set_tensor(lowering *w, uint32_t value, lowered_tensor *t)
{
    w->cells[value].tensor = t;
    if (!t->is_constant) lower_keep(w, t->offset, w->last_use[value]);
}

spyre_status lower_agree(const lowering *w, const ktir_op *op, const int64_t *size,
                         const int64_t *other)
{
    for (uint32_t d = 0; d < ktir_result_type(w->m, op)->rank; d++)
        if (size[d] != other[d])
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "dim %u of tensors is %lld and %lld",
                              d, (long long)size[d], (long long)other[d]);
    return NULL;
}

spyre_status lower_slice_elements(lowering *w, const ktir_op *op, bool *out_sliced)
{
    const int64_t *size = NULL;
    for (uint32_t n = 0; n < op->operand_count && !size; n++)
        size = lower_operand(w, op, n)->sliced;
    *out_sliced = size != NULL;
    for (uint32_t n = 0; n < op->operand_count && size; n++) {
        const lowered_cell *cell = lower_operand(w, op, n);
        if (!cell->sliced && !(cell->tensor && cell->tensor->is_constant))
            return LOWER_NO(w, op, "a tensor larger than LX beside one in LX");
        if (cell->sliced) TRY(lower_agree(w, op, size, cell->sliced));
    }
    w->cells[op->first_result].sliced = size;
    return NULL;
}

bool lower_is_dense(const lowered_tensor *t)
{
    int64_t stride = spyre_format_bytes(t->format);
    for (uint32_t d = t->rank; d-- > 0; stride *= t->size[d])
        if (t->size[d] > 1 && t->stride[d] != stride) return false;
    return !t->is_constant;
}

static spyre_format format_of(ktir_element element)
{
    return ktir_element_describe(element)->format;
}

spyre_status lower_new(lowering *w, const ktir_op *op, uint32_t value, ktir_element element,
                       lowered_sizes sizes, lowered_tensor **out)
{
    lowered_tensor *t = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(t);
    uint32_t last = w->last_use[value], number = lower_number(w, op);
    TRY(lower_scratch(w, op, format_of(element), sizes, last > number ? last : number, t));
    t->element = element;
    *out = t;
    w->cells[value].tensor = t;
    return NULL;
}

// --- Where a result goes
//
// Into the place of a loop's argument, when all that becomes of it is that argument of the next
// iteration; into the place of an operand that this operation is the last to read.

static bool fits_place(const lowered_tensor *place, ktir_element element, uint32_t rank,
                       const int64_t *size)
{
    if (!place || place->is_constant || !lower_is_dense(place) || place->rank != rank ||
        place->format != format_of(element))
        return false;
    return memcmp(place->size, size, rank * sizeof *size) == 0;
}

// The loop's argument that the operation's result becomes; null when there is more to it.
static const lowered_tensor *next_iteration(const lowering *w, const ktir_op *op)
{
    const ktir_module *m = w->m;
    uint32_t number = lower_number(w, op), loop = w->parent[number];
    if (loop == UINT32_MAX || m->ops.items[loop].opcode != KTIR_OP_FOR) return NULL;
    const ktir_region *body = ktir_op_region(m, &m->ops.items[loop], 0);
    uint32_t yield = w->last_use[op->first_result];
    if (yield + 1 != body->end || m->ops.items[yield].opcode != KTIR_OP_SCF_YIELD) return NULL;
    for (uint32_t n = number + 1; n < body->end; n++)
        for (uint32_t o = 0; n != yield && o < m->ops.items[n].operand_count; o++)
            if (ktir_operand(m, &m->ops.items[n], o) == op->first_result) return NULL;
    uint32_t found = UINT32_MAX;
    for (uint32_t o = 0; o < m->ops.items[yield].operand_count; o++) {
        if (ktir_operand(m, &m->ops.items[yield], o) != op->first_result) continue;
        if (found != UINT32_MAX) return NULL;
        found = o;
    }
    if (found == UINT32_MAX) return NULL;
    uint32_t argument = body->first_argument + 1 + found;
    for (uint32_t n = body->begin; n < body->end; n++)
        for (uint32_t o = 0; n != number && o < m->ops.items[n].operand_count; o++)
            if (ktir_operand(m, &m->ops.items[n], o) == argument) return NULL;
    return w->cells[argument].tensor;
}

// Who else reads bytes of a buffer decides whether it may be written.
static bool is_last_reader(const lowering *w, const lowered_tensor *t, uint32_t number)
{
    for (uint32_t n = 0; n < w->heap.count; n++) {
        const lowered_buffer *b = &w->heap.items[n];
        if (t->offset >= b->offset && t->offset < b->offset + b->bytes) return b->last <= number;
    }
    return false;
}

// Whether every operand that lies in the same bytes is the same tensor.
static bool is_alone(const lowering *w, const ktir_op *op, const lowered_tensor *place)
{
    int64_t end = place->offset;
    for (uint32_t d = 0; d < place->rank; d++) end += (place->size[d] - 1) * place->stride[d];
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const lowered_tensor *other = lower_operand(w, op, n)->tensor;
        if (!other || other->is_constant || other->offset > end) continue;
        bool same = other->offset == place->offset && other->rank == place->rank &&
                    memcmp(other->stride, place->stride, place->rank * sizeof *place->stride) == 0;
        int64_t last = other->offset;
        for (uint32_t d = 0; d < other->rank; d++)
            last += (other->size[d] - 1) * other->stride[d];
        if (!same && last >= place->offset) return false;
    }
    return true;
}

spyre_status lower_result(lowering *w, const ktir_op *op, ktir_element element, uint32_t rank,
                          const int64_t *size, lowered_tensor **out)
{
    uint32_t number = lower_number(w, op);
    const lowered_tensor *place = next_iteration(w, op);
    bool taken = fits_place(place, element, rank, size) && is_alone(w, op, place);
    for (uint32_t n = 0; n < op->operand_count && !taken; n++) {
        place = lower_operand(w, op, n)->tensor;
        taken = fits_place(place, element, rank, size) && is_last_reader(w, place, number) &&
                is_alone(w, op, place);
    }
    if (!taken) return lower_new(w, op, op->first_result, element, (lowered_sizes){rank, size},
                                 out);
    *out = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(*out);
    **out = *place;
    (*out)->element = element;
    lower_set_tensor(w, op->first_result, *out);
    return NULL;
}

// --- From one iteration to the next

static int64_t reach(const lowered_tensor *t)
{
    int64_t bytes = spyre_format_bytes(t->format);
    for (uint32_t d = 0; d < t->rank; d++) bytes += (t->size[d] - 1) * t->stride[d];
    return bytes;
}

bool lower_is_place(const lowered_tensor *t, const lowered_tensor *place)
{
    bool same = !t->is_constant && t->offset == place->offset && t->rank == place->rank &&
                memcmp(t->loop, place->loop, sizeof t->loop) == 0;
    for (uint32_t d = 0; same && d < t->rank; d++)
        same = t->size[d] == place->size[d] &&
               (t->size[d] == 1 || t->stride[d] == place->stride[d]);
    return same;
}

spyre_status lower_hand(lowering *w, const ktir_op *op, const lowered_tensor *place,
                        const lowered_tensor *source)
{
    lowered_tensor held;
    if (lower_is_place(source, place)) return NULL;
    if (memcmp(source->size, place->size, place->rank * sizeof *place->size) != 0)
        return LOWER_NO(w, op, "a tensor whose sizes change from one iteration, or one core, to "
                        "another");
    if (source->is_constant || source->offset >= place->offset + reach(place) ||
        place->offset >= source->offset + reach(source))
        return lower_copy(w, op, place, source);
    TRY(lower_scratch_like(w, op, source->format, source, &held));
    TRY(lower_copy(w, op, &held, source));
    return lower_copy(w, op, place, &held);
}
