// SPDX-License-Identifier: Apache-2.0
#include "graph/rewrite/make_node.h"

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

spyre_status before_cast(const rewriter *r, const tensor *x, tensor *out)
{
    const spyre_graph *graph = r->target;
    const graph_value *value = &graph->values.items[x->value];
    spyre_view made;
    *out = *x;
    if (x->dtype != SPYRE_DTYPE_F32 || value->node == SPYRE_NO_ID) return NULL;
    const graph_node *node = &graph->nodes.items[value->node];
    if (node->op != ATEN_SPYRE_CAST) return NULL;
    TRY(graph_view_constant(graph, &value->view, &made));
    uint32_t of = node->args[0].of.value;
    const graph_value *from = &graph->values.items[of];
    bool narrow = from->dtype == SPYRE_DTYPE_F16 || from->dtype == SPYRE_DTYPE_BF16;
    if (!narrow || !view_same(&x->view, &made)) return NULL;
    *out = (tensor){.value = of, .dtype = from->dtype};
    return graph_view_constant(graph, &from->view, &out->view);
}
