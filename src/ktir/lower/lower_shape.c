// SPDX-License-Identifier: Apache-2.0
//
// Operations that move no element: another way to walk the same bytes of LX.
#include <string.h>

#include "ktir/lower/lowering.h"

static lowered_tensor *alias_of(lowering *w, const lowered_tensor *t)
{
    lowered_tensor *copy = ARENA_NEW(w->memory, lowered_tensor, 1);
    if (copy) *copy = *t;
    return copy;
}

static spyre_status give(lowering *w, const ktir_op *op, lowered_tensor *t)
{
    TRY_ALLOC(t);
    lower_set_tensor(w, op->first_result, t);
    return NULL;
}

static spyre_status known_sizes(const lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->size[d] == KTIR_DYNAMIC) return LOWER_NO(w, op, "a tensor of unknown size");
    return NULL;
}

// A number everywhere: tensor.empty (zeros), splat, fill.
static spyre_status spread(lowering *w, const ktir_op *op, const lowered_tensor *number)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    lowered_tensor zero = {.is_constant = true,
                           .format = ktir_element_describe(type->element)->format};
    lowered_tensor *t = alias_of(w, number ? number : &zero);
    TRY(known_sizes(w, op));
    TRY_ALLOC(t);
    t->element = type->element;
    t->rank = type->rank;
    memcpy(t->size, type->size, sizeof t->size);
    memset(t->stride, 0, sizeof t->stride);
    return give(w, op, t);
}

static spyre_status spread_operand(lowering *w, const ktir_op *op)
{
    const lowered_cell *cell = lower_operand(w, op, 0);
    int64_t number;
    if (cell->tensor) return spread(w, op, cell->tensor);
    ktir_element element = ktir_result_type(w->m, op)->element;
    lowered_tensor value = {.is_constant = true, .element = element,
                            .format = ktir_element_describe(element)->format};
    if (lower_uniform(w, cell->index, &number)) value.value = (double)number;
    else TRY(lower_number_of(w, op, cell->index, element, &value));
    return spread(w, op, &value);
}

// A dense copy, when the tensor is not dense.
static spyre_status dense(lowering *w, const ktir_op *op, lowered_tensor *t)
{
    lowered_tensor copy;
    if (t->is_constant || lower_is_dense(t)) return NULL;
    TRY(lower_scratch(w, op, t->format, lower_sizes(t), w->last_use[op->first_result], &copy));
    copy.element = t->element;
    TRY(lower_copy(w, op, &copy, t));
    *t = copy;
    return NULL;
}

static spyre_status reshape(lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    lowered_tensor *t = alias_of(w, lower_operand(w, op, 0)->tensor);
    TRY_ALLOC(t);
    TRY(dense(w, op, t));
    int64_t stride = spyre_format_bytes(t->format);
    t->rank = type->rank;
    for (uint32_t d = type->rank; d-- > 0; stride *= t->size[d]) {
        t->size[d] = type->size[d];
        t->stride[d] = t->is_constant ? 0 : stride;
    }
    return give(w, op, t);
}

// --- Parts of a tensor, at numbers that cores may have of their own

// The part of `t` that operands from `next` on name, which all active cores have alike.
typedef spyre_status part_of(lowering *w, const ktir_op *op, uint32_t next, lowered_tensor *t);

// An operand on the first of the active cores; that one's compute tile.
static int64_t number_of(const lowering *w, const ktir_op *op, uint32_t n)
{
    return lower_operand(w, op, n)->index->at[__builtin_ctz(w->active)];
}

static uint32_t first_tile(const lowering *w)
{
    return w->first_tile + (uint32_t)__builtin_ctz(w->active);
}

static spyre_status element(lowering *w, const ktir_op *op, uint32_t next, lowered_tensor *t)
{
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t index = number_of(w, op, next + d);
        if (index < 0 || index >= t->size[d])
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT,
                              "compute tile %u: index %lld of dim %u, which has %lld",
                              first_tile(w), (long long)index, d, (long long)t->size[d]);
        t->offset += index * t->stride[d];
    }
    t->rank = 0;
    return NULL;
}

// The dims that the slice's type has.
static spyre_status drop_dims(const lowering *w, const ktir_op *op, lowered_tensor *t)
{
    uint32_t dims[KTIR_MOST_RANK];
    bool inserts = op->opcode == KTIR_OP_INSERT_SLICE;
    t->rank = (inserts ? ktir_operand_type(w->m, op, 0) : ktir_result_type(w->m, op))->rank;
    if (!ktir_slice_dims(w->m, op, dims)) return LOWER_NO(w, op, "no slice of these sizes");
    for (uint32_t k = 0; k < t->rank; k++) {
        t->size[k] = t->size[dims[k]];
        t->stride[k] = t->stride[dims[k]];
    }
    return NULL;
}

static spyre_status cut(lowering *w, const ktir_op *op, uint32_t next, lowered_tensor *t)
{
    int64_t numbers[3][KTIR_MOST_RANK];
    static const ktir_key keys[] = {KTIR_KEY_OFFSETS, KTIR_KEY_SIZES, KTIR_KEY_STRIDES};
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t d = 0; d < t->rank; d++) {
            int64_t entry = ktir_find(w->m, op, keys[k])->list[d];
            numbers[k][d] = entry == KTIR_OPERAND ? number_of(w, op, next++) : entry;
        }
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t offset = numbers[0][d], size = numbers[1][d], stride = numbers[2][d];
        if (offset < 0 || size < 1 || stride < 1 || offset >= t->size[d] ||
            (t->size[d] - 1 - offset) / stride < size - 1)
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "compute tile %u: offset %lld, size "
                              "%lld, stride %lld run off dim %u, which has %lld", first_tile(w),
                              (long long)offset, (long long)size, (long long)stride, d,
                              (long long)t->size[d]);
        t->offset += t->is_constant ? 0 : offset * t->stride[d];
        t->size[d] = size;
        t->stride[d] *= stride;
    }
    return drop_dims(w, op, t);
}

// The cores of `left` that have the numbers of its first one.
static spyre_status cores_alike(lowering *w, const ktir_op *op, uint32_t next, uint32_t left,
                                uint32_t *out_cores)
{
    uint32_t first = (uint32_t)__builtin_ctz(left);
    *out_cores = left;
    for (uint32_t n = next; n < op->operand_count; n++) {
        const lowered_index *x = lower_operand(w, op, n)->index;
        if (!x || x->memory != LOWERING_NO_MEMORY) return LOWER_NO(w, op, "no number of the cores");
        for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) {
            if (!x->loop[l]) continue;
            w->wants_unroll = true;
            return LOWER_NO(w, op, "a part that differs between iterations");
        }
        for (uint32_t c = first; c < ISA_CORES; c++)
            if (x->at[c] != x->at[first]) *out_cores &= ~(1u << c);
    }
    return NULL;
}

// Cores with equal numbers together, in a kernel of their own where others have other numbers:
// `from` is copied to their part of `whole`, or, where it is null, the part to the result. A part
// that all cores have alike is another name for its bytes.
static spyre_status each_part(lowering *w, const ktir_op *op, part_of *part, uint32_t next,
                              const lowered_tensor *whole, const lowered_tensor *from)
{
    uint32_t all = w->active, cores;
    lowered_tensor *copy = NULL, *t = NULL;
    for (uint32_t left = all; left; left &= ~cores) {
        TRY(cores_alike(w, op, next, left, &cores));
        if (cores != w->active) TRY(lower_meet(w, op, cores));
        t = alias_of(w, whole);
        TRY_ALLOC(t);
        TRY(part(w, op, next, t));
        if (from) TRY(lower_copy(w, op, t, from));
        if (from || cores == all || t->is_constant) continue;
        if (!copy) TRY(lower_new(w, op, op->first_result, t->element, lower_sizes(t), &copy));
        TRY(lower_agree(w, op, copy->size, t->size));
        TRY(lower_copy(w, op, copy, t));
    }
    if (w->active != all) TRY(lower_meet(w, op, all));
    return from || copy ? NULL : give(w, op, t);
}

static spyre_status insert_slice(lowering *w, const ktir_op *op)
{
    const lowered_tensor *part = lower_operand(w, op, 0)->tensor;
    const lowered_tensor *whole = lower_operand(w, op, 1)->tensor;
    lowered_tensor *out;
    TRY(lower_new(w, op, op->first_result, whole->element, lower_sizes(whole), &out));
    TRY(lower_copy(w, op, out, whole));
    return each_part(w, op, cut, 2, out, part);
}

static spyre_status transpose(lowering *w, const ktir_op *op)
{
    const ktir_attribute *permutation = ktir_find(w->m, op, KTIR_KEY_DIMENSIONS);
    const lowered_tensor *from = lower_operand(w, op, 0)->tensor;
    lowered_tensor *t = alias_of(w, from);
    TRY_ALLOC(t);
    for (uint32_t d = 0; d < t->rank; d++) {
        t->size[d] = from->size[permutation->list[d]];
        t->stride[d] = from->stride[permutation->list[d]];
    }
    return give(w, op, t);
}

static spyre_status broadcast(lowering *w, const ktir_op *op)
{
    const ktir_attribute *dims = ktir_find(w->m, op, KTIR_KEY_DIMENSIONS);
    const ktir_type *type = ktir_result_type(w->m, op);
    const lowered_tensor *from = lower_operand(w, op, 0)->tensor;
    lowered_tensor *t = alias_of(w, from);
    uint32_t fresh = 0, next = 0;
    TRY(known_sizes(w, op));
    TRY_ALLOC(t);
    for (uint32_t n = 0; n < dims->count; n++) fresh |= 1u << dims->list[n];
    t->rank = type->rank;
    for (uint32_t d = 0; d < type->rank; d++) {
        bool is_new = fresh >> d & 1;
        t->size[d] = type->size[d];
        t->stride[d] = is_new ? 0 : from->stride[next];
        next += !is_new;
    }
    return give(w, op, t);
}

static spyre_status from_elements(lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    lowered_tensor *out;
    TRY(lower_new(w, op, op->first_result, type->element,
                  (lowered_sizes){type->rank, type->size}, &out));
    lowered_tensor place = *out;
    place.rank = 0;
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const lowered_cell *cell = lower_operand(w, op, n);
        lowered_tensor number;
        if (!cell->tensor) TRY(lower_number_of(w, op, cell->index, type->element, &number));
        TRY(lower_copy(w, op, &place, cell->tensor ? cell->tensor : &number));
        place.offset += spyre_format_bytes(place.format);
    }
    return NULL;
}

// The sizes of operand 0.
static const int64_t *sizes_of(const lowering *w, const ktir_op *op)
{
    const lowered_cell *cell = lower_operand(w, op, 0);
    return cell->sliced ? cell->sliced : cell->tensor->size;
}

static spyre_status tensor_cast(lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    const int64_t *size = sizes_of(w, op);
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->size[d] != KTIR_DYNAMIC && type->size[d] != size[d])
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "dim %u has %lld, the type says %lld",
                              d, (long long)size[d], (long long)type->size[d]);
    if (lower_operand(w, op, 0)->sliced) return LOWER_NO(w, op, "a tensor larger than LX");
    return give(w, op, alias_of(w, lower_operand(w, op, 0)->tensor));
}

static spyre_status dim(lowering *w, const ktir_op *op)
{
    int64_t d, rank = ktir_operand_type(w->m, op, 0)->rank;
    if (!lower_uniform(w, lower_operand(w, op, 1)->index, &d)) {
        w->wants_unroll = true;
        return LOWER_NO(w, op, "a dim that differs between cores or iterations");
    }
    if (d < 0 || d >= rank)
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "dim %lld of a tensor of %lld",
                          (long long)d, (long long)rank);
    lowered_index *x = lower_index_of(w, sizes_of(w, op)[d]);
    TRY_ALLOC(x);
    w->cells[op->first_result].index = x;
    return NULL;
}

spyre_status lower_shape(lowering *w, const ktir_op *op)
{
    switch ((int)op->opcode) {
    case KTIR_OP_EMPTY: return spread(w, op, NULL);
    case KTIR_OP_SPLAT: case KTIR_OP_FILL: return spread_operand(w, op);
    case KTIR_OP_EXTRACT:
        return each_part(w, op, element, 1, lower_operand(w, op, 0)->tensor, NULL);
    case KTIR_OP_FROM_ELEMENTS: return from_elements(w, op);
    case KTIR_OP_TENSOR_CAST: return tensor_cast(w, op);
    case KTIR_OP_DIM: return dim(w, op);
    case KTIR_OP_EXPAND_SHAPE: case KTIR_OP_COLLAPSE_SHAPE: return reshape(w, op);
    case KTIR_OP_TRANSPOSE: return transpose(w, op);
    case KTIR_OP_BROADCAST: return broadcast(w, op);
    case KTIR_OP_INSERT_SLICE: return insert_slice(w, op);
    default: return each_part(w, op, cut, 1, lower_operand(w, op, 0)->tensor, NULL);
    }
}
