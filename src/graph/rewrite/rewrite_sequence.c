// SPDX-License-Identifier: Apache-2.0
//
// Ops whose elements depend on where they stand: progressions, triangles, running sums.
#include <math.h>

#include "graph/rewrite/rewrite.h"

// Float32 has every whole number up to here.
#define MOST_WHOLE 0x1p24
// Integers of the card.
#define MOST_INTEGER 0x1p31

typedef struct {
    double start, step;
} progression;

static spyre_status load_progression(rewriter *r, progression *p)
{
    uint32_t op = r->from->op;
    uint32_t start = op == ATEN_IOTA ? 1 : 0;
    *p = (progression){.step = 1};
    if (op != ATEN_ARANGE_DEFAULT) TRY(graph_arg_real(r->source, r->node, start, 0, &p->start));
    if (op != ATEN_ARANGE_DEFAULT && op != ATEN_ARANGE_START)
        TRY(graph_arg_real(r->source, r->node, 2, 1, &p->step));
    return NULL;
}

// Whether x is a multiple of a power of two.
static bool is_multiple(double x, double unit)
{
    return x / unit == floor(x / unit);
}

// Sums and products of multiples of one unit are exact as long as they are below `most` of them.
static spyre_status check_progression(const progression *p, const tensor *into)
{
    bool counts = into->dtype == SPYRE_DTYPE_I64 || into->dtype == SPYRE_DTYPE_I32;
    double last = p->start + p->step * (double)(into->view.size[0] - 1);
    double most = counts ? MOST_INTEGER : MOST_WHOLE, unit = 1;
    while (!counts && unit > 1 / MOST_WHOLE &&
           !(is_multiple(p->start, unit) && is_multiple(p->step, unit)))
        unit /= 2;
    if (!is_multiple(p->start, unit) || !is_multiple(p->step, unit))
        return status_new(SPYRE_UNSUPPORTED, "steps that are not exact");
    most *= unit;
    if (fabs(p->start) < most && fabs(last) < most) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "numbers up to %g", fabs(last));
}

// start + step * i, in integers or in float32, which has these numbers.
spyre_status rewrite_arange(rewriter *r)
{
    tensor x, into;
    progression p;
    TRY(rewrite_result(r, 0, &into));
    TRY(load_progression(r, &p));
    if (into.view.rank != 1) return status_new(SPYRE_INVALID_ARGUMENT, "result 0: not a vector");
    TRY(check_progression(&p, &into));
    bool is_half = into.dtype == SPYRE_DTYPE_F16 || into.dtype == SPYRE_DTYPE_BF16;
    TRY(make_count(r, into.view.size[0], &x));
    TRY(make_cast(r, &x, is_half ? SPYRE_DTYPE_F32 : into.dtype, NULL, &x));
    if (p.step != 1) TRY(make_with(r, ATEN_SPYRE_MUL, &x, p.step, NULL, &x));
    if (p.start == 0) return make_cast(r, &x, into.dtype, &into, NULL);
    if (!is_half) return make_with(r, ATEN_SPYRE_ADD, &x, p.start, &into, NULL);
    TRY(make_with(r, ATEN_SPYRE_ADD, &x, p.start, NULL, &x));
    return make_cast(r, &x, into.dtype, &into, NULL);
}

// True where an element of the last two dims is kept.
static spyre_status make_triangle(rewriter *r, const spyre_view *sizes, int64_t diagonal,
                                  tensor *out)
{
    int64_t rows = sizes->size[sizes->rank - 2], columns = sizes->size[sizes->rank - 1];
    tensor counts, row, column;
    TRY(make_count(r, rows > columns ? rows : columns, &counts));
    TRY(make_slice(r, &counts, 0, 0, rows, &row));
    TRY(make_slice(r, &counts, 0, 0, columns, &column));
    if (diagonal != 0) TRY(make_with(r, ATEN_SPYRE_ADD, &row, (double)diagonal, NULL, &row));
    TRY(make_unsqueeze(r, &row, 1, &row));
    aten_op compare = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    return make_binary(r, compare, &column, &row, NULL, out);
}

spyre_status rewrite_triangle(rewriter *r)
{
    tensor x, kept, zero, into;
    int64_t diagonal;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(graph_arg_int(r->source, r->node, 1, 0, &diagonal));
    if (x.view.rank < 2) return status_new(SPYRE_UNSUPPORTED, "a triangle of rank %u", x.view.rank);
    if ((double)diagonal < -MOST_WHOLE || (double)diagonal > MOST_WHOLE)
        return status_new(SPYRE_UNSUPPORTED, "diagonal %lld", (long long)diagonal);
    TRY(make_triangle(r, &x.view, diagonal, &kept));
    TRY(make_constant(r, 0, x.dtype, &zero));
    return make_where(r, &kept, &x, &zero, &into, NULL);
}

// --- Scans: of one element, then of two, of four: each step joins what stands `reach` in front

typedef struct {
    tensor front, behind; // [.., size - reach]: elements and those that are `reach` before them
    tensor start;         // the first `reach`, which have none
} scan_step;

static spyre_status cut(rewriter *r, const tensor *x, uint32_t dim, int64_t reach, scan_step *out)
{
    int64_t size = x->view.size[dim];
    TRY(make_slice(r, x, dim, 0, reach, &out->start));
    TRY(make_slice(r, x, dim, 0, size - reach, &out->front));
    return make_slice(r, x, dim, reach, size - reach, &out->behind);
}

static spyre_status join(rewriter *r, const scan_step *step, const tensor *made, uint32_t dim,
                         tensor *out)
{
    const tensor parts[2] = {step->start, *made};
    return make_cat(r, parts, 2, dim, NULL, out);
}

static int64_t scan_length(const tensor *x, uint32_t dim)
{
    return x->view.rank ? x->view.size[dim] : 1;
}

// Sums and products of floats in float32: none has more than log2(size) roundings. What float32
// does not compute (logaddexp) is rounded to the result's format as often.
spyre_status rewrite_scan(rewriter *r)
{
    tensor x, made, into;
    uint32_t dim;
    aten_op op = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    TRY(rewrite_result(r, 0, &into));
    bool is_half = into.dtype == SPYRE_DTYPE_F16 || into.dtype == SPYRE_DTYPE_BF16;
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    if (is_half && rewrite_takes(r, op, SPYRE_DTYPE_F32))
        TRY(make_cast(r, &x, SPYRE_DTYPE_F32, NULL, &x));
    for (int64_t reach = 1; reach < scan_length(&x, dim); reach *= 2) {
        scan_step step;
        TRY(cut(r, &x, dim, reach, &step));
        TRY(make_binary(r, op, &step.behind, &step.front, NULL, &made));
        TRY(join(r, &step, &made, dim, &x));
    }
    TRY(make_cast(r, &x, into.dtype, NULL, &x));
    return rewrite_finish(r, &x, &into);
}

// Values and where they stand; of equal ones the last, as PyTorch has it. Places are float32, which
// is selected as integers are not.
spyre_status rewrite_running_extreme(rewriter *r)
{
    tensor x, place, into, places, later, made;
    uint32_t dim;
    aten_op extreme = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    aten_op wins = extreme == ATEN_SPYRE_MAXIMUM ? ATEN_SPYRE_GREATEREQUAL
                                                 : ATEN_SPYRE_LESSEREQUAL;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    int64_t size = scan_length(&x, dim);
    if ((double)size > MOST_WHOLE)
        return status_new(SPYRE_UNSUPPORTED, "%lld elements in a row", (long long)size);
    TRY(make_count(r, size, &place));
    TRY(make_cast(r, &place, SPYRE_DTYPE_F32, NULL, &place));
    spyre_view view = view_contiguous(x.view.size, x.view.rank);
    for (uint32_t i = 0; i < view.rank; i++) view.stride[i] = i == dim ? 1 : 0;
    TRY(make_view(r, &place, &view, NULL, &place));
    for (int64_t reach = 1; reach < size; reach *= 2) {
        scan_step values, where;
        TRY(cut(r, &x, dim, reach, &values));
        TRY(cut(r, &place, dim, reach, &where));
        TRY(make_binary(r, wins, &values.behind, &values.front, NULL, &later));
        TRY(make_where(r, &later, &where.behind, &where.front, NULL, &made));
        TRY(join(r, &where, &made, dim, &place));
        TRY(make_binary(r, extreme, &values.behind, &values.front, NULL, &made));
        TRY(join(r, &values, &made, dim, &x));
    }
    TRY(rewrite_finish(r, &x, &into));
    if (!rewrite_uses(r, 1)) return NULL;
    TRY(rewrite_result(r, 1, &places));
    TRY(make_copy(r, &place, NULL, &place));
    TRY(make_cast(r, &place, places.dtype, NULL, &place));
    return rewrite_finish(r, &place, &places);
}
