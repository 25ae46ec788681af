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

static spyre_status check_progression(const progression *p, const tensor *into)
{
    bool counts = into->dtype == SPYRE_DTYPE_I64 || into->dtype == SPYRE_DTYPE_I32;
    double last = p->start + p->step * (double)(into->view.size[0] - 1);
    double most = counts ? MOST_INTEGER : MOST_WHOLE;
    if (p->start != floor(p->start) || p->step != floor(p->step))
        return status_new(SPYRE_UNSUPPORTED, "steps that are no whole numbers");
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

// Sums of one element, then of two, of four: each step adds what stands so far in front. Of floats
// the order of additions would differ from one running sum.
spyre_status rewrite_cumsum(rewriter *r)
{
    tensor x, into;
    uint32_t dim;
    TRY(rewrite_result(r, 0, &into));
    if (into.dtype != SPYRE_DTYPE_I64 && into.dtype != SPYRE_DTYPE_I32)
        return status_new(SPYRE_UNSUPPORTED, "the card has no scan");
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    int64_t size = x.view.rank ? x.view.size[dim] : 1;
    for (int64_t reach = 1; reach < size; reach *= 2) {
        tensor front, behind, parts[2];
        TRY(make_slice(r, &x, dim, 0, reach, &parts[0]));
        TRY(make_slice(r, &x, dim, 0, size - reach, &front));
        TRY(make_slice(r, &x, dim, reach, size - reach, &behind));
        TRY(make_binary(r, ATEN_SPYRE_ADD, &behind, &front, NULL, &parts[1]));
        bool last = reach * 2 >= size;
        TRY(make_cat(r, parts, 2, dim, last ? &into : NULL, &x));
    }
    return size > 1 ? NULL : make_copy(r, &x, &into, NULL);
}
