// SPDX-License-Identifier: Apache-2.0
//
// Makers of natives that read and write at indices.
#include <string.h>

#include "graph/rewrite/make/make_node.h"

spyre_status make_gather(rewriter *r, const tensor *table, const tensor *index, const tensor *into,
                         tensor *out)
{
    spyre_view view = index->view;
    tensor rows = *table;
    if (view.rank == SPYRE_MAX_RANK || table->view.rank != 2) {
        return status_new(SPYRE_UNSUPPORTED, "gather from rank %u by rank %u", table->view.rank,
                          index->view.rank);
    }
    // The card reads rows that lie apart.
    if (table->view.stride[0] == 0 || table->view.stride[1] == 0)
        TRY(make_copy(r, table, NULL, &rows));
    spyre_arg args[2] = {tensor_arg(&rows), tensor_arg(index)};
    view.size[view.rank++] = table->view.size[1];
    view_set_contiguous(&view);
    return make_node(r, ATEN_SPYRE_GATHER, args, 2, table->dtype, &view, into, out);
}

// --- What is looked up in the operands of an element-wise op, not in its result

// Whether nothing but the node in work needs a value.
static bool is_needed_here_only(const rewriter *r, uint32_t value)
{
    if (value >= r->source->values.count) return true;
    uint32_t here = 0;
    for (uint32_t i = 0; i < r->from->read_count; i++) here += r->from->reads[i] == value;
    return r->uses[value] == here;
}

typedef enum { STAYS, LOOKED_UP, UNSUITED } operand_role;

// An operand that does not move along the dim stays; others have all elements of the result.
static operand_role role_of(const spyre_view *operand, const spyre_view *x, uint32_t dim)
{
    uint32_t shift = x->rank - operand->rank;
    if (dim < shift || operand->size[dim - shift] == 1) return STAYS;
    bool moves = shift == 0 && operand->stride[dim] != 0;
    return moves && view_same_sizes(operand, x) ? LOOKED_UP : UNSUITED;
}

static spyre_status load_operand(const rewriter *r, const spyre_arg *arg, tensor *out)
{
    const graph_value *value = &r->target->values.items[arg->of.value];
    *out = (tensor){.value = arg->of.value, .dtype = value->dtype};
    return graph_view_constant(r->target, &value->view, &out->view);
}

// The argument to look up in; SPYRE_NO_ID where a lookup in the result is as good.
static spyre_status find_looked_up(const rewriter *r, const tensor *x, const tensor *index,
                                   uint32_t dim, uint32_t *out)
{
    enum { FEWER = 4 };
    uint32_t id = r->target->values.items[x->value].node;
    *out = SPYRE_NO_ID;
    if (id == SPYRE_NO_ID || x->view.rank < 2 || index->view.rank != x->view.rank) return NULL;
    const graph_node *node = &r->target->nodes.items[id];
    if (node->op >= ATEN_NATIVE_COUNT || index->view.size[dim] > x->view.size[dim] / FEWER)
        return NULL;
    aten_kind kind = aten_describe((aten_op)node->op)->kind;
    if ((kind != ATEN_KIND_POINTWISE && kind != ATEN_KIND_CAST) ||
        !is_needed_here_only(r, x->value))
        return NULL;
    uint32_t found = SPYRE_NO_ID;
    for (uint32_t i = 0; i < node->arg_count; i++) {
        tensor operand;
        if (node->args[i].kind != SPYRE_ARG_VALUE) continue;
        TRY(load_operand(r, &node->args[i], &operand));
        operand_role role = role_of(&operand.view, &x->view, dim);
        if (role == UNSUITED || (role == LOOKED_UP && found != SPYRE_NO_ID)) return NULL;
        if (role == LOOKED_UP) found = i;
    }
    *out = found;
    return NULL;
}

static spyre_status compute_looked_up(rewriter *r, const tensor *x, uint32_t looked_up,
                                      const tensor *index, uint32_t dim, const tensor *into,
                                      tensor *out)
{
    enum { MOST_ARGS = 8 };
    const graph_node node = r->target->nodes.items[r->target->values.items[x->value].node];
    spyre_arg args[MOST_ARGS];
    spyre_view view = x->view;
    tensor operand;
    if (node.arg_count > MOST_ARGS)
        return status_new(SPYRE_INTERNAL, "%u arguments", node.arg_count);
    memcpy(args, node.args, node.arg_count * sizeof *args);
    TRY(load_operand(r, &args[looked_up], &operand));
    TRY(make_take(r, &operand, index, dim, NULL, &operand));
    args[looked_up] = tensor_arg(&operand);
    view.size[dim] = index->view.size[dim];
    view_set_contiguous(&view);
    return make_node(r, (aten_op)node.op, args, node.arg_count, x->dtype, &view, into, out);
}

spyre_status make_take(rewriter *r, const tensor *x, const tensor *index, uint32_t dim,
                       const tensor *into, tensor *out)
{
    tensor whole = *x;
    uint32_t looked_up;
    TRY(find_looked_up(r, x, index, dim, &looked_up));
    if (looked_up != SPYRE_NO_ID)
        return compute_looked_up(r, x, looked_up, index, dim, into, out);
    spyre_view view = x->view.rank == 1 ? index->view : x->view;
    if (x->view.rank != 1 && index->view.rank == view.rank) view.size[dim] = index->view.size[dim];
    // The card reads rows that lie apart.
    if (x->view.size[dim] > 1 && x->view.stride[dim] == 0) TRY(make_copy(r, x, NULL, &whole));
    spyre_arg args[3] = {tensor_arg(&whole), tensor_arg(index), int_arg(dim)};
    view_set_contiguous(&view);
    return make_node(r, ATEN_SPYRE_TAKE, args, 3, x->dtype, &view, into, out);
}

spyre_status make_scatter(rewriter *r, const tensor *x, const tensor *index, const tensor *rows,
                          uint32_t dim, const tensor *into, tensor *out)
{
    spyre_view view = x->view;
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(index), tensor_arg(rows), int_arg(dim)};
    view_set_contiguous(&view);
    return make_node(r, ATEN_SPYRE_SCATTER, args, 4, x->dtype, &view, into, out);
}

// Sums and products of 16 bits are joined in float32; of bools they are any and all.
static aten_op joining_op(opfunc accumulator, spyre_dtype dtype)
{
    bool is_bool = dtype == SPYRE_DTYPE_BOOL;
    if (accumulator == OPFUNC_SUM) return is_bool ? ATEN_SPYRE_SCATTERMAX : ATEN_SPYRE_SCATTERSUM;
    if (accumulator == OPFUNC_PROD) return is_bool ? ATEN_SPYRE_SCATTERMIN : ATEN_SPYRE_SCATTERPROD;
    return accumulator == OPFUNC_MAX ? ATEN_SPYRE_SCATTERMAX : ATEN_SPYRE_SCATTERMIN;
}

bool accumulation_widens(opfunc accumulator, spyre_dtype dtype)
{
    bool is_half = dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16;
    return is_half && (accumulator == OPFUNC_SUM || accumulator == OPFUNC_PROD);
}

spyre_status make_accumulated(rewriter *r, opfunc accumulator, const tensor *x,
                              const tensor *index, const tensor *rows, uint32_t dim,
                              const tensor *into, tensor *out)
{
    spyre_view view = x->view;
    tensor sums;
    aten_op op = joining_op(accumulator, x->dtype);
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(index), tensor_arg(rows), int_arg(dim)};
    view_set_contiguous(&view);
    if (!accumulation_widens(accumulator, x->dtype))
        return make_node(r, op, args, 4, x->dtype, &view, into, out);
    TRY(make_node(r, op, args, 4, SPYRE_DTYPE_F32, &view, NULL, &sums));
    return make_cast(r, &sums, x->dtype, into, out);
}
