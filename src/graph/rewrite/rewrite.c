// SPDX-License-Identifier: Apache-2.0
//
// What every handler needs: arguments and results of the node in work, as tensors of the card.
#include "graph/rewrite/rewrite.h"

#include <string.h>

#include "tensor/scalar.h"

aten_op native_of(opfunc func)
{
    for (uint32_t i = 0; i < ATEN_NATIVE_COUNT; i++) {
        const aten_row *row = aten_describe((aten_op)i);
        bool takes_opfunc = row->kind == ATEN_KIND_POINTWISE ||
                            row->kind == ATEN_KIND_REDUCTION || row->kind == ATEN_KIND_SCAN;
        if (takes_opfunc && row->opfunc == func) return (aten_op)i;
    }
    return ATEN_COUNT;
}

static spyre_status load_value(rewriter *r, uint32_t value, tensor *out)
{
    const graph_value *v = &r->target->values.items[value];
    *out = (tensor){.value = value, .dtype = v->dtype};
    if (!v->on_card) return status_new(SPYRE_UNSUPPORTED, "a tensor of the host");
    TRY(graph_view_constant(r->target, &v->view, &out->view));
    if (r->loose[value]) {
        return status_new(SPYRE_UNSUPPORTED, "a result of the host that is not dense");
    }
    if (view_element_count(&out->view) == 0)
        return status_new(SPYRE_UNSUPPORTED, "a tensor without elements");
    bool is_result = value < r->source->values.count &&
                     r->source->values.items[value].node == r->node;
    return r->change_operand && !is_result ? r->change_operand(r, out) : NULL;
}

spyre_status rewrite_value(rewriter *r, uint32_t value, tensor *out)
{
    TRY(load_value(r, value, out));
    tensor given = *out;
    return make_cast(r, &given, rewrite_computed(r, given.dtype), NULL, out);
}

spyre_status rewrite_optional(rewriter *r, uint32_t index, bool *out_present, tensor *out)
{
    uint32_t value;
    TRY(graph_arg_value(r->source, r->node, index, &value));
    *out_present = value != SPYRE_NO_ID;
    if (!*out_present) return NULL;
    return status_at(rewrite_value(r, value, out), "operand %u", index);
}

spyre_status rewrite_tensor(rewriter *r, uint32_t index, tensor *out)
{
    bool present;
    TRY(rewrite_optional(r, index, &present, out));
    if (present) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "argument %u: expected a tensor, found none", index);
}

spyre_status rewrite_same_dtypes(rewriter *r, uint32_t first, uint32_t count)
{
    tensor one, other;
    TRY(rewrite_tensor(r, first, &one));
    for (uint32_t i = first + 1; i < first + count; i++) {
        bool present;
        TRY(rewrite_optional(r, i, &present, &other));
        if (!present || other.dtype == one.dtype) continue;
        return status_new(SPYRE_UNSUPPORTED, "operand %u: %s, operand %u has %s", i,
                          spyre_dtype_name(other.dtype), first, spyre_dtype_name(one.dtype));
    }
    return NULL;
}

spyre_status rewrite_separate(rewriter *r, uint32_t index, tensor *out)
{
    TRY(rewrite_tensor(r, index, out));
    return status_at(make_separate(r, out, out), "operand %u", index);
}

static spyre_scalar_form form_in(spyre_dtype dtype)
{
    switch ((int)dtype) {
    case SPYRE_DTYPE_F16: return SPYRE_SCALAR_AS_F16;
    case SPYRE_DTYPE_BF16: return SPYRE_SCALAR_AS_BF16;
    case SPYRE_DTYPE_U8: return SPYRE_SCALAR_AS_U8;
    case SPYRE_DTYPE_I8: return SPYRE_SCALAR_AS_I8;
    case SPYRE_DTYPE_I16: return SPYRE_SCALAR_AS_I16;
    default: return SPYRE_SCALAR_AS_IS;
    }
}

graph_number number_in(const rewriter *r, graph_number number, spyre_dtype dtype)
{
    bool wraps = r->widens && dtype == SPYRE_DTYPE_I32 && aten_is_narrow(r->common);
    spyre_scalar_form form = form_in(wraps ? r->common : dtype);
    if (form == SPYRE_SCALAR_AS_IS) return number;
    if (!number.scalar) return (graph_number){.value = scalar_apply(form, number.value)};
    number.form = form;
    return number;
}

// A wider integer without dims, of what the node's narrow dtype holds.
static spyre_status wrap(rewriter *r, uint32_t index, tensor *x)
{
    uint32_t value = r->from->args[index].of.value;
    bool differs = r->target->values.items[value].dtype != r->common;
    if (!r->widens || !aten_is_narrow(r->common) || !differs) return NULL;
    TRY(make_cast(r, x, r->common, NULL, x));
    return make_cast(r, x, SPYRE_DTYPE_I32, NULL, x);
}

static spyre_status load_operand(rewriter *r, uint32_t index, spyre_dtype dtype, bool is_stored,
                                 tensor *out)
{
    bool is_value = index < r->from->arg_count && r->from->args[index].kind == SPYRE_ARG_VALUE;
    tensor given;
    graph_number number;
    if (is_value) {
        TRY(rewrite_separate(r, index, &given));
        TRY(wrap(r, index, &given));
        return status_at(make_cast(r, &given, dtype, NULL, out), "operand %u", index);
    }
    if (index >= r->from->arg_count || r->from->args[index].kind == SPYRE_ARG_NONE) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "argument %u: expected a tensor or a number, "
                          "found none",
                          index);
    }
    TRY(graph_arg_number(r->source, r->node, index, 0, &number));
    if (is_stored || r->widens) number = number_in(r, number, dtype);
    return status_at(make_number(r, &number, dtype, out), "operand %u", index);
}

spyre_status rewrite_operand(rewriter *r, uint32_t index, spyre_dtype dtype, tensor *out)
{
    return load_operand(r, index, dtype, false, out);
}

spyre_status rewrite_stored(rewriter *r, uint32_t index, spyre_dtype dtype, tensor *out)
{
    return load_operand(r, index, dtype, true, out);
}

spyre_status rewrite_dim(rewriter *r, uint32_t index, int64_t fallback, uint32_t rank,
                         uint32_t *out_dim)
{
    int64_t dim, limit = rank ? (int64_t)rank : 1;
    TRY(graph_arg_int(r->source, r->node, index, fallback, &dim));
    if (dim < -limit || dim >= limit) {
        return status_new(SPYRE_INVALID_ARGUMENT, "argument %u: dim %lld is outside [-%lld, %lld)",
                          index, (long long)dim, (long long)limit, (long long)limit);
    }
    *out_dim = (uint32_t)(dim < 0 ? dim + limit : dim);
    return NULL;
}

spyre_status rewrite_result(rewriter *r, uint32_t index, tensor *out)
{
    if (index >= r->from->result_count) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%u results, expected at least %u",
                          r->from->result_count, index + 1);
    }
    uint32_t value = r->from->results[index];
    TRY(status_at(load_value(r, value, out), "result %u", index));
    bool is_wide = rewrite_computed(r, out->dtype) != out->dtype;
    return is_wide ? rewrite_wide_result(r, value, out) : NULL;
}

bool rewrite_uses(const rewriter *r, uint32_t result)
{
    return result < r->from->result_count && r->uses[r->from->results[result]] > 0;
}

spyre_status rewrite_only_result(rewriter *r, uint32_t index)
{
    for (uint32_t i = 0; i < r->from->result_count; i++) {
        if (i == index || !rewrite_uses(r, i)) continue;
        return status_new(SPYRE_UNSUPPORTED, "result %u is used", i);
    }
    return NULL;
}

spyre_status rewrite_finish(rewriter *r, const tensor *x, const tensor *into)
{
    spyre_view reshaped;
    tensor same_sizes;
    // Never another name of a caller's tensor, which the host may overwrite later.
    bool is_own = graph_value_base(r->target, x->value) >= r->source->values.count;
    bool is_view = view_reshape(&x->view, into->view.size, into->view.rank, &reshaped);
    if (is_own && is_view && x->dtype == into->dtype && view_same(&reshaped, &into->view)) {
        return make_view(r, x, &into->view, into, NULL);
    }
    TRY(make_reshape(r, x, into->view.size, into->view.rank, &same_sizes));
    return make_cast(r, &same_sizes, into->dtype, into, NULL);
}
