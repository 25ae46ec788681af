// SPDX-License-Identifier: Apache-2.0
//
// Makers of natives that reduce: sums and extremes, rankings, matrix products, windows, layer norm.
#include "graph/rewrite/make/make_node.h"

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

// What `reduced` leaves of the sizes.
static spyre_view sizes_left(const tensor *x, const bool *reduced, bool keepdim)
{
    spyre_view view = {0};
    for (uint32_t i = 0; i < x->view.rank; i++) {
        if (reduced[i] && !keepdim) continue;
        view.size[view.rank++] = reduced[i] ? 1 : x->view.size[i];
    }
    view_set_contiguous(&view);
    return view;
}

static spyre_status reduce_to(rewriter *r, aten_op op, const tensor *x, const bool *reduced,
                              bool keepdim, spyre_dtype dtype, const tensor *into, tensor *out)
{
    spyre_arg dims[SPYRE_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->view.rank; i++)
        if (reduced[i]) dims[count++] = int_arg(i);
    const spyre_view view = sizes_left(x, reduced, keepdim);
    spyre_arg args[3] = {tensor_arg(x),
                         {.kind = SPYRE_ARG_LIST, .of.list = {dims, count}},
                         {.kind = SPYRE_ARG_BOOL, .of.boolean = keepdim}};
    return make_node(r, op, args, 3, dtype, &view, into, out);
}

// --- Sums of many rows

// Reduced loops are not divided among cores, so that numbers do not depend on how many there are.
// Where rows have values of their own, means or sums, cores have rows, and of a sum over rows every
// core would want what lies with all others: they are summed in so many parts first, in float32,
// then these.
enum { ROW_PARTS = 32, LEAST_ROWS = 512, LEAST_ELEMENTS = 1 << 16, NODES_BEFORE = 4 };

// What else is made of the summed value, such as the gradient of a norm's input, is looked for
// among so many nodes before the sum, and followed over so many values.
enum { NODES_LOOKED_AT = 64, VALUES_FOLLOWED = 8 };

typedef struct {
    spyre_view view;                    // dims of parts, of rows of a part, then those that stay
    bool rows[SPYRE_MAX_RANK], parts[SPYRE_MAX_RANK];
} parted_rows;

static bool is_of_rows(const spyre_view *of, const spyre_view *x)
{
    const uint32_t last = x->rank - 1;
    const bool same = of->rank == x->rank && of->size[0] == x->size[0];
    const bool moves = same && of->size[0] > 1 && of->stride[0] != 0 && x->size[last] > 1;
    return moves && (of->size[last] == 1 || of->stride[last] == 0);
}

// Whether the argument is one for each row; a mask of rows is none.
static spyre_status is_row_argument(const spyre_graph *graph, const spyre_arg *arg,
                                    const spyre_view *x, bool *out)
{
    spyre_view view;
    if (arg->kind != SPYRE_ARG_VALUE) return NULL;
    const graph_value *value = &graph->values.items[arg->of.value];
    TRY(graph_view_constant(graph, &value->view, &view));
    *out = value->dtype != SPYRE_DTYPE_BOOL && is_of_rows(&view, x);
    return NULL;
}

// Whether one of the nodes that a value is made by, up to so many back, reads one for each row.
static spyre_status reads_rows(const spyre_graph *graph, uint32_t of, const spyre_view *x,
                               uint32_t nodes, bool *out)
{
    const uint32_t made_by = graph->values.items[of].node;
    if (made_by == SPYRE_NO_ID || nodes == 0) return NULL;
    const graph_node *node = &graph->nodes.items[made_by];
    for (uint32_t i = 0; i < node->arg_count && !*out; i++) {
        TRY(is_row_argument(graph, &node->args[i], x, out));
        if (!*out && node->args[i].kind == SPYRE_ARG_VALUE)
            TRY(reads_rows(graph, node->args[i].of.value, x, nodes - 1, out));
    }
    return NULL;
}

static bool reads_one_of(const graph_node *node, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < node->arg_count; i++)
        for (uint32_t n = 0; n < count && node->args[i].kind == SPYRE_ARG_VALUE; n++)
            if (node->args[i].of.value == values[n]) return true;
    return false;
}

// Whether a node reads the value, or what others have made of it, beside one for each row.
static spyre_status meets_rows(const spyre_graph *graph, uint32_t value, const spyre_view *x,
                               bool *out)
{
    const uint32_t nodes = graph->nodes.count;
    uint32_t followed[VALUES_FOLLOWED] = {value}, count = 1;
    for (uint32_t n = nodes > NODES_LOOKED_AT ? nodes - NODES_LOOKED_AT : 0; n < nodes; n++) {
        const graph_node *node = &graph->nodes.items[n];
        if (!reads_one_of(node, followed, count)) continue;
        for (uint32_t i = 0; i < node->arg_count && !*out; i++)
            TRY(is_row_argument(graph, &node->args[i], x, out));
        if (*out || count == VALUES_FOLLOWED) return NULL;
        followed[count++] = node->results[0];
    }
    return NULL;
}

// A dim of `size` rows: of parts, of rows, or of the parts that are still wanted and of their rows.
static bool add_rows(parted_rows *p, spyre_view *sizes, int64_t size, int64_t *wanted)
{
    const int64_t parts = size % *wanted == 0 ? *wanted : size;
    if (*wanted % parts != 0 || sizes->rank + 2 > SPYRE_MAX_RANK) return false;
    *wanted /= parts;
    p->parts[sizes->rank] = true;
    sizes->size[sizes->rank++] = parts;
    if (size == parts) return true;
    p->rows[sizes->rank] = true;
    sizes->size[sizes->rank++] = size / parts;
    return true;
}

// Only where all outer dims are reduced, and those alone.
static bool part_rows(aten_op op, const tensor *x, const bool *reduced, parted_rows *out)
{
    spyre_view sizes = {0};
    int64_t wanted = ROW_PARTS, rows = 1;
    uint32_t outer = 0;
    bool floats = x->dtype == SPYRE_DTYPE_F32 || x->dtype == SPYRE_DTYPE_F16 ||
                  x->dtype == SPYRE_DTYPE_BF16;
    *out = (parted_rows){.view = {0}};
    if (op != ATEN_SPYRE_SUM || !floats || view_element_count(&x->view) < LEAST_ELEMENTS)
        return false;
    for (; outer < x->view.rank && reduced[outer]; outer++) {
        rows *= x->view.size[outer];
        if (!add_rows(out, &sizes, x->view.size[outer], &wanted)) return false;
    }
    if (wanted > 1 || rows < LEAST_ROWS) return false;
    if (outer == x->view.rank || sizes.rank + x->view.rank - outer > SPYRE_MAX_RANK) return false;
    for (uint32_t i = outer; i < x->view.rank; i++) {
        if (reduced[i]) return false;
        sizes.size[sizes.rank++] = x->view.size[i];
    }
    return view_reshape(&x->view, sizes.size, sizes.rank, &out->view);
}

static spyre_status sum_parts(rewriter *r, const tensor *x, const parted_rows *p,
                              const tensor *like, const tensor *into, tensor *out)
{
    tensor rows, sums, sum;
    bool rest[SPYRE_MAX_RANK] = {false};
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->view.rank; i++)
        if (!p->rows[i]) rest[count++] = p->parts[i];
    TRY(make_view(r, x, &p->view, NULL, &rows));
    TRY(reduce_to(r, ATEN_SPYRE_SUM, &rows, p->rows, false, SPYRE_DTYPE_F32, NULL, &sums));
    TRY(reduce_to(r, ATEN_SPYRE_SUM, &sums, rest, false, SPYRE_DTYPE_F32, NULL, &sum));
    TRY(make_cast(r, &sum, like->dtype, NULL, &sum));
    if (into) return rewrite_finish(r, &sum, into);
    return make_reshape(r, &sum, like->view.size, like->view.rank, out);
}

spyre_status make_reduction(rewriter *r, aten_op op, const tensor *x, const bool *reduced,
                            bool keepdim, const tensor *into, tensor *out)
{
    tensor narrow, whole;
    parted_rows parted;
    bool any = false;
    for (uint32_t i = 0; i < x->view.rank; i++) any |= reduced[i];
    if (!any && into) return make_copy(r, x, into, out);
    if (!any) {
        *out = *x;
        return NULL;
    }
    TRY(before_cast(r, x, &narrow));
    TRY(make_unrepeated(r, &narrow, reduced, &whole));
    bool of_rows = false;
    if (part_rows(op, &whole, reduced, &parted)) {
        TRY(reads_rows(r->target, whole.value, &x->view, NODES_BEFORE, &of_rows));
        if (!of_rows) TRY(meets_rows(r->target, whole.value, &x->view, &of_rows));
    }
    if (of_rows) {
        const tensor like = {.dtype = x->dtype, .view = sizes_left(x, reduced, keepdim)};
        return sum_parts(r, &whole, &parted, &like, into, out);
    }
    return reduce_to(r, op, &whole, reduced, keepdim, x->dtype, into, out);
}

spyre_status make_rank(rewriter *r, aten_op op, const tensor *x, int64_t k, uint32_t dim,
                       const tensor *into, tensor *out)
{
    spyre_arg args[3] = {tensor_arg(x), int_arg(k), int_arg(dim)};
    spyre_view view = x->view;
    view.size[dim] = k;
    view_set_contiguous(&view);
    bool positions = opfunc_gives_positions(aten_describe(op)->opfunc);
    spyre_dtype dtype = positions ? SPYRE_DTYPE_I64 : x->dtype;
    return make_node(r, op, args, 3, dtype, &view, into, out);
}

spyre_status make_scan(rewriter *r, aten_op op, const tensor *x, uint32_t dim, const tensor *into,
                       tensor *out)
{
    spyre_arg args[2] = {tensor_arg(x), int_arg(dim)};
    spyre_view view = x->view;
    view_set_contiguous(&view);
    bool positions = opfunc_gives_positions(aten_describe(op)->opfunc);
    spyre_dtype dtype = positions ? SPYRE_DTYPE_I64 : x->dtype;
    return make_node(r, op, args, 2, dtype, &view, into, out);
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
    TRY(before_cast(r, x, x));
    TRY(before_cast(r, y, y));
    TRY(make_cast(r, x, dtype, NULL, x));
    return make_cast(r, y, dtype, NULL, y);
}

// Sums of int32; where int8 is wanted they wrap as they are cast.
static spyre_status multiply_int8(rewriter *r, const spyre_arg *args, const spyre_view *view,
                                  const tensor *into, tensor *out)
{
    tensor sums;
    const aten_op op = ATEN_SPYRE_BATCHMATMULINT8;
    if (into && into->dtype != SPYRE_DTYPE_I8)
        return make_node(r, op, args, 2, SPYRE_DTYPE_I32, view, into, out);
    TRY(make_node(r, op, args, 2, SPYRE_DTYPE_I32, view, NULL, &sums));
    return make_cast(r, &sums, SPYRE_DTYPE_I8, into, out);
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
        return make_node(r, ATEN_SPYRE_BATCHMATMULFP8, args, 2, SPYRE_DTYPE_F32, &view, into, out);
    if (x->dtype == SPYRE_DTYPE_I8) return multiply_int8(r, args, &view, into, out);
    return make_node(r, ATEN_SPYRE_BATCHMATMUL, args, 2, dtype, &view, into, out);
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
    return make_node(r, op, args, 4, x->dtype, result, NULL, out);
}

spyre_status make_layer_norm(rewriter *r, const tensor *x, const norm_parameters *p,
                             const tensor *into, tensor *out)
{
    spyre_arg args[5] = {tensor_arg(x), tensor_arg(p->weight), tensor_arg(p->bias),
                         real_arg(p->eps), tensor_arg(p->part)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return make_node(r, ATEN_SPYRE_LAYER_NORM, args, p->part ? 5 : 4, x->dtype, &view, into, out);
}
