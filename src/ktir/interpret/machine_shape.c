// SPDX-License-Identifier: Apache-2.0
//
// Operations that move elements: tensor, and broadcast, transpose, fill of linalg.
#include <string.h>

#include "base/odometer.h"
#include "ktir/interpret/machine.h"

// Strides in elements of a dense tensor.
static void dense_strides(const ktir_tensor *t, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0; stride *= t->size[d]) strides[d] = stride;
}

// to[first_to + sum i * to_stride] = from[first_from + sum i * from_stride] for all i below size.
typedef struct {
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK];
    int64_t to[KTIR_MOST_RANK], from[KTIR_MOST_RANK];
    int64_t first_to, first_from;
} moves;

static void move(const moves *w, ktir_tensor *to, const ktir_tensor *from)
{
    int64_t index[KTIR_MOST_RANK] = {0};
    odometer_place place[] = {{w->to, w->first_to}, {w->from, w->first_from}};
    for (uint32_t d = 0; d < w->rank; d++)
        if (!w->size[d]) return;
    do to->at[place[0].at] = from->at[place[1].at];
    while (odometer_next(w->rank, w->size, index, place, 2));
}

static spyre_status splat(tile *t, const ktir_op *op, ktir_number_value value, uint32_t sizes)
{
    const ktir_type *type = ktir_result_type(t->x->m, op);
    int64_t size[KTIR_MOST_RANK];
    TRY(machine_sizes(t, op, type, sizes, size));
    ktir_tensor *out = ktir_tensor_new(type->element, type->rank, size);
    for (int64_t i = 0; out && i < out->count; i++) out->at[i] = value;
    return machine_give(t, op, op->first_result, out);
}

static spyre_status extract(tile *t, const ktir_op *op)
{
    const ktir_tensor *from = machine_tensor(t, op, 0);
    int64_t at = 0;
    for (uint32_t d = 0; d < from->rank; d++) {
        int64_t index = machine_operand(t, op, 1 + d)->number.integer;
        if (index < 0 || index >= from->size[d])
            return machine_fault(t, op, "index %lld of dim %u, which has %lld", (long long)index,
                                 d, (long long)from->size[d]);
        at = at * from->size[d] + index;
    }
    machine_set(t, op->first_result, from->at[at]);
    return NULL;
}

static spyre_status reshape(tile *t, const ktir_op *op)
{
    const ktir_tensor *from = machine_tensor(t, op, 0);
    const ktir_type *type = ktir_result_type(t->x->m, op);
    ktir_tensor *out = ktir_tensor_new(type->element, type->rank, type->size);
    if (out) memcpy(out->at, from->at, (size_t)from->count * sizeof *from->at);
    return machine_give(t, op, op->first_result, out);
}

// Offsets, sizes and strides of a slice of `whole`, inside of it.
static spyre_status slice_of(tile *t, const ktir_op *op, const ktir_tensor *whole, uint32_t next,
                             moves *w, int64_t *first)
{
    static const ktir_key keys[] = {KTIR_KEY_OFFSETS, KTIR_KEY_SIZES, KTIR_KEY_STRIDES};
    int64_t numbers[3][KTIR_MOST_RANK], strides[KTIR_MOST_RANK];
    for (uint32_t k = 0; k < 3; k++) {
        const ktir_attribute *list = ktir_find(t->x->m, op, keys[k]);
        for (uint32_t d = 0; d < whole->rank; d++)
            numbers[k][d] = list->list[d] == KTIR_OPERAND
                                ? machine_operand(t, op, next++)->number.integer : list->list[d];
    }
    dense_strides(whole, strides);
    w->rank = whole->rank;
    *first = 0;
    for (uint32_t d = 0; d < whole->rank; d++) {
        int64_t offset = numbers[0][d], size = numbers[1][d], stride = numbers[2][d];
        if (offset < 0 || size < 0 || stride < 1 || offset > whole->size[d] ||
            size > whole->size[d] ||
            (size && (whole->size[d] - 1 - offset) / stride < size - 1) ||
            (size && offset == whole->size[d]))
            return machine_fault(t, op, "offset %lld, size %lld, stride %lld run off dim %u, which "
                                 "has %lld", (long long)offset, (long long)size,
                                 (long long)stride, d, (long long)whole->size[d]);
        w->size[d] = size;
        w->from[d] = strides[d] * stride;
        *first += strides[d] * offset;
    }
    return NULL;
}

static spyre_status extract_slice(tile *t, const ktir_op *op)
{
    const ktir_tensor *whole = machine_tensor(t, op, 0);
    moves w = {0};
    uint32_t rank = ktir_result_type(t->x->m, op)->rank, dims[KTIR_MOST_RANK];
    int64_t size[KTIR_MOST_RANK], strides[KTIR_MOST_RANK];
    TRY(slice_of(t, op, whole, 1, &w, &w.first_from));
    if (!ktir_slice_dims(t->x->m, op, dims)) return machine_fault(t, op, "no slice of these sizes");
    for (uint32_t k = 0; k < rank; k++) size[k] = w.size[dims[k]];
    ktir_tensor *out = ktir_tensor_new(whole->element, rank, size);
    if (out) {
        dense_strides(out, strides);
        for (uint32_t k = 0; k < rank; k++) w.to[dims[k]] = strides[k];
        move(&w, out, whole);
    }
    return machine_give(t, op, op->first_result, out);
}

static spyre_status insert_slice(tile *t, const ktir_op *op)
{
    const ktir_tensor *part = machine_tensor(t, op, 0), *whole = machine_tensor(t, op, 1);
    uint32_t dims[KTIR_MOST_RANK];
    int64_t strides[KTIR_MOST_RANK];
    moves w = {0};
    TRY(slice_of(t, op, whole, 2, &w, &w.first_to));
    if (!ktir_slice_dims(t->x->m, op, dims)) return machine_fault(t, op, "no slice of these sizes");
    memcpy(w.to, w.from, sizeof w.to);
    memset(w.from, 0, sizeof w.from);
    dense_strides(part, strides);
    for (uint32_t k = 0; k < part->rank; k++) {
        w.from[dims[k]] = strides[k];
        if (w.size[dims[k]] != part->size[k])
            return machine_fault(t, op, "a part of %lld in dim %u, the slice has %lld",
                                 (long long)part->size[k], k, (long long)w.size[dims[k]]);
    }
    ktir_tensor *out = ktir_tensor_like(whole);
    if (out) {
        memcpy(out->at, whole->at, (size_t)whole->count * sizeof *whole->at);
        move(&w, out, part);
    }
    return machine_give(t, op, op->first_result, out);
}

static spyre_status transpose(tile *t, const ktir_op *op)
{
    const ktir_attribute *permutation = ktir_find(t->x->m, op, KTIR_KEY_DIMENSIONS);
    const ktir_tensor *from = machine_tensor(t, op, 0);
    int64_t strides[KTIR_MOST_RANK];
    moves w = {.rank = from->rank};
    dense_strides(from, strides);
    for (uint32_t d = 0; d < from->rank; d++) {
        w.size[d] = from->size[permutation->list[d]];
        w.from[d] = strides[permutation->list[d]];
    }
    ktir_tensor *out = ktir_tensor_new(from->element, w.rank, w.size);
    if (out) {
        dense_strides(out, w.to);
        move(&w, out, from);
    }
    return machine_give(t, op, op->first_result, out);
}

static spyre_status broadcast(tile *t, const ktir_op *op)
{
    const ktir_attribute *dims = ktir_find(t->x->m, op, KTIR_KEY_DIMENSIONS);
    const ktir_tensor *from = machine_tensor(t, op, 0), *outs = machine_tensor(t, op, 1);
    int64_t strides[KTIR_MOST_RANK];
    uint32_t next = 0, fresh = 0;
    moves w = {.rank = outs->rank};
    dense_strides(from, strides);
    for (uint32_t n = 0; n < dims->count; n++) fresh |= 1u << dims->list[n];
    for (uint32_t d = 0; d < outs->rank; d++) {
        w.size[d] = outs->size[d];
        if (fresh >> d & 1) continue;
        if (from->size[next] != outs->size[d])
            return machine_fault(t, op, "dim %u has %lld elements, outs %lld", next,
                                 (long long)from->size[next], (long long)outs->size[d]);
        w.from[d] = strides[next++];
    }
    ktir_tensor *out = ktir_tensor_like(outs);
    if (out) {
        dense_strides(out, w.to);
        move(&w, out, from);
    }
    return machine_give(t, op, op->first_result, out);
}

static spyre_status from_elements(tile *t, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(t->x->m, op);
    ktir_tensor *out = ktir_tensor_new(type->element, type->rank, type->size);
    for (int64_t n = 0; out && n < out->count; n++)
        out->at[n] = machine_operand(t, op, (uint32_t)n)->number;
    return machine_give(t, op, op->first_result, out);
}

static spyre_status tensor_cast(tile *t, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(t->x->m, op);
    const ktir_tensor *from = machine_tensor(t, op, 0);
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->size[d] != KTIR_DYNAMIC && type->size[d] != from->size[d])
            return machine_fault(t, op, "dim %u has %lld, the type says %lld", d,
                                 (long long)from->size[d], (long long)type->size[d]);
    machine_copy(t, op->first_result, machine_operand(t, op, 0));
    return NULL;
}

static spyre_status dim(tile *t, const ktir_op *op)
{
    const ktir_tensor *from = machine_tensor(t, op, 0);
    int64_t d = machine_operand(t, op, 1)->number.integer;
    if (d < 0 || d >= from->rank)
        return machine_fault(t, op, "dim %lld of a tensor of %u", (long long)d, from->rank);
    machine_set(t, op->first_result, (ktir_number_value){.integer = from->size[d]});
    return NULL;
}

static spyre_status affine(tile *t, const ktir_op *op)
{
    const ktir_map *map = ktir_find(t->x->m, op, KTIR_KEY_SUBSCRIPTS)->map;
    int64_t names[KTIR_MOST_NAMES], value;
    ktir_number_value out = {0};
    for (uint32_t n = 0; n < op->operand_count; n++) {
        if (machine_operand(t, op, n)->memory != MACHINE_NO_MEMORY)
            return machine_fault(t, op, "an operand is an address");
        names[n] = machine_operand(t, op, n)->number.integer;
    }
    for (uint32_t r = 0; r < map->count; r++) {
        if (!ktir_expr_value(map->results[r], names, &value))
            return machine_fault(t, op, "result %u has no value", r);
        bool takes = r == 0 || (op->opcode == KTIR_OP_AFFINE_MIN ? value < out.integer
                                                                 : value > out.integer);
        if (takes) out.integer = value;
    }
    machine_set(t, op->first_result, out);
    return NULL;
}

spyre_status machine_shape(tile *t, const ktir_op *op, ktir_form form)
{
    switch ((int)form) {
    case KTIR_FORM_EMPTY: return splat(t, op, (ktir_number_value){.integer = 0}, 0);
    case KTIR_FORM_SPLAT: return splat(t, op, machine_operand(t, op, 0)->number, 1);
    case KTIR_FORM_EXTRACT: return extract(t, op);
    case KTIR_FORM_FROM_ELEMENTS: return from_elements(t, op);
    case KTIR_FORM_TENSOR_CAST: return tensor_cast(t, op);
    case KTIR_FORM_DIM: return dim(t, op);
    case KTIR_FORM_AFFINE: return affine(t, op);
    case KTIR_FORM_RESHAPE: return reshape(t, op);
    case KTIR_FORM_TRANSPOSE: return transpose(t, op);
    case KTIR_FORM_BROADCAST: return broadcast(t, op);
    case KTIR_FORM_FILL: {
        ktir_tensor *out = ktir_tensor_like(machine_tensor(t, op, 1));
        for (int64_t i = 0; out && i < out->count; i++)
            out->at[i] = machine_operand(t, op, 0)->number;
        return machine_give(t, op, op->first_result, out);
    }
    default:
        return op->opcode == KTIR_OP_INSERT_SLICE ? insert_slice(t, op) : extract_slice(t, op);
    }
}
