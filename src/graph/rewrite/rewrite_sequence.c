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

// start + step * i, in integers if it is one, else in float32, which has these numbers.
spyre_status rewrite_arange(rewriter *r)
{
    tensor x, into;
    progression p;
    TRY(rewrite_result(r, 0, &into));
    TRY(load_progression(r, &p));
    if (into.view.rank != 1) return status_new(SPYRE_INVALID_ARGUMENT, "result 0: not a vector");
    TRY(check_progression(&p, &into));
    bool whole = is_multiple(p.start, 1) && is_multiple(p.step, 1);
    TRY(make_count(r, into.view.size[0], &x));
    if (!whole) TRY(make_cast(r, &x, SPYRE_DTYPE_F32, NULL, &x));
    if (p.step != 1) TRY(make_with(r, ATEN_SPYRE_MUL, &x, p.step, NULL, &x));
    if (p.start != 0 && x.dtype == into.dtype)
        return make_with(r, ATEN_SPYRE_ADD, &x, p.start, &into, NULL);
    if (p.start != 0) TRY(make_with(r, ATEN_SPYRE_ADD, &x, p.start, NULL, &x));
    TRY(make_cast(r, &x, into.dtype, NULL, &x));
    // Counts are no memory of their own.
    return p.step == 1 && p.start == 0 ? make_copy(r, &x, &into, NULL)
                                       : rewrite_finish(r, &x, &into);
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

// --- Running values

// What is scanned: a tensor of rank 1 or more.
static spyre_status load_scanned(rewriter *r, spyre_dtype dtype, uint32_t *out_dim, tensor *out)
{
    static const int64_t one = 1;
    TRY(rewrite_operand(r, 0, dtype, out));
    TRY(rewrite_dim(r, 1, 0, out->view.rank, out_dim));
    return out->view.rank ? NULL : make_reshape(r, out, &one, 1, out);
}

spyre_status rewrite_scan(rewriter *r)
{
    tensor x, into;
    uint32_t dim;
    aten_op op = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    TRY(rewrite_result(r, 0, &into));
    TRY(load_scanned(r, into.dtype, &dim, &x));
    if (x.view.size[dim] > 1) TRY(make_scan(r, op, &x, dim, NULL, &x));
    return rewrite_finish(r, &x, &into);
}

// Values and where they stand, as far as they are used.
spyre_status rewrite_running_extreme(rewriter *r)
{
    tensor x, values, places, into;
    uint32_t dim;
    opfunc values_op = aten_describe((aten_op)r->from->op)->opfunc;
    opfunc places_op = values_op == OPFUNC_CUMMAXVALUE ? OPFUNC_CUMMAXINDEX : OPFUNC_CUMMININDEX;
    TRY(rewrite_result(r, 0, &into));
    TRY(load_scanned(r, into.dtype, &dim, &x));
    if (rewrite_uses(r, 0)) {
        TRY(make_scan(r, native_of(values_op), &x, dim, NULL, &values));
        TRY(rewrite_finish(r, &values, &into));
    }
    if (!rewrite_uses(r, 1)) return NULL;
    TRY(rewrite_result(r, 1, &into));
    TRY(make_scan(r, native_of(places_op), &x, dim, NULL, &places));
    return rewrite_finish(r, &places, &into);
}
