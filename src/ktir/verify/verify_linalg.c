// SPDX-License-Identifier: Apache-2.0
//
// Rules of linalg on tensors.
#include "ktir/ir/contraction.h"
#include "ktir/verify/verify.h"

static spyre_status verify_tensors(const ktir_module *m, const ktir_op *op, uint32_t first)
{
    for (uint32_t n = first; n < op->operand_count; n++)
        if (ktir_operand_type(m, op, n)->kind != KTIR_TENSOR)
            return verify_bad_operand(m, op, n, "a tensor is wanted");
    return NULL;
}

static spyre_status verify_ins(const ktir_module *m, const ktir_op *op, uint32_t wanted)
{
    if (op->operand_count == wanted + 1) return NULL;
    return VERIFY_BAD(m, op, "%u ins: it takes %u", op->operand_count - 1, wanted);
}

static spyre_status verify_elementwise(const ktir_module *m, const ktir_op *op)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    const ktir_type *out = ktir_operand_type(m, op, op->operand_count - 1);
    TRY(verify_ins(m, op, info->form == KTIR_FORM_LINALG_BINARY ? 2 : 1));
    for (uint32_t n = 0; n + 1 < op->operand_count; n++) {
        const ktir_type *in = ktir_operand_type(m, op, n);
        if (in->element != out->element || !ktir_same_sizes(in, out))
            return verify_bad_operand(m, op, n, "ins and outs have one type");
    }
    bool real = ktir_element_describe(out->element)->is_float;
    if (!real && info->integer == KTIR_INTEGER_NONE)
        return verify_bad_operand(m, op, 0, "floating-point elements are wanted");
    if (real && info->op == OPFUNC_NONE)
        return verify_bad_operand(m, op, 0, "integers are wanted");
    return NULL;
}

// What an axis of a factor must agree with.
static const char *const axis_rules[] = {
    [KTIR_AXIS_B] = "it has another number of batches than outs",
    [KTIR_AXIS_M] = "it has another number of rows than outs",
    [KTIR_AXIS_N] = "it has another number of columns than outs",
    [KTIR_AXIS_K] = "its rows are not the columns of the other factor",
};

static spyre_status verify_matmul(const ktir_module *m, const ktir_op *op)
{
    const ktir_contraction c = ktir_contraction_of(op->opcode);
    int64_t size[KTIR_AXES];
    TRY(verify_ins(m, op, 2));
    bool real = ktir_element_describe(ktir_operand_type(m, op, 2)->element)->is_float;
    for (uint32_t axis = 0; axis < KTIR_AXES; axis++) size[axis] = KTIR_DYNAMIC;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t n = (k + 2) % 3;       // outs first
        const ktir_type *type = ktir_operand_type(m, op, n);
        if (type->rank != c.rank[n]) return verify_bad_operand(m, op, n, "it has another rank");
        if (ktir_element_describe(type->element)->is_float != real)
            return verify_bad_operand(m, op, n, "factors and outs are floats, or integers");
        for (uint32_t d = 0; d < c.rank[n]; d++) {
            int64_t *known = &size[c.axis[n][d]];
            if (!ktir_same_size(*known, type->size[d]))
                return verify_bad_operand(m, op, n, axis_rules[c.axis[n][d]]);
            if (*known == KTIR_DYNAMIC) *known = type->size[d];
        }
    }
    if (ktir_operand_type(m, op, 0)->element == ktir_operand_type(m, op, 1)->element) return NULL;
    return verify_bad_operand(m, op, 1, "ins have one element type");
}

// The dims are different ones below `rank`; sets bit d of *out_dims.
static spyre_status verify_dims(const ktir_module *m, const ktir_op *op, uint32_t rank,
                                uint32_t *out_dims)
{
    const ktir_attribute *dims = ktir_find(m, op, KTIR_KEY_DIMENSIONS);
    *out_dims = 0;
    for (uint32_t n = 0; n < dims->count; n++) {
        int64_t d = dims->list[n];
        if (d < 0 || d >= rank)
            return VERIFY_BAD(m, op, "dim %lld of a tensor of %u dims", (long long)d, rank);
        if (*out_dims >> d & 1) return VERIFY_BAD(m, op, "dim %lld is given twice", (long long)d);
        *out_dims |= 1u << d;
    }
    return NULL;
}

// `small` has the sizes of `large` without the dims of `dims`.
static bool lacks_dims(const ktir_type *small, const ktir_type *large, uint32_t dims)
{
    uint32_t next = 0;
    for (uint32_t d = 0; d < large->rank; d++) {
        if (dims >> d & 1) continue;
        if (next == small->rank || !ktir_same_size(small->size[next], large->size[d])) return false;
        next++;
    }
    return next == small->rank;
}

static ktir_type scalar_of(const ktir_type *type)
{
    return (ktir_type){.kind = KTIR_SCALAR, .element = type->element};
}

static spyre_status verify_brief(const ktir_module *m, const ktir_op *op, ktir_form wanted,
                                 bool *out_brief)
{
    const ktir_attribute *combiner = ktir_find(m, op, KTIR_KEY_COMBINER);
    *out_brief = combiner;
    if (!combiner) return NULL;
    const ktir_op_info *info = ktir_op_describe((ktir_opcode)combiner->number);
    const ktir_type *in = ktir_operand_type(m, op, 0);
    bool floats = ktir_element_describe(in->element)->is_float;
    if (info->form != wanted) return VERIFY_BAD(m, op, "%s takes another number of elements",
                                                info->mnemonic);
    if (floats == (info->integer == KTIR_INTEGER_NONE)) return NULL;
    return verify_bad_operand(m, op, 0, "its elements are not those of the combining operation");
}

static spyre_status verify_reduce(const ktir_module *m, const ktir_op *op)
{
    uint32_t dims;
    bool brief;
    TRY(verify_ins(m, op, 1));
    const ktir_type *in = ktir_operand_type(m, op, 0), *out = ktir_operand_type(m, op, 1);
    TRY(verify_dims(m, op, in->rank, &dims));
    if (!lacks_dims(out, in, dims) || in->element != out->element)
        return verify_bad_operand(m, op, 1, "outs has the shape of ins without the reduced dims");
    TRY(verify_brief(m, op, KTIR_FORM_BINARY, &brief));
    if (brief) return NULL;
    ktir_type element = scalar_of(in);
    return verify_combiner(m, op, &element, 2, &element);
}

static spyre_status verify_broadcast(const ktir_module *m, const ktir_op *op)
{
    uint32_t dims;
    TRY(verify_ins(m, op, 1));
    const ktir_type *in = ktir_operand_type(m, op, 0), *out = ktir_operand_type(m, op, 1);
    TRY(verify_dims(m, op, out->rank, &dims));
    if (lacks_dims(in, out, dims) && in->element == out->element) return NULL;
    return verify_bad_operand(m, op, 0, "ins has the shape of outs without the new dims");
}

static spyre_status verify_transpose(const ktir_module *m, const ktir_op *op)
{
    const ktir_attribute *permutation = ktir_find(m, op, KTIR_KEY_DIMENSIONS);
    uint32_t dims;
    TRY(verify_ins(m, op, 1));
    const ktir_type *in = ktir_operand_type(m, op, 0), *out = ktir_operand_type(m, op, 1);
    TRY(verify_dims(m, op, in->rank, &dims));
    if (permutation->count != in->rank || out->rank != in->rank || in->element != out->element)
        return VERIFY_BAD(m, op, "a permutation of %u dims for a tensor of %u",
                          permutation->count, in->rank);
    for (uint32_t d = 0; d < out->rank; d++)
        if (!ktir_same_size(out->size[d], in->size[permutation->list[d]]))
            return verify_bad_operand(m, op, 1, "outs has not the permuted sizes of ins");
    return NULL;
}

// Every operand is walked by dims of the iteration space, whose extents agree.
static spyre_status verify_maps(const ktir_module *m, const ktir_op *op,
                                const ktir_attribute *maps, uint32_t dims)
{
    int64_t extent[KTIR_MOST_RANK];
    uint32_t known = 0;
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const ktir_type *type = ktir_operand_type(m, op, n);
        const ktir_map *map = maps->maps[n];
        if (map->dims != dims || map->symbols || map->count != type->rank)
            return verify_bad_operand(m, op, n, "its indexing map has another number of dims");
        for (uint32_t r = 0; r < map->count; r++) {
            const ktir_expr *e = map->results[r];
            if (e->kind == KTIR_EXPR_NUMBER) {
                if (e->number >= 0 && (type->size[r] == KTIR_DYNAMIC || e->number < type->size[r]))
                    continue;
                return verify_bad_operand(m, op, n, "its indexing map leaves it");
            }
            if (e->kind != KTIR_EXPR_NAME)
                return ktir_error(m, op, SPYRE_UNSUPPORTED,
                                  "an indexing map whose results are not dims or numbers");
            if (known >> e->number & 1 && !ktir_same_size(extent[e->number], type->size[r]))
                return verify_bad_operand(m, op, n, "its sizes are not those of other operands");
            if (!(known >> e->number & 1) || extent[e->number] == KTIR_DYNAMIC)
                extent[e->number] = type->size[r];
            known |= 1u << e->number;
        }
    }
    for (uint32_t d = 0; d < dims; d++)
        if (!(known >> d & 1)) return VERIFY_BAD(m, op, "no operand has dim d%u", d);
    return NULL;
}

static spyre_status verify_generic(const ktir_module *m, const ktir_op *op)
{
    const ktir_attribute *maps = ktir_find(m, op, KTIR_KEY_INDEXING_MAPS);
    const ktir_attribute *iterators = ktir_find(m, op, KTIR_KEY_ITERATORS);
    const ktir_region *region = ktir_op_region(m, op, 0);
    if (!maps || !iterators)
        return VERIFY_BAD(m, op, "indexing_maps or iterator_types is missing");
    if (maps->count != op->operand_count)
        return VERIFY_BAD(m, op, "%u indexing maps for %u operands", maps->count,
                          op->operand_count);
    if (iterators->count > KTIR_MOST_RANK)
        return VERIFY_BAD(m, op, "more than %d dims", KTIR_MOST_RANK);
    TRY(verify_maps(m, op, maps, iterators->count));
    ktir_type out = scalar_of(ktir_operand_type(m, op, op->operand_count - 1));
    TRY(verify_combiner(m, op, NULL, op->operand_count, &out));
    for (uint32_t n = 0; n < op->operand_count; n++) {
        ktir_type element = scalar_of(ktir_operand_type(m, op, n));
        if (!ktir_type_same(m->values.items[region->first_argument + n].type, &element))
            return verify_bad_operand(m, op, n, "the region's argument for it has another type");
    }
    return NULL;
}

static spyre_status verify_map_op(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *out = ktir_operand_type(m, op, op->operand_count - 1);
    bool brief;
    for (uint32_t n = 0; n + 1 < op->operand_count; n++)
        if (!ktir_same_sizes(ktir_operand_type(m, op, n), out))
            return verify_bad_operand(m, op, n, "ins and outs have one shape");
    if (op->operand_count < 2) return VERIFY_BAD(m, op, "it needs ins");
    TRY(verify_brief(m, op, op->operand_count == 2   ? KTIR_FORM_UNARY
                            : op->operand_count == 3 ? KTIR_FORM_BINARY
                                                     : KTIR_FORM_TERNARY, &brief));
    if (brief)
        return op->operand_count <= 4 ? NULL : VERIFY_BAD(m, op, "more ins than it combines");
    ktir_type element = scalar_of(out);
    TRY(verify_combiner(m, op, NULL, op->operand_count - 1, &element));
    for (uint32_t n = 0; n + 1 < op->operand_count; n++) {
        ktir_type in = scalar_of(ktir_operand_type(m, op, n));
        if (!ktir_type_same(m->values.items[ktir_op_region(m, op, 0)->first_argument + n].type,
                            &in))
            return verify_bad_operand(m, op, n, "the region's argument for it has another type");
    }
    return NULL;
}

static spyre_status verify_fill(const ktir_module *m, const ktir_op *op)
{
    TRY(verify_ins(m, op, 1));
    const ktir_type *value = ktir_operand_type(m, op, 0), *out = ktir_operand_type(m, op, 1);
    if (value->kind == KTIR_SCALAR && value->element == out->element) return NULL;
    return verify_bad_operand(m, op, 0, "it fills with one element of outs");
}

spyre_status verify_linalg(const ktir_module *m, const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    if (form == KTIR_FORM_LINALG_INDEX) return NULL;
    TRY(verify_tensors(m, op, form == KTIR_FORM_FILL ? 1 : 0));
    switch ((int)form) {
    case KTIR_FORM_FILL: return verify_fill(m, op);
    case KTIR_FORM_MATMUL: return verify_matmul(m, op);
    case KTIR_FORM_LINALG_REDUCE: return verify_reduce(m, op);
    case KTIR_FORM_BROADCAST: return verify_broadcast(m, op);
    case KTIR_FORM_TRANSPOSE: return verify_transpose(m, op);
    case KTIR_FORM_GENERIC: return verify_generic(m, op);
    case KTIR_FORM_MAP: return verify_map_op(m, op);
    default: return verify_elementwise(m, op);
    }
}
