// SPDX-License-Identifier: Apache-2.0
//
// Rotary embeddings (Su et al., RoFormer, arXiv 2104.09864). As written in PyTorch they copy x with
// its halves exchanged; here each half of the result is computed where it belongs, from halves that
// are views. Products and sums round where those of the spelling round, so the numbers are the
// same: the sign moves from x to the sine, which all heads share.
#include "graph/rewrite/rewrite.h"

// The two parts of x along its last dim: halves, or even and odd elements. A dim of size 1 is both.
static spyre_status parts(rewriter *r, const tensor *x, bool interleaved, tensor out[2])
{
    spyre_view view = x->view;
    uint32_t last = view.rank - 1;
    int64_t size = view.size[last], stride = view.stride[last];
    if (size == 1) {
        out[0] = out[1] = *x;
        return NULL;
    }
    view.size[last] = size / 2;
    if (interleaved) view.stride[last] *= 2;
    TRY(make_view(r, x, &view, NULL, &out[0]));
    view.offset += interleaved ? stride : size / 2 * stride;
    return make_view(r, x, &view, NULL, &out[1]);
}

// Parts one behind the other, or element by element.
static spyre_status join(rewriter *r, tensor parted[2], bool interleaved, tensor *out)
{
    uint32_t rank = parted[0].view.rank;
    spyre_view view;
    tensor both;
    if (!interleaved) return make_cat(r, parted, 2, rank - 1, NULL, out);
    for (uint32_t i = 0; i < 2; i++) TRY(make_unsqueeze(r, &parted[i], rank, &parted[i]));
    TRY(make_cat(r, parted, 2, rank, NULL, &both));
    view = both.view;
    view.rank = rank;
    view.size[rank - 1] *= 2;
    view.stride[rank - 1] = 1;
    return make_view(r, &both, &view, NULL, out);
}

static spyre_status check_rope(const tensor *x, const tensor *factor, uint32_t index)
{
    uint32_t rank = x->view.rank;
    int64_t size = rank ? x->view.size[rank - 1] : 0;
    if (size == 0 || size % 2)
        return status_new(SPYRE_INVALID_ARGUMENT, "operand 0: its last dim is not even");
    uint32_t last = factor->view.rank;
    if (last && (factor->view.size[last - 1] == size || factor->view.size[last - 1] == 1))
        return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "operand %u: its last dim is not that of operand 0",
                      index);
}

// rope(x, cos, sin, interleaved): x * cos + turned(x) * sin.
spyre_status rewrite_rope(rewriter *r)
{
    tensor x, cosine, sine, level, crossed, into, xs[2], sines[2], parted[2];
    bool interleaved;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_operand(r, 1, into.dtype, &cosine));
    TRY(rewrite_operand(r, 2, into.dtype, &sine));
    TRY(graph_arg_bool(r->source, r->node, 3, false, &interleaved));
    TRY(check_rope(&x, &cosine, 1));
    TRY(check_rope(&x, &sine, 2));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &x, &cosine, NULL, &level));
    TRY(parts(r, &x, interleaved, xs));
    TRY(parts(r, &sine, interleaved, sines));
    TRY(make_unary(r, ATEN_SPYRE_NEG, &sines[0], NULL, &sines[0]));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &xs[1], &sines[0], NULL, &parted[0]));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &xs[0], &sines[1], NULL, &parted[1]));
    TRY(join(r, parted, interleaved, &crossed));
    return make_binary(r, ATEN_SPYRE_ADD, &level, &crossed, &into, NULL);
}

// Index `index` of dim `dim`, which goes.
static spyre_status pick(rewriter *r, const tensor *x, uint32_t dim, int64_t index, tensor *out)
{
    spyre_view view = {.rank = x->view.rank - 1,
                       .offset = x->view.offset + index * x->view.stride[dim]};
    for (uint32_t d = 0; d < view.rank; d++) {
        view.size[d] = x->view.size[d < dim ? d : d + 1];
        view.stride[d] = x->view.stride[d < dim ? d : d + 1];
    }
    return make_view(r, x, &view, NULL, out);
}

// rope_by_matrix(q [.., 1, 2, n], f [.., 2, 2, n]): the sum of f * q over the last dim but one.
spyre_status rewrite_rope_by_matrix(rewriter *r)
{
    enum { OUT = 3, IN = 4, RANK = 6 };
    tensor q, f, into, q_in[2], result[2], all;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &q));
    TRY(rewrite_operand(r, 1, into.dtype, &f));
    if (q.view.rank != RANK || f.view.rank != RANK || q.view.size[OUT] != 1 ||
        q.view.size[IN] != 2 || f.view.size[OUT] != 2 || f.view.size[IN] != 2)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "operands must be [.., 1, 2, n] and [.., 2, 2, n] of rank 6");
    for (uint32_t i = 0; i < 2; i++) TRY(pick(r, &q, IN, i, &q_in[i]));
    for (uint32_t o = 0; o < 2; o++) {
        tensor rows, factor, product[2];
        TRY(make_slice(r, &f, OUT, o, 1, &rows));
        for (uint32_t i = 0; i < 2; i++) {
            TRY(pick(r, &rows, IN, i, &factor));
            TRY(make_binary(r, ATEN_SPYRE_MUL, &factor, &q_in[i], NULL, &product[i]));
        }
        TRY(make_binary(r, ATEN_SPYRE_ADD, &product[0], &product[1], NULL, &result[o]));
    }
    TRY(make_cat(r, result, 2, OUT, NULL, &all));
    return rewrite_finish(r, &all, &into);
}
