// SPDX-License-Identifier: Apache-2.0
//
// The contract between this module and the front: what holds of every native node after
// graph_prepare. docs/graph.md states the same in prose.
#include <math.h>

#include "graph/aten.h"
#include "graph/native/native.h"
#include "graph/verify.h"
#include "graph/view.h"

// Widens `to` by the sizes of `from`, right aligned; false when they do not fit.
static bool broadcast(const spyre_view *from, spyre_view *to)
{
    spyre_view wide = from->rank > to->rank ? *from : *to;
    const spyre_view *narrow = from->rank > to->rank ? to : from;
    uint32_t shift = wide.rank - narrow->rank;
    for (uint32_t i = 0; i < narrow->rank; i++) {
        int64_t *size = &wide.size[i + shift];
        if (*size == 1)
            *size = narrow->size[i];
        else if (narrow->size[i] != 1 && narrow->size[i] != *size)
            return false;
    }
    *to = wide;
    return true;
}

// A condition is as wide as what it selects.
static uint32_t condition_dtypes(const native_operand *result)
{
    uint32_t own = native_dtype_set(result->dtype);
    return own == ATEN_DTYPES_F32 || own == ATEN_DTYPES_INT ? own : ATEN_DTYPES_BOOL;
}

// Whether operands stand for the parameters of a PARAMETRIC native: one fp32 element each.
static bool takes_parameters(const native_checker *c)
{
    return opfunc_describe(c->row->opfunc)->kind == OPFUNC_KIND_PARAMETRIC &&
           c->node->arg_count > 1 && c->node->args[1].kind == SPYRE_ARG_VALUE;
}

static spyre_status check_parameter(const native_checker *c, uint32_t index)
{
    native_operand x;
    TRY(native_load_arg(c, index, ATEN_DTYPES_F32, &x));
    return x.view.rank ? native_rule("operand %u: expected rank 0", index) : NULL;
}

static spyre_status check_pointwise(const native_checker *c, const native_operand *result)
{
    const opfunc_info *info = opfunc_describe(c->row->opfunc);
    enum { PARAMETERS = 2 }; // of every PARAMETRIC native, used or not
    bool takes = takes_parameters(c);
    uint32_t parameters = info->kind == OPFUNC_KIND_PARAMETRIC && !takes ? PARAMETERS : 0;
    uint32_t inputs = takes ? info->most_inputs : info->least_inputs;
    bool selects = c->row->opfunc == OPFUNC_WHERE3;
    native_operand x[NATIVE_MOST_OPERANDS];
    spyre_view sizes = {0};
    TRY(native_expect_args(c, inputs + parameters));
    for (uint32_t i = 1; i < inputs && takes; i++) TRY(check_parameter(c, i));
    if (takes) inputs = 1;
    for (uint32_t i = 0; i < inputs; i++) {
        TRY(native_load_arg(c, i, selects && i == 0 ? condition_dtypes(result) : c->dtypes, &x[i]));
        if (!broadcast(&x[i].view, &sizes)) {
            return native_expect_sizes(&x[i].view, &sizes, (int)i);
        }
        if (i > (selects ? 1u : 0u)) {
            TRY(native_expect_dtype(x[i].dtype, x[selects ? 1 : 0].dtype, (int)i));
        }
    }
    for (uint32_t i = 0; i < parameters; i++) TRY(native_expect_real(c, inputs + i));
    bool decides = c->row->result == ATEN_RESULT_BOOL;
    TRY(native_expect_dtype(result->dtype, decides ? SPYRE_DTYPE_BOOL : x[inputs - 1].dtype,
                            NATIVE_RESULT));
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

// Of a number that each launch gives; the caller has seen to it that integers fit 32 bits.
static spyre_status check_scalar(const graph_number *number, const native_operand *result)
{
    uint32_t set = native_dtype_set(result->dtype);
    bool exact = number->is_int && number->form == SPYRE_SCALAR_AS_IS;
    if (set != ATEN_DTYPES_BOOL && (set != ATEN_DTYPES_INT || exact)) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "a number of each launch as %s",
                      spyre_dtype_name(result->dtype));
}

static spyre_status check_value(const native_checker *c, const native_operand *result)
{
    graph_number number;
    bool is_scalar = c->node->arg_count > 0 && c->node->args[0].kind == SPYRE_ARG_SCALAR;
    if (!is_scalar) TRY(native_expect_real(c, 0));
    TRY(graph_arg_number(c->graph, c->node_id, 0, 0, &number));
    if (is_scalar) return check_scalar(&number, result);
    double value = number.value;
    bool is_int = native_dtype_set(result->dtype) == ATEN_DTYPES_INT;
    if (!is_int || (value >= INT32_MIN && value <= INT32_MAX && value == floor(value))) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "%.15g does not fit the card's 32-bit integers", value);
}

static spyre_status check_constant(const native_checker *c, const native_operand *result)
{
    TRY(native_expect_args(c, 2));
    if (c->node->args[1].kind != SPYRE_ARG_DTYPE)
        return native_rule("argument 1: expected a dtype");
    TRY(native_expect_dtype(result->dtype, c->node->args[1].of.dtype, NATIVE_RESULT));
    if (result->view.rank != 0) return native_rule("result: expected rank 0");
    return check_value(c, result);
}

static spyre_status check_full(const native_checker *c, const native_operand *result)
{
    TRY(native_expect_args(c, 1));
    return check_value(c, result);
}

static spyre_status check_counts(const native_checker *c, const native_operand *result)
{
    int64_t first, step, last;
    TRY(native_expect_args(c, 2));
    TRY(graph_arg_int(c->graph, c->node_id, 0, 0, &first));
    TRY(graph_arg_int(c->graph, c->node_id, 1, 0, &step));
    if (result->view.rank != 1)
        return native_rule("result: rank %u, expected 1", result->view.rank);
    if (native_dtype_set(result->dtype) != ATEN_DTYPES_INT)
        return native_rule("result: %s, expected integers", spyre_dtype_name(result->dtype));
    bool beyond = __builtin_mul_overflow(step, result->view.size[0] - 1, &last) ||
                  __builtin_add_overflow(last, first, &last);
    if (!beyond && first == (int32_t)first && last == (int32_t)last) return NULL;
    return native_rule("numbers from %lld on in steps of %lld have more than 32 bits",
                       (long long)first, (long long)step);
}

static spyre_status check_reduction(const native_checker *c, const native_operand *result)
{
    native_operand x;
    int64_t dims[SPYRE_MAX_RANK];
    uint32_t count;
    bool keep;
    TRY(native_expect_args(c, 3));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    TRY(graph_arg_ints(c->graph, c->node_id, 1, dims, &count));
    TRY(graph_arg_bool(c->graph, c->node_id, 2, false, &keep));
    if (count == 0) return native_rule("argument 1: no dims");
    for (uint32_t i = 0; i < count; i++) {
        if (dims[i] < 0 || dims[i] >= x.view.rank || (i && dims[i] <= dims[i - 1])) {
            return native_rule("argument 1: dims must ascend within 0..%u", x.view.rank - 1);
        }
    }
    spyre_view sizes = {0};
    for (uint32_t i = 0, next = 0; i < x.view.rank; i++) {
        bool reduced = next < count && dims[next] == i;
        next += reduced;
        if (!reduced || keep) sizes.size[sizes.rank++] = reduced ? 1 : x.view.size[i];
    }
    bool widens = native_dtype_set(x.dtype) == ATEN_DTYPES_HALF && result->dtype == SPYRE_DTYPE_F32;
    if (!widens) TRY(native_expect_dtype(result->dtype, x.dtype, NATIVE_RESULT));
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

static spyre_status check_rank(const native_checker *c, const native_operand *result)
{
    native_operand x;
    int64_t k, dim;
    TRY(native_expect_args(c, 3));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    TRY(graph_arg_int(c->graph, c->node_id, 1, -1, &k));
    TRY(graph_arg_int(c->graph, c->node_id, 2, -1, &dim));
    if (dim < 0 || dim >= x.view.rank) return native_rule("argument 2: dim %lld", (long long)dim);
    if (k < 1 || k > x.view.size[dim] || x.view.size[dim] == 1) {
        return native_rule("argument 1: %lld of %lld candidates, at least two", (long long)k,
                           (long long)x.view.size[dim]);
    }
    for (uint32_t i = 0; i < x.view.rank; i++) {
        if (x.view.stride[i] || x.view.size[i] == 1) continue;
        return status_new(SPYRE_UNSUPPORTED, "operand 0: dim %u repeats its elements", i);
    }
    spyre_view sizes = x.view;
    sizes.size[dim] = k;
    if (c->row->result == ATEN_RESULT_SAME)
        TRY(native_expect_dtype(result->dtype, x.dtype, NATIVE_RESULT));
    else if (native_dtype_set(result->dtype) != ATEN_DTYPES_INT) {
        return native_rule("result: positions in %s", spyre_dtype_name(result->dtype));
    }
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

static spyre_status check_scan(const native_checker *c, const native_operand *result)
{
    native_operand x;
    int64_t dim;
    TRY(native_expect_args(c, 2));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    TRY(graph_arg_int(c->graph, c->node_id, 1, -1, &dim));
    if (dim < 0 || dim >= x.view.rank) return native_rule("argument 1: dim %lld", (long long)dim);
    if (c->row->result == ATEN_RESULT_SAME)
        TRY(native_expect_dtype(result->dtype, x.dtype, NATIVE_RESULT));
    else if (native_dtype_set(result->dtype) != ATEN_DTYPES_INT)
        return native_rule("result: positions in %s", spyre_dtype_name(result->dtype));
    return native_expect_sizes(&result->view, &x.view, NATIVE_RESULT);
}

static spyre_status check_matmul(const native_checker *c, const native_operand *result)
{
    native_operand a, b;
    TRY(native_expect_args(c, 2));
    TRY(native_load_arg(c, 0, c->dtypes, &a));
    TRY(native_load_arg(c, 1, c->dtypes, &b));
    uint32_t rank = a.view.rank;
    if (rank < 2) return native_rule("operand 0: rank %u, expected 2 or more", rank);
    if (b.view.rank != rank && b.view.rank != 2) {
        return native_rule("operand 1: rank %u, expected 2 or that of operand 0", b.view.rank);
    }
    spyre_view second = a.view, sizes = a.view;
    second.rank = b.view.rank;
    second.size[second.rank - 2] = a.view.size[rank - 1];
    second.size[second.rank - 1] = sizes.size[rank - 1] = b.view.size[b.view.rank - 1];
    TRY(native_expect_sizes(&b.view, &second, 1));
    TRY(native_expect_dtype(b.dtype, a.dtype, 1));
    bool rounds = c->row->result == ATEN_RESULT_GIVEN;
    uint32_t results = ATEN_DTYPES_HALF | ATEN_DTYPES_F32;
    if (a.dtype == SPYRE_DTYPE_I8) results |= ATEN_DTYPES_INT;
    if (rounds && !(native_dtype_set(result->dtype) & results))
        return native_rule("result: products in %s", spyre_dtype_name(result->dtype));
    bool halves = native_dtype_set(a.dtype) & ATEN_DTYPES_HALF;
    bool unrounded = result->dtype == SPYRE_DTYPE_F32 && halves;
    if (!rounds && !unrounded) TRY(native_expect_dtype(result->dtype, a.dtype, NATIVE_RESULT));
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

// Strides or dilations: as many as there are extents, 1 or more each.
static spyre_status check_steps(const native_checker *c, uint32_t index, int64_t *out,
                                uint32_t *count)
{
    TRY(graph_arg_ints(c->graph, c->node_id, index, out, count));
    if (*count < 1 || *count > 3)
        return native_rule("argument %u: %u steps, expected 1 to 3", index, *count);
    for (uint32_t i = 0; i < *count; i++)
        if (out[i] < 1 || out[i] > INT32_MAX)
            return native_rule("argument %u: a step of %lld", index, (long long)out[i]);
    return NULL;
}

static spyre_status check_windows(const native_checker *c, const native_operand *result)
{
    native_operand x, y;
    int64_t stride[SPYRE_MAX_RANK], dilation[SPYRE_MAX_RANK];
    uint32_t count, dilations;
    TRY(native_expect_args(c, 4));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    TRY(native_load_arg(c, 1, c->dtypes, &y));
    TRY(check_steps(c, 2, stride, &count));
    TRY(check_steps(c, 3, dilation, &dilations));
    if (dilations != count)
        return native_rule("argument 3: %u dilations of %u extents", dilations, count);
    bool contracts = c->row->opfunc == OPFUNC_CONV2D;
    uint32_t rank = x.view.rank, least = count + (contracts ? 2 : 1);
    if (rank < count + 1) return native_rule("operand 0: rank %u of %u extents", rank, count);
    uint32_t batch = rank - count - 1, shared = y.view.rank - least;
    if (y.view.rank < least || shared > (contracts ? batch : 0))
        return native_rule("operand 1: rank %u beside %u", y.view.rank, rank);
    spyre_view second = y.view, sizes = x.view;
    for (uint32_t d = 0; d < shared; d++) second.size[d] = x.view.size[batch - shared + d];
    second.size[shared + count] = x.view.size[rank - 1];
    TRY(native_expect_sizes(&y.view, &second, 1));
    for (uint32_t i = 0; i < count; i++) {
        int64_t reach = dilation[i] * (y.view.size[shared + i] - 1), size = x.view.size[batch + i];
        if (reach >= size)
            return native_rule("operand 1: a window of %lld in %lld", (long long)reach + 1,
                               (long long)size);
        sizes.size[batch + i] = (size - 1 - reach) / stride[i] + 1;
    }
    sizes.size[rank - 1] = y.view.size[y.view.rank - 1];
    TRY(native_expect_dtype(y.dtype, x.dtype, 1));
    TRY(native_expect_dtype(result->dtype, x.dtype, NATIVE_RESULT));
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

static spyre_status check_layer_norm(const native_checker *c, const native_operand *result)
{
    native_operand x, vector, part;
    if (c->node->arg_count != 5) TRY(native_expect_args(c, 4));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    if (x.view.rank == 0) return native_rule("operand 0: rank 0");
    spyre_view last = view_contiguous(&x.view.size[x.view.rank - 1], 1);
    for (uint32_t i = 1; i < 3; i++) {
        if (c->node->args[i].kind == SPYRE_ARG_NONE) continue;
        TRY(native_load_arg(c, i, c->dtypes, &vector));
        TRY(native_expect_dtype(vector.dtype, x.dtype, (int)i));
        TRY(native_expect_sizes(&vector.view, &last, (int)i));
    }
    TRY(native_expect_real(c, 3));
    if (c->node->arg_count == 5) {
        TRY(native_load_arg(c, 4, ATEN_DTYPES_F32, &part));
        if (part.view.rank) return native_rule("operand 4: rank %u, expected 0", part.view.rank);
    }
    TRY(native_expect_dtype(result->dtype, x.dtype, NATIVE_RESULT));
    return native_expect_sizes(&result->view, &x.view, NATIVE_RESULT);
}

static spyre_status check_gather(const native_checker *c, const native_operand *result)
{
    native_operand table, index;
    TRY(native_expect_args(c, 2));
    TRY(native_load_arg(c, 0, c->dtypes, &table));
    TRY(native_load_arg(c, 1, ATEN_DTYPES_INT, &index));
    if (table.view.rank != 2) return native_rule("operand 0: rank %u, expected 2", table.view.rank);
    if (table.view.size[1] == 1) {
        // Several such rows share a stick, and a stick is the least that a gather can move.
        return status_new(SPYRE_UNSUPPORTED, "operand 0: rows of one element");
    }
    spyre_view sizes = index.view;
    if (sizes.rank == SPYRE_MAX_RANK) return native_rule("operand 1: rank %u", sizes.rank);
    sizes.size[sizes.rank++] = table.view.size[1];
    TRY(native_expect_dtype(result->dtype, table.dtype, NATIVE_RESULT));
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

// The index of a take or scatter: of x's rank, with one place or all of those of x along the other
// dims. *out_count: places along dim.
static spyre_status check_index(const spyre_view *index, const spyre_view *x, int64_t dim,
                                int64_t *out_count)
{
    if (dim < 0 || dim >= x->rank) return native_rule("dim %lld", (long long)dim);
    if (index->rank != x->rank)
        return native_rule("operand 1: rank %u, expected %u", index->rank, x->rank);
    *out_count = index->size[dim];
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i == dim || index->size[i] == 1 || index->size[i] == x->size[i]) continue;
        return native_rule("operand 1: size %lld in dim %u, expected 1 or %lld",
                           (long long)index->size[i], i, (long long)x->size[i]);
    }
    return NULL;
}

static spyre_status check_take(const native_checker *c, const native_operand *result)
{
    native_operand x, index;
    int64_t dim, count;
    TRY(native_expect_args(c, 3));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    TRY(native_load_arg(c, 1, ATEN_DTYPES_INT, &index));
    TRY(graph_arg_int(c->graph, c->node_id, 2, -1, &dim));
    spyre_view sizes = index.view;
    if (x.view.rank != 1 || dim != 0) {
        TRY(check_index(&index.view, &x.view, dim, &count));
        sizes = x.view;
        sizes.size[dim] = count;
    }
    TRY(native_expect_dtype(result->dtype, x.dtype, NATIVE_RESULT));
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

static spyre_status check_scatter(const native_checker *c, const native_operand *result)
{
    native_operand x, index, rows;
    int64_t dim, count;
    bool widens = c->row->result == ATEN_RESULT_GIVEN;
    TRY(native_expect_args(c, 4));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    TRY(native_load_arg(c, 1, ATEN_DTYPES_INT, &index));
    TRY(native_load_arg(c, 2, c->dtypes, &rows));
    TRY(graph_arg_int(c->graph, c->node_id, 3, -1, &dim));
    count = index.view.size[0];
    if (index.view.rank != 1 || x.view.rank == 1 || dim < 0 || dim >= x.view.rank)
        TRY(check_index(&index.view, &x.view, dim, &count));
    spyre_view sizes = x.view;
    sizes.size[dim] = count;
    bool integers = native_dtype_set(x.dtype) == ATEN_DTYPES_INT;
    if (!widens || integers) TRY(native_expect_dtype(rows.dtype, x.dtype, 2));
    spyre_view wanted = sizes;
    if (rows.view.rank > sizes.rank || !broadcast(&rows.view, &wanted) ||
        !view_same_sizes(&wanted, &sizes))
        return native_expect_sizes(&rows.view, &sizes, 2);
    TRY(native_expect_dtype(result->dtype, widens && !integers ? SPYRE_DTYPE_F32 : x.dtype,
                            NATIVE_RESULT));
    return native_expect_sizes(&result->view, &x.view, NATIVE_RESULT);
}

static spyre_status check_copy(const native_checker *c, const native_operand *result)
{
    native_operand x;
    TRY(native_expect_args(c, 1));
    TRY(native_load_arg(c, 0, c->dtypes, &x));
    if (c->row->kind == ATEN_KIND_CAST) {
        if (result->dtype == SPYRE_DTYPE_BOOL) {
            return status_new(SPYRE_UNSUPPORTED, "cast of %s to bool", spyre_dtype_name(x.dtype));
        }
        return native_expect_sizes(&x.view, &result->view, 0);
    }
    spyre_view sizes = result->view;
    TRY(native_expect_dtype(result->dtype, x.dtype, NATIVE_RESULT));
    if (x.view.rank <= sizes.rank && broadcast(&x.view, &sizes) &&
        view_same_sizes(&sizes, &result->view)) {
        return NULL;
    }
    return native_expect_sizes(&x.view, &result->view, 0);
}

static spyre_status check_cat(const native_checker *c, const native_operand *result)
{
    int64_t dim, sum = 0;
    TRY(native_expect_args(c, 2));
    if (c->node->args[0].kind != SPYRE_ARG_LIST) return native_rule("argument 0: expected a list");
    TRY(graph_arg_int(c->graph, c->node_id, 1, -1, &dim));
    if (dim < 0 || dim >= result->view.rank)
        return native_rule("argument 1: dim %lld", (long long)dim);
    for (uint32_t i = 0; i < c->node->args[0].of.list.count; i++) {
        const spyre_arg *item = &c->node->args[0].of.list.items[i];
        native_operand x;
        if (item->kind != SPYRE_ARG_VALUE) return native_rule("item %u: expected a tensor", i);
        TRY(status_at(native_load(c, item->of.value, c->dtypes, &x), "operand %u", i));
        TRY(native_expect_dtype(x.dtype, result->dtype, (int)i));
        spyre_view sizes = result->view;
        if (x.view.rank == sizes.rank) sizes.size[dim] = x.view.size[dim];
        TRY(native_expect_sizes(&x.view, &sizes, (int)i));
        sum += x.view.size[dim];
    }
    spyre_view sizes = result->view;
    sizes.size[dim] = sum;
    return native_expect_sizes(&result->view, &sizes, NATIVE_RESULT);
}

spyre_status native_check(const spyre_graph *graph, uint32_t node)
{
    const graph_node *made = &graph->nodes.items[node];
    native_checker c = {graph, node, made, aten_describe((aten_op)made->op),
                 native_operand_dtypes((aten_op)made->op, graph->extended)};
    native_operand result;
    TRY(native_load_result(&c, &result));
    switch (c.row->kind) {
    case ATEN_KIND_POINTWISE: return check_pointwise(&c, &result);
    case ATEN_KIND_CONSTANT: return check_constant(&c, &result);
    case ATEN_KIND_FULL: return check_full(&c, &result);
    case ATEN_KIND_COUNTS: return check_counts(&c, &result);
    case ATEN_KIND_REDUCTION: return check_reduction(&c, &result);
    case ATEN_KIND_RANK: return check_rank(&c, &result);
    case ATEN_KIND_SCAN: return check_scan(&c, &result);
    case ATEN_KIND_MATMUL: return check_matmul(&c, &result);
    case ATEN_KIND_WINDOWS: return check_windows(&c, &result);
    case ATEN_KIND_LAYER_NORM: return check_layer_norm(&c, &result);
    case ATEN_KIND_GATHER: return check_gather(&c, &result);
    case ATEN_KIND_TAKE: return check_take(&c, &result);
    case ATEN_KIND_SCATTER: return check_scatter(&c, &result);
    case ATEN_KIND_IDENTITY:
    case ATEN_KIND_CAST: return check_copy(&c, &result);
    case ATEN_KIND_CAT: return check_cat(&c, &result);
    }
    return status_new(SPYRE_INTERNAL, "row %u has no kind", c.node->op);
}
