// SPDX-License-Identifier: Apache-2.0
//
// Makers of natives and views. Each native is checked as it is made, so that a handler finds out
// at once that the card cannot take it.
#include <math.h>
#include <string.h>

#include "graph/rewrite/rewrite.h"
#include "graph/verify.h"

static spyre_arg tensor_arg(const tensor *x)
{
    return x ? (spyre_arg){.kind = SPYRE_ARG_VALUE, .of.value = x->value}
             : (spyre_arg){.kind = SPYRE_ARG_NONE};
}

static spyre_arg real_arg(double value)
{
    return (spyre_arg){.kind = SPYRE_ARG_FLOAT, .of.real = value};
}

static spyre_arg number_arg(const graph_number *number)
{
    if (!number->scalar) return real_arg(number->value);
    return (spyre_arg){.kind = SPYRE_ARG_SCALAR,
                       .of.scalar = {.index = number->scalar - 1,
                                     .form = number->form,
                                     .is_int = number->is_int,
                                     .like = number->value}};
}

static spyre_arg int_arg(int64_t value)
{
    return (spyre_arg){.kind = SPYRE_ARG_INT, .of.integer = value};
}

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

// Adds the node. Without `into` the result is a fresh value of that dtype and view.
static spyre_status emit(rewriter *r, aten_op op, const spyre_arg *args, uint32_t arg_count,
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

static graph_number as_dtype(const graph_number *number, spyre_dtype dtype)
{
    graph_number out = *number;
    if (dtype == SPYRE_DTYPE_BOOL && !out.scalar) out.value = out.value != 0 ? 1 : 0;
    return out;
}

static bool same_number(const graph_number *a, const graph_number *b)
{
    return memcmp(&a->value, &b->value, sizeof a->value) == 0 && a->scalar == b->scalar &&
           a->form == b->form;
}

spyre_status make_number(rewriter *r, const graph_number *number, spyre_dtype dtype, tensor *out)
{
    spyre_view scalar = {0};
    graph_number wanted = as_dtype(number, dtype);
    for (uint32_t i = 0; i < r->constants.count; i++) {
        const rewrite_constant *known = &r->constants.items[i];
        if (!same_number(&known->number, &wanted) || known->dtype != dtype) continue;
        *out = known->made;
        return NULL;
    }
    spyre_arg args[2] = {number_arg(&wanted), {.kind = SPYRE_ARG_DTYPE, .of.dtype = dtype}};
    TRY(emit(r, ATEN_SPYRE_CONSTANT, args, 2, dtype, &scalar, NULL, out));
    rewrite_constant made = {wanted, dtype, *out};
    return VEC_PUSH(r->target->memory, &r->constants, made);
}

spyre_status make_constant(rewriter *r, double value, spyre_dtype dtype, tensor *out)
{
    return make_number(r, &(graph_number){.value = value}, dtype, out);
}

spyre_status make_full(rewriter *r, double value, spyre_dtype dtype, const spyre_view *sizes,
                       const tensor *into, tensor *out)
{
    return make_full_of(r, &(graph_number){.value = value}, dtype, sizes, into, out);
}

spyre_status make_full_of(rewriter *r, const graph_number *number, spyre_dtype dtype,
                          const spyre_view *sizes, const tensor *into, tensor *out)
{
    spyre_view view = view_contiguous(sizes->size, sizes->rank);
    graph_number wanted = as_dtype(number, dtype);
    spyre_arg args[2] = {number_arg(&wanted), {.kind = SPYRE_ARG_DTYPE, .of.dtype = dtype}};
    if (view.rank == 0) {
        return emit(r, ATEN_SPYRE_CONSTANT, args, 2, dtype, &view, into, out);
    }
    return emit(r, ATEN_SPYRE_FULL, args, 1, dtype, &view, into, out);
}

static spyre_dtype result_dtype(aten_op op, spyre_dtype operand)
{
    return aten_describe(op)->result == ATEN_RESULT_BOOL ? SPYRE_DTYPE_BOOL : operand;
}

spyre_status make_unary(rewriter *r, aten_op op, const tensor *x, const tensor *into, tensor *out)
{
    spyre_arg args[1] = {tensor_arg(x)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return emit(r, op, args, 1, result_dtype(op, x->dtype), &view, into, out);
}

spyre_status broadcast_sizes(const spyre_view *x, const spyre_view *y, spyre_view *out)
{
    const spyre_view *narrow = x->rank > y->rank ? y : x;
    spyre_view wide = x->rank > y->rank ? *x : *y;
    for (uint32_t i = 0; i < narrow->rank; i++) {
        int64_t size = narrow->size[i], *to = &wide.size[i + wide.rank - narrow->rank];
        if (*to != 1 && size != 1 && *to != size) {
            return status_new(SPYRE_INVALID_ARGUMENT, "sizes %lld and %lld do not broadcast",
                              (long long)*to, (long long)size);
        }
        if (*to == 1) *to = size;
    }
    *out = view_contiguous(wide.size, wide.rank);
    return NULL;
}

static spyre_status apply(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                          const tensor *into, tensor *out)
{
    spyre_arg args[2] = {tensor_arg(x), tensor_arg(y)};
    spyre_view view;
    TRY(broadcast_sizes(&x->view, &y->view, &view));
    return emit(r, op, args, 2, result_dtype(op, x->dtype), &view, into, out);
}

static spyre_status apply_with(rewriter *r, aten_op op, const tensor *x, double value, tensor *out)
{
    tensor constant;
    TRY(make_constant(r, value, x->dtype, &constant));
    return apply(r, op, x, &constant, NULL, out);
}

// --- Comparisons of float32, which the card has none of: signs of distances, in 16 bits

// 1 where x is above 0, else 0; of NaN infinity, which is what 16 bits have of it. The least
// positive number, 2^-149, is above 1 after both products.
static spyre_status flag_positive(rewriter *r, const tensor *x, tensor *out)
{
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, x, NULL, out));
    TRY(apply_with(r, ATEN_SPYRE_MUL, out, 0x1p127, out));
    TRY(apply_with(r, ATEN_SPYRE_MUL, out, 0x1p127, out));
    TRY(apply_with(r, ATEN_SPYRE_MINIMUM, out, 1, out));
    return make_cast(r, out, SPYRE_DTYPE_F16, NULL, out);
}

// Infinity where x or y is NaN, else 0.
static spyre_status flag_nan(rewriter *r, const tensor *x, const tensor *y, tensor *out)
{
    tensor first, second;
    TRY(apply_with(r, ATEN_SPYRE_MAXIMUM, x, -1, &first));
    TRY(apply_with(r, ATEN_SPYRE_MINIMUM, &first, 1, &first));
    TRY(apply_with(r, ATEN_SPYRE_MAXIMUM, y, -1, &second));
    TRY(apply_with(r, ATEN_SPYRE_MINIMUM, &second, 1, &second));
    TRY(apply(r, ATEN_SPYRE_ADD, &first, &second, NULL, out));
    TRY(apply_with(r, ATEN_SPYRE_MUL, out, 0, out));
    return make_cast(r, out, SPYRE_DTYPE_F16, NULL, out);
}

// How far x is above y (LESSERTHAN, GREATEREQUAL: below; EQUAL, NOTEQUAL: away). Numbers that
// differ have a distance other than 0, for it may be subnormal; equal infinities have NaN.
static spyre_status distance(rewriter *r, aten_op op, const tensor *x, const tensor *y, tensor *out)
{
    bool below = op == ATEN_SPYRE_LESSERTHAN || op == ATEN_SPYRE_GREATEREQUAL;
    bool away = op == ATEN_SPYRE_EQUAL || op == ATEN_SPYRE_NOTEQUAL;
    TRY(apply(r, ATEN_SPYRE_SUB, below ? y : x, below ? x : y, NULL, out));
    return away ? make_unary(r, ATEN_SPYRE_ABS, out, NULL, out) : NULL;
}

// x >= y is not x < y, unless one of them is NaN.
static spyre_status compare_floats(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                                   const tensor *into, tensor *out)
{
    tensor apart, holds, unordered, one;
    TRY(distance(r, op, x, y, &apart));
    TRY(flag_positive(r, &apart, &apart));
    TRY(make_constant(r, 1, apart.dtype, &one));
    if (op == ATEN_SPYRE_GREATERTHAN || op == ATEN_SPYRE_LESSERTHAN)
        return apply(r, ATEN_SPYRE_EQUAL, &apart, &one, into, out);
    bool differs = op == ATEN_SPYRE_NOTEQUAL;
    TRY(apply(r, differs ? ATEN_SPYRE_EQUAL : ATEN_SPYRE_NOTEQUAL, &apart, &one, NULL, &holds));
    TRY(flag_nan(r, x, y, &unordered));
    TRY(apply_with(r, differs ? ATEN_SPYRE_NOTEQUAL : ATEN_SPYRE_EQUAL, &unordered, 0, &unordered));
    return apply(r, differs ? ATEN_SPYRE_MAXIMUM : ATEN_SPYRE_MUL, &holds, &unordered, into, out);
}

spyre_status make_binary(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                         const tensor *into, tensor *out)
{
    bool compares = aten_describe(op)->result == ATEN_RESULT_BOOL;
    if (compares && x->dtype == SPYRE_DTYPE_F32) return compare_floats(r, op, x, y, into, out);
    return apply(r, op, x, y, into, out);
}

spyre_status make_with(rewriter *r, aten_op op, const tensor *x, double value, const tensor *into,
                       tensor *out)
{
    return make_with_number(r, op, x, &(graph_number){.value = value}, into, out);
}

spyre_status make_with_number(rewriter *r, aten_op op, const tensor *x, const graph_number *number,
                              const tensor *into, tensor *out)
{
    tensor constant;
    TRY(make_number(r, number, x->dtype, &constant));
    return make_binary(r, op, x, &constant, into, out);
}

// y + c * (x - y), exact in integers that wrap.
static spyre_status select_integers(rewriter *r, const tensor *condition, const tensor *x,
                                    const tensor *y, const tensor *into, tensor *out)
{
    tensor flag, way;
    TRY(make_cast(r, condition, x->dtype, NULL, &flag));
    TRY(make_binary(r, ATEN_SPYRE_SUB, x, y, NULL, &way));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &flag, &way, NULL, &way));
    return make_binary(r, ATEN_SPYRE_ADD, y, &way, into, out);
}

spyre_status make_where(rewriter *r, const tensor *condition, const tensor *x, const tensor *y,
                        const tensor *into, tensor *out)
{
    spyre_view values, view;
    tensor wide = *condition;
    if (x->dtype == SPYRE_DTYPE_I64 || x->dtype == SPYRE_DTYPE_I32)
        return select_integers(r, condition, x, y, into, out);
    if (x->dtype == SPYRE_DTYPE_F32) TRY(make_cast(r, condition, x->dtype, NULL, &wide));
    spyre_arg args[3] = {tensor_arg(&wide), tensor_arg(x), tensor_arg(y)};
    TRY(broadcast_sizes(&x->view, &y->view, &values));
    TRY(broadcast_sizes(&condition->view, &values, &view));
    return emit(r, ATEN_SPYRE_WHERE3, args, 3, x->dtype, &view, into, out);
}

spyre_status make_parametric(rewriter *r, aten_op op, const tensor *x, double first, double second,
                             const tensor *into, tensor *out)
{
    spyre_arg args[3] = {tensor_arg(x), real_arg(first), real_arg(second)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return emit(r, op, args, 3, x->dtype, &view, into, out);
}

// A copy of x where the elements along the given dims are all one: the front has no loop for these.
static spyre_status make_unrepeated(rewriter *r, const tensor *x, const bool *dims, tensor *out)
{
    bool repeats = false, moves = false;
    for (uint32_t i = 0; i < x->view.rank; i++) {
        if (!dims[i] || x->view.size[i] == 1) continue;
        if (x->view.stride[i]) moves = true;
        else repeats = true;
    }
    *out = *x;
    return repeats && !moves ? make_copy(r, x, NULL, out) : NULL;
}

spyre_status make_reduction(rewriter *r, aten_op op, const tensor *x, const bool *reduced,
                            bool keepdim, const tensor *into, tensor *out)
{
    spyre_arg dims[SPYRE_MAX_RANK];
    spyre_view view = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->view.rank; i++) {
        if (reduced[i]) dims[count++] = int_arg(i);
        if (reduced[i] && !keepdim) continue;
        view.size[view.rank++] = reduced[i] ? 1 : x->view.size[i];
    }
    if (count == 0 && into) return make_copy(r, x, into, out);
    if (count == 0) {
        *out = *x;
        return NULL;
    }
    view_set_contiguous(&view);
    tensor whole;
    TRY(make_unrepeated(r, x, reduced, &whole));
    spyre_arg args[3] = {tensor_arg(&whole),
                         {.kind = SPYRE_ARG_LIST, .of.list = {dims, count}},
                         {.kind = SPYRE_ARG_BOOL, .of.boolean = keepdim}};
    return emit(r, op, args, 3, x->dtype, &view, into, out);
}

spyre_status make_rank(rewriter *r, aten_op op, const tensor *x, int64_t k, uint32_t dim,
                       const tensor *into, tensor *out)
{
    spyre_arg args[3] = {tensor_arg(x), int_arg(k), int_arg(dim)};
    spyre_view view = x->view;
    view.size[dim] = k;
    view_set_contiguous(&view);
    spyre_dtype dtype = op == ATEN_SPYRE_TOPKINDEX ? SPYRE_DTYPE_I64 : x->dtype;
    return emit(r, op, args, 3, dtype, &view, into, out);
}

// The 16-bit dtype that a tensor was widened to float32 from and holds numbers of; else its own.
static spyre_dtype narrow_dtype(const rewriter *r, const tensor *x)
{
    const spyre_graph *graph = r->target;
    for (uint32_t value = x->value; graph->values.items[value].node != SPYRE_NO_ID;) {
        const graph_node *node = &graph->nodes.items[graph->values.items[value].node];
        bool moves = node->layer == GRAPH_LAYER_VIEW || node->op == ATEN_SPYRE_IDENTITY;
        if (!moves && node->op != ATEN_SPYRE_CAST) break;
        value = node->args[0].of.value;
        spyre_dtype dtype = graph->values.items[value].dtype;
        if (dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16) return dtype;
        if (dtype != SPYRE_DTYPE_F32) break;
    }
    return x->dtype;
}

// Products of 16 bits are exact in float32, in which they are added.
static spyre_status narrow_factors(rewriter *r, tensor *x, tensor *y)
{
    spyre_dtype dtype = narrow_dtype(r, x);
    if (x->dtype != SPYRE_DTYPE_F32 || dtype == x->dtype || dtype != narrow_dtype(r, y) ||
        aten_takes(ATEN_SPYRE_BATCHMATMUL, x->dtype, r->rules.extended))
        return NULL;
    TRY(make_cast(r, x, dtype, NULL, x));
    return make_cast(r, y, dtype, NULL, y);
}

spyre_status make_matmul(rewriter *r, const tensor *first, const tensor *second,
                         const tensor *into, tensor *out)
{
    bool along_k[SPYRE_MAX_RANK] = {false};
    tensor whole, factors[2] = {*first, *second}, *x = &factors[0], *y = &factors[1];
    spyre_dtype dtype = first->dtype;
    TRY(narrow_factors(r, x, y));
    along_k[x->view.rank - 1] = true;
    TRY(make_unrepeated(r, x, along_k, &whole));
    spyre_arg args[2] = {tensor_arg(&whole), tensor_arg(y)};
    spyre_view view = x->view;
    view.size[view.rank - 1] = y->view.size[y->view.rank - 1];
    view_set_contiguous(&view);
    if (x->dtype == SPYRE_DTYPE_F8_E4M3)
        return emit(r, ATEN_SPYRE_BATCHMATMULFP8, args, 2, SPYRE_DTYPE_F32, &view, into, out);
    if (x->dtype == SPYRE_DTYPE_I8)
        return emit(r, ATEN_SPYRE_BATCHMATMULINT8, args, 2, SPYRE_DTYPE_I32, &view, into, out);
    return emit(r, ATEN_SPYRE_BATCHMATMUL, args, 2, dtype, &view, into, out);
}

// The list lives in the graph's memory.
static spyre_status ints_arg(rewriter *r, const int64_t *values, uint32_t count, spyre_arg *out)
{
    spyre_arg *items = ARENA_NEW(r->target->memory, spyre_arg, count);
    TRY_ALLOC(items);
    for (uint32_t i = 0; i < count; i++) items[i] = int_arg(values[i]);
    *out = (spyre_arg){.kind = SPYRE_ARG_LIST, .of.list = {.items = items, .count = count}};
    return NULL;
}

spyre_status make_windows(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                          const window_steps *steps, const spyre_view *result, tensor *out)
{
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(y)};
    TRY(ints_arg(r, steps->stride, steps->count, &args[2]));
    TRY(ints_arg(r, steps->dilation, steps->count, &args[3]));
    return emit(r, op, args, 4, x->dtype, result, NULL, out);
}

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
    return emit(r, ATEN_SPYRE_GATHER, args, 2, table->dtype, &view, into, out);
}

spyre_status make_take(rewriter *r, const tensor *x, const tensor *index, uint32_t dim,
                       const tensor *into, tensor *out)
{
    tensor whole = *x;
    spyre_view view = x->view.rank == 1 ? index->view : x->view;
    if (x->view.rank != 1 && index->view.rank == view.rank) view.size[dim] = index->view.size[dim];
    // The card reads rows that lie apart.
    if (x->view.size[dim] > 1 && x->view.stride[dim] == 0) TRY(make_copy(r, x, NULL, &whole));
    spyre_arg args[3] = {tensor_arg(&whole), tensor_arg(index), int_arg(dim)};
    view_set_contiguous(&view);
    return emit(r, ATEN_SPYRE_TAKE, args, 3, x->dtype, &view, into, out);
}

spyre_status make_scatter(rewriter *r, const tensor *x, const tensor *index, const tensor *rows,
                          uint32_t dim, const tensor *into, tensor *out)
{
    spyre_view view = x->view;
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(index), tensor_arg(rows), int_arg(dim)};
    view_set_contiguous(&view);
    return emit(r, ATEN_SPYRE_SCATTER, args, 4, x->dtype, &view, into, out);
}

spyre_status make_accumulated(rewriter *r, const tensor *x, const tensor *index,
                              const tensor *rows, uint32_t dim, const tensor *into, tensor *out)
{
    spyre_view view = x->view;
    tensor sums;
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(index), tensor_arg(rows), int_arg(dim)};
    view_set_contiguous(&view);
    TRY(emit(r, ATEN_SPYRE_ACCUMULATE, args, 4, SPYRE_DTYPE_F32, &view, NULL, &sums));
    if (x->dtype == SPYRE_DTYPE_F32 && into) return make_copy(r, &sums, into, out);
    return make_cast(r, &sums, into ? into->dtype : x->dtype, into, out);
}

spyre_status make_layer_norm(rewriter *r, const tensor *x, const tensor *weight, const tensor *bias,
                             double eps, const tensor *into, tensor *out)
{
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(weight), tensor_arg(bias), real_arg(eps)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return emit(r, ATEN_SPYRE_LAYER_NORM, args, 4, x->dtype, &view, into, out);
}

spyre_status make_cat(rewriter *r, const tensor *items, uint32_t count, uint32_t dim,
                      const tensor *into, tensor *out)
{
    spyre_arg *list = ARENA_NEW(r->target->memory, spyre_arg, count);
    TRY_ALLOC(list);
    spyre_view view = items[0].view;
    view.size[dim] = 0;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = tensor_arg(&items[i]);
        if (dim < items[i].view.rank) view.size[dim] += items[i].view.size[dim];
    }
    view_set_contiguous(&view);
    spyre_arg args[2] = {{.kind = SPYRE_ARG_LIST, .of.list = {list, count}}, int_arg(dim)};
    return emit(r, ATEN_SPYRE_CAT, args, 2, items[0].dtype, &view, into, out);
}

spyre_status make_copy(rewriter *r, const tensor *x, const tensor *into, tensor *out)
{
    return make_unary(r, ATEN_SPYRE_IDENTITY, x, into, out);
}

spyre_status make_cast(rewriter *r, const tensor *x, spyre_dtype dtype, const tensor *into,
                       tensor *out)
{
    if (x->dtype == dtype && into) return make_copy(r, x, into, out);
    if (x->dtype == dtype) {
        *out = *x;
        return NULL;
    }
    if (dtype == SPYRE_DTYPE_BOOL) {
        tensor number = *x;
        if (x->dtype == SPYRE_DTYPE_F8_E4M3)
            TRY(make_cast(r, x, SPYRE_DTYPE_F16, NULL, &number));
        if (aten_is_narrow(x->dtype)) TRY(make_cast(r, x, SPYRE_DTYPE_I32, NULL, &number));
        return make_with(r, ATEN_SPYRE_NOTEQUAL, &number, 0, into, out);
    }
    // Integers wrap in a cast, floats would stop at the ends; uint8 lies in 32 bits.
    tensor given = *x;
    if (aten_is_narrow(dtype)) TRY(make_cast(r, x, SPYRE_DTYPE_I32, NULL, &given));
    if (dtype == SPYRE_DTYPE_U8) TRY(make_with(r, ATEN_SPYRE_BITAND, &given, 255, NULL, &given));
    spyre_arg args[1] = {tensor_arg(&given)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return emit(r, ATEN_SPYRE_CAST, args, 1, dtype, &view, into, out);
}

spyre_status make_view(rewriter *r, const tensor *x, const spyre_view *view, const tensor *into,
                       tensor *out)
{
    spyre_arg args[1] = {tensor_arg(x)};
    if (into && into->dtype != x->dtype)
        return status_new(SPYRE_INVALID_ARGUMENT, "the result is %s, the operation gives %s",
                          spyre_dtype_name(into->dtype), spyre_dtype_name(x->dtype));
    return emit(r, ATEN_SPYRE_VIEW, args, 1, x->dtype, view, into, out);
}

spyre_status make_reshape(rewriter *r, const tensor *x, const int64_t *size, uint32_t rank,
                          tensor *out)
{
    spyre_view view;
    tensor copy;
    if (view_reshape(&x->view, size, rank, &view)) {
        if (view_same_sizes(&view, &x->view)) {
            *out = *x;
            return NULL;
        }
        return make_view(r, x, &view, NULL, out);
    }
    TRY(make_copy(r, x, NULL, &copy));
    if (!view_reshape(&copy.view, size, rank, &view)) {
        return status_new(SPYRE_INVALID_ARGUMENT, "other sizes with another number of elements");
    }
    return make_view(r, &copy, &view, NULL, out);
}

spyre_status make_transpose(rewriter *r, const tensor *x, uint32_t a, uint32_t b, tensor *out)
{
    uint32_t order[SPYRE_MAX_RANK];
    for (uint32_t i = 0; i < x->view.rank; i++) order[i] = i == a ? b : i == b ? a : i;
    spyre_view view = view_permute(&x->view, order);
    return make_view(r, x, &view, NULL, out);
}

spyre_status make_unsqueeze(rewriter *r, const tensor *x, uint32_t dim, tensor *out)
{
    spyre_view view = {.rank = x->view.rank + 1, .offset = x->view.offset};
    if (x->view.rank == SPYRE_MAX_RANK) {
        return status_new(SPYRE_UNSUPPORTED, "a dim added to rank %d", SPYRE_MAX_RANK);
    }
    for (uint32_t i = 0; i < view.rank; i++) {
        uint32_t from = i > dim ? i - 1 : i;
        view.size[i] = i == dim ? 1 : x->view.size[from];
        view.stride[i] = i == dim ? 1 : x->view.stride[from];
    }
    return make_view(r, x, &view, NULL, out);
}

spyre_status make_slice(rewriter *r, const tensor *x, uint32_t dim, int64_t start, int64_t length,
                        tensor *out)
{
    spyre_view view = x->view;
    if (length == view.size[dim]) {
        *out = *x;
        return NULL;
    }
    view.offset += start * view.stride[dim];
    view.size[dim] = length;
    return make_view(r, x, &view, NULL, out);
}

// The card has no index generator, so a vector is doubled, once a graph as far as it is needed.
spyre_status make_count(rewriter *r, int64_t count, tensor *out)
{
    const spyre_view one = view_contiguous((int64_t[]){1}, 1);
    tensor halves[2];
    bool begun = r->counts.count > 0;
    if (begun) halves[0] = r->counts.items[r->counts.count - 1];
    else TRY(make_full(r, 0, SPYRE_DTYPE_I64, &one, NULL, &halves[0]));
    for (int64_t length = halves[0].view.size[0]; length < count; length *= 2) {
        TRY(make_with(r, ATEN_SPYRE_ADD, &halves[0], (double)length, NULL, &halves[1]));
        TRY(make_cat(r, halves, 2, 0, NULL, &halves[0]));
        TRY(VEC_PUSH(r->target->memory, &r->counts, halves[0]));
    }
    return make_slice(r, &halves[0], 0, 0, count, out);
}
