// SPDX-License-Identifier: Apache-2.0
//
// One op of the loop IR from a node of the graph: its iteration space, its operands.
#include "front/build/build.h"

#include <string.h>

// A bundle's limit too; it keeps products of sizes and strides far from overflow.
static const int64_t MOST_POINTS = (int64_t)1 << 40;

spyre_status build_refuse(const builder *b, const char *why)
{
    return status_new(SPYRE_UNSUPPORTED, "%s: %s", graph_node_place(b->graph, b->node), why);
}

const graph_node *build_node_of(const builder *b)
{
    return &b->graph->nodes.items[b->node];
}

spyre_status build_view(const builder *b, uint32_t value, spyre_view *out)
{
    return status_at(graph_view_constant(b->graph, &b->graph->values.items[value].view, out),
                     "value %s", b->graph->values.items[value].name);
}

spyre_status build_begin_op(const builder *b, opfunc func, const space *dims, loop_op *op)
{
    const graph_node *node = build_node_of(b);
    *op = (loop_op){.op = func, .stick = LOOP_NO_DIM, .node = b->node};
    op->name = node->result_count ? b->graph->values.items[node->results[0]].name : node->op_name;
    if (node->location) op->location = b->graph->locations.items[node->location];
    int64_t points = 1;
    for (uint32_t d = 0; d < dims->rank; d++) {
        if (dims->size[d] < 1) return build_refuse(b, "an iteration space with a size below 1");
        if (__builtin_mul_overflow(points, dims->size[d], &points) || points > MOST_POINTS)
            return build_refuse(b, "an iteration space of more than 2^40 points");
        if (dims->size[d] == 1) continue;
        if (op->var_count == LOOP_MAX_VARS) return build_refuse(b, "more than 8 loops");
        op->split[op->var_count] = 1;
        op->extent[op->var_count++] = dims->size[d];
    }
    return NULL;
}

void build_add_access(loop_op *op, const space *dims, uint32_t buffer, int64_t offset,
                      const int64_t *strides)
{
    loop_access *access = &op->operand[op->operand_count++];
    *access = (loop_access){.buffer = buffer, .offset = offset};
    uint32_t v = 0;
    for (uint32_t d = 0; d < dims->rank; d++)
        if (dims->size[d] > 1) access->stride[v++] = strides[d];
}

// A reduction over dims of size 1 only is a copy, except a sum of repeats.
spyre_status build_finish_op(const builder *b, loop_op *op)
{
    bool reduces = opfunc_describe(op->op)->kind == OPFUNC_KIND_REDUCTION && op->op != OPFUNC_EXX2;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_reduced(op, v)) reduces = false;
    if (reduces && op->op == OPFUNC_MEAN && op->parameter[0] > 1)
        return build_refuse(b, "a sum over repeats only");
    if (reduces) op->op = OPFUNC_IDENTITY;
    return VEC_PUSH(b->loops->memory, &b->loops->ops, *op);
}

spyre_status build_space(const builder *b, uint32_t value, space *out)
{
    spyre_view view;
    TRY(build_view(b, value, &view));
    out->rank = view.rank;
    memcpy(out->size, view.size, sizeof view.size);
    return NULL;
}

spyre_status build_tensor_arg(const builder *b, uint32_t index, uint32_t *out)
{
    TRY(graph_arg_value(b->graph, b->node, index, out));
    return *out == SPYRE_NO_ID ? build_refuse(b, "a missing tensor operand") : NULL;
}

spyre_status build_add_constant(const builder *b, double value, spyre_dtype dtype, uint32_t *out)
{
    return build_add_number(b, &(graph_number){.value = value}, dtype, out);
}

spyre_status build_add_number(const builder *b, const graph_number *number, spyre_dtype dtype,
                              uint32_t *out)
{
    return loop_add_constant(b->loops, number, dtype, out);
}
