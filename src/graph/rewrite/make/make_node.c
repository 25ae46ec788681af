// SPDX-License-Identifier: Apache-2.0
#include "graph/rewrite/make/make_node.h"

#include "graph/verify.h"

// "softmax.1", after the node's first result.
static spyre_status fresh_name(rewriter *r, const char **out_name)
{
    const spyre_graph *source = r->source;
    const char *stem = r->from->result_count ? source->values.items[r->from->results[0]].name : "v";
    do {
        *out_name = arena_printf(r->target->memory, "%s.%u", stem, ++r->serial);
        TRY_ALLOC(*out_name);
    } while (graph_is_name_taken(r->target, *out_name));
    return NULL;
}

static spyre_status fresh_value(rewriter *r, spyre_dtype dtype, const spyre_view *view,
                                uint32_t *out_value)
{
    const char *name = NULL;
    graph_type type = {.dtype = dtype, .on_card = true};
    TRY(fresh_name(r, &name));
    TRY(graph_view_from(r->target, view, &type.view));
    return graph_add_value(r->target, name, &type, out_value);
}

spyre_status make_fresh(rewriter *r, spyre_dtype dtype, const spyre_view *view, tensor *out)
{
    *out = (tensor){.dtype = dtype, .view = *view};
    return fresh_value(r, dtype, view, &out->value);
}

spyre_status make_node(rewriter *r, aten_op op, const spyre_arg *args, uint32_t arg_count,
                       spyre_dtype dtype, const spyre_view *view, const tensor *into, tensor *out)
{
    tensor result = into ? *into : (tensor){.dtype = dtype, .view = *view};
    if (!into) TRY(fresh_value(r, dtype, view, &result.value));
    graph_new_node node = {.op_name = aten_describe(op)->name,
                           .args = args,
                           .arg_count = arg_count,
                           .results = &result.value,
                           .result_count = 1,
                           .location = r->from->location,
                           .hint = r->from->hint,
                           .origin = r->from->origin};
    uint32_t id;
    TRY(graph_add_node(r->target, &node, &id));
    if (out) *out = result;
    return op < ATEN_NATIVE_COUNT ? native_check(r->target, id) : NULL;
}

spyre_status make_view(rewriter *r, const tensor *x, const spyre_view *view, const tensor *into,
                       tensor *out)
{
    spyre_arg args[1] = {tensor_arg(x)};
    if (into && into->dtype != x->dtype)
        return status_new(SPYRE_INVALID_ARGUMENT, "the result is %s, the operation gives %s",
                          spyre_dtype_name(into->dtype), spyre_dtype_name(x->dtype));
    return make_node(r, ATEN_SPYRE_VIEW, args, 1, x->dtype, view, into, out);
}

static uint32_t dim_of_stride(const spyre_view *view, int64_t size, int64_t stride)
{
    uint32_t dim = 0;
    while (dim < view->rank && (view->size[dim] != size || view->stride[dim] != stride)) dim++;
    return dim;
}

// The elements that `x` has of `made`, all of them, in the same order in `from`, which has the
// dims of `made`; false where x is more than these dims in some order, and dims of 1.
static bool same_dims(const spyre_view *x, const spyre_view *made, const spyre_view *from,
                      spyre_view *out)
{
    *out = (spyre_view){.rank = x->rank, .offset = from->offset};
    if (x->offset != made->offset || view_element_count(x) != view_element_count(made))
        return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        out->size[i] = x->size[i];
        if (x->size[i] == 1) continue;
        uint32_t dim = dim_of_stride(made, x->size[i], x->stride[i]);
        if (dim == made->rank) return false;
        out->stride[i] = from->stride[dim];
    }
    return true;
}

spyre_status before_cast(rewriter *r, const tensor *x, tensor *out)
{
    const spyre_graph *graph = r->target;
    spyre_view made, view;
    *out = *x;
    const graph_value *value = &graph->values.items[graph_value_base(graph, x->value)];
    if (x->dtype != SPYRE_DTYPE_F32 || value->dtype != x->dtype || value->node == SPYRE_NO_ID)
        return NULL;
    const graph_node *node = &graph->nodes.items[value->node];
    if (node->op != ATEN_SPYRE_CAST || !view_is_dense(&x->view)) return NULL;
    TRY(graph_view_constant(graph, &value->view, &made));
    tensor of = {.value = node->args[0].of.value};
    of.dtype = graph->values.items[of.value].dtype;
    if (of.dtype != SPYRE_DTYPE_F16 && of.dtype != SPYRE_DTYPE_BF16) return NULL;
    TRY(graph_view_constant(graph, &graph->values.items[of.value].view, &of.view));
    if (!same_dims(&x->view, &made, &of.view, &view)) return NULL;
    if (view_same(&view, &of.view) && view.rank == of.view.rank) {
        *out = of;
        return NULL;
    }
    return make_view(r, &of, &view, NULL, out);
}
