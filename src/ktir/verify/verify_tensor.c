// SPDX-License-Identifier: Apache-2.0
//
// Rules of tensor and memref.
#include "ktir/verify/verify.h"

static uint32_t dynamic_sizes(const ktir_type *type)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < type->rank; d++) count += type->size[d] == KTIR_DYNAMIC;
    return count;
}

static spyre_status verify_shape_operands(const ktir_module *m, const ktir_op *op, uint32_t first)
{
    const ktir_type *type = ktir_result_type(m, op);
    if (type->kind != KTIR_TENSOR) return verify_bad_result(m, op, "a tensor is wanted");
    if (op->operand_count - first != dynamic_sizes(type))
        return VERIFY_BAD(m, op, "%u sizes for %u unknown ones", op->operand_count - first,
                          dynamic_sizes(type));
    return verify_indices(m, op, first, op->operand_count);
}

// Consecutive dims 0, 1, .. in groups; the long shape has them, the short one a dim a group.
static spyre_status verify_reshape(const ktir_module *m, const ktir_op *op)
{
    bool expands = op->opcode == KTIR_OP_EXPAND_SHAPE;
    const ktir_attribute *groups = ktir_find(m, op, KTIR_KEY_GROUPS);
    const ktir_type *from = ktir_operand_type(m, op, 0), *to = ktir_result_type(m, op);
    const ktir_type *large = expands ? to : from, *small = expands ? from : to;
    int64_t dims = groups->count ? groups->ends[groups->count - 1] : 0;
    if (from->kind != KTIR_TENSOR) return verify_bad_operand(m, op, 0, "a tensor is wanted");
    if (to->kind != KTIR_TENSOR || to->element != from->element)
        return verify_bad_result(m, op, "a reshape keeps the elements");
    if (small->rank != groups->count || (groups->count && dims != large->rank))
        return VERIFY_BAD(m, op, "%u groups of %lld dims between %u and %u dims", groups->count,
                          (long long)dims, large->rank, small->rank);
    for (int64_t d = 0; d < dims; d++)
        if (groups->list[d] != d) return VERIFY_BAD(m, op, "groups list the dims in order");
    if (dynamic_sizes(from) || dynamic_sizes(to))
        return ktir_error(m, op, SPYRE_UNSUPPORTED, "a reshape of unknown sizes");
    for (uint32_t g = 0, d = 0; g < groups->count; g++) {
        int64_t product = 1;
        for (; d < groups->ends[g]; d++) product *= large->size[d];
        if (product != small->size[g])
            return VERIFY_BAD(m, op, "group %u has %lld elements, its dim %lld", g,
                              (long long)product, (long long)small->size[g]);
    }
    if (ktir_type_elements(from) != ktir_type_elements(to))
        return verify_bad_result(m, op, "a reshape keeps the number of elements");
    return verify_indices(m, op, 1, op->operand_count);
}

static spyre_status verify_slice(const ktir_module *m, const ktir_op *op)
{
    bool inserts = op->opcode == KTIR_OP_INSERT_SLICE, view = op->opcode == KTIR_OP_SUBVIEW;
    const ktir_type *whole = ktir_operand_type(m, op, inserts ? 1 : 0);
    const ktir_type *part = inserts ? ktir_operand_type(m, op, 0) : ktir_result_type(m, op);
    const ktir_attribute *offsets = ktir_find(m, op, KTIR_KEY_OFFSETS);
    const ktir_attribute *sizes = ktir_find(m, op, KTIR_KEY_SIZES);
    const ktir_attribute *strides = ktir_find(m, op, KTIR_KEY_STRIDES);
    ktir_kind kind = view ? KTIR_MEMREF : KTIR_TENSOR;
    if (whole->kind != kind || part->kind != kind || whole->element != part->element)
        return VERIFY_BAD(m, op, "a slice and its whole are %s of one element type",
                          view ? "memrefs" : "tensors");
    if (view ? part->rank != whole->rank : part->rank > whole->rank)
        return ktir_error(m, op, SPYRE_UNSUPPORTED, "a slice of %u dims of a whole of %u",
                          part->rank, whole->rank);
    if (offsets->count != whole->rank || sizes->count != whole->rank ||
        strides->count != whole->rank)
        return VERIFY_BAD(m, op, "offsets, sizes and strides are %u, %u and %u for %u dims",
                          offsets->count, sizes->count, strides->count, whole->rank);
    uint32_t dims[KTIR_MOST_RANK];
    if (part->rank < whole->rank && !ktir_slice_dims(m, op, dims))
        return VERIFY_BAD(m, op, "the slice's sizes are not those of the type and dims of 1");
    for (uint32_t d = 0; d < whole->rank; d++) {
        int64_t offset = offsets->list[d], size = sizes->list[d], stride = strides->list[d];
        int64_t typed = part->rank == whole->rank ? part->size[d] : KTIR_DYNAMIC;
        if (size != KTIR_OPERAND && typed != KTIR_DYNAMIC && size != typed)
            return VERIFY_BAD(m, op, "size %lld of dim %u, the type says %lld", (long long)size, d,
                              (long long)typed);
        if (stride != KTIR_OPERAND && (stride < 1 || stride > INT32_MAX))
            return VERIFY_BAD(m, op, "stride %lld of dim %u", (long long)stride, d);
        if (offset == KTIR_OPERAND || size == KTIR_OPERAND || stride == KTIR_OPERAND ||
            whole->size[d] == KTIR_DYNAMIC)
            continue;
        if (offset < 0 || size < 0 || offset > whole->size[d] || size > whole->size[d] ||
            (size && offset + (size - 1) * stride >= whole->size[d]))
            return VERIFY_BAD(m, op, "offset %lld, size %lld, stride %lld run off dim %u, which "
                              "has %lld", (long long)offset, (long long)size, (long long)stride, d,
                              (long long)whole->size[d]);
    }
    return verify_indices(m, op, inserts ? 2 : 1, op->operand_count);
}

static spyre_status verify_from_elements(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(m, op);
    if (type->kind != KTIR_TENSOR || ktir_type_elements(type) != op->operand_count)
        return verify_bad_result(m, op, "a tensor of as many elements is wanted");
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const ktir_type *element = ktir_operand_type(m, op, n);
        if (element->kind != KTIR_SCALAR || element->element != type->element)
            return verify_bad_operand(m, op, n, "an element of the result is wanted");
    }
    return NULL;
}

// Sizes may become known or be forgotten.
static spyre_status verify_tensor_cast(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *from = ktir_operand_type(m, op, 0), *to = ktir_result_type(m, op);
    if (from->kind != KTIR_TENSOR) return verify_bad_operand(m, op, 0, "a tensor is wanted");
    if (to->kind == KTIR_TENSOR && to->element == from->element && ktir_same_sizes(from, to))
        return NULL;
    return verify_bad_result(m, op, "a cast keeps elements and sizes");
}

static spyre_status verify_affine(const ktir_module *m, const ktir_op *op)
{
    uint32_t count = ktir_find(m, op, KTIR_KEY_SUBSCRIPTS)->map->count;
    if (op->opcode == KTIR_OP_AFFINE_APPLY ? count != 1 : !count)
        return VERIFY_BAD(m, op, "a map of %u results", count);
    return verify_indices(m, op, 0, op->operand_count);
}

spyre_status verify_tensor(const ktir_module *m, const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    if (form == KTIR_FORM_FROM_ELEMENTS) return verify_from_elements(m, op);
    if (form == KTIR_FORM_TENSOR_CAST) return verify_tensor_cast(m, op);
    if (form == KTIR_FORM_AFFINE) return verify_affine(m, op);
    if (form == KTIR_FORM_DIM) {
        if (ktir_operand_type(m, op, 0)->kind == KTIR_TENSOR) return verify_indices(m, op, 1, 2);
        return verify_bad_operand(m, op, 0, "a tensor is wanted");
    }
    if (form == KTIR_FORM_EMPTY) return verify_shape_operands(m, op, 0);
    if (form == KTIR_FORM_SPLAT) {
        const ktir_type *value = ktir_operand_type(m, op, 0);
        TRY(verify_shape_operands(m, op, 1));
        if (value->kind != KTIR_SCALAR || value->element != ktir_result_type(m, op)->element)
            return verify_bad_operand(m, op, 0, "an element of the result is wanted");
        return NULL;
    }
    if (form == KTIR_FORM_EXTRACT) {
        const ktir_type *type = ktir_operand_type(m, op, 0);
        if (type->kind != KTIR_TENSOR) return verify_bad_operand(m, op, 0, "a tensor is wanted");
        if (op->operand_count - 1 != type->rank)
            return VERIFY_BAD(m, op, "%u indices into %u dims", op->operand_count - 1, type->rank);
        return verify_indices(m, op, 1, op->operand_count);
    }
    return form == KTIR_FORM_RESHAPE ? verify_reshape(m, op) : verify_slice(m, op);
}
