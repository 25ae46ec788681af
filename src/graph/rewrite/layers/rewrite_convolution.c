// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as products of windows. What they pad is written around a copy of their input, and
// the native reads its windows in place. Transposed ones are made of these in Python
// (torch_spyre/compile/decompositions/convolutions/convolution_forms.py).
#include "graph/rewrite/rewrite.h"

// aten.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
enum { X, WEIGHT, BIAS, STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS };

typedef struct {
    window_steps steps;
    int64_t padding[SPYRE_MAX_RANK], groups;
} convolution;

static void add_dim(spyre_view *view, int64_t size, int64_t stride)
{
    view->size[view->rank] = size;
    view->stride[view->rank++] = stride;
}

// One number for each dim, or one for all.
static spyre_status load_numbers(rewriter *r, uint32_t index, uint32_t dims, int64_t *out)
{
    uint32_t count;
    TRY(graph_arg_ints(r->source, r->node, index, out, &count));
    if (count != dims && count != 1)
        return status_new(SPYRE_INVALID_ARGUMENT, "argument %u: %u ints for %u dims", index, count,
                          dims);
    for (uint32_t d = count; d < dims; d++) out[d] = out[0];
    return NULL;
}

static spyre_status load_convolution(rewriter *r, uint32_t dims, convolution *out)
{
    bool transposed;
    out->steps.count = dims;
    TRY(load_numbers(r, STRIDE, dims, out->steps.stride));
    TRY(load_numbers(r, PADDING, dims, out->padding));
    TRY(load_numbers(r, DILATION, dims, out->steps.dilation));
    TRY(graph_arg_bool(r->source, r->node, TRANSPOSED, false, &transposed));
    TRY(graph_arg_int(r->source, r->node, GROUPS, 1, &out->groups));
    if (transposed) return status_new(SPYRE_UNSUPPORTED, "a transposed convolution");
    if (out->groups < 1) return status_new(SPYRE_INVALID_ARGUMENT, "groups below 1");
    for (uint32_t d = 0; d < dims; d++)
        if (out->padding[d] < 0 || out->padding[d] > INT32_MAX)
            return status_new(SPYRE_INVALID_ARGUMENT, "padding %lld", (long long)out->padding[d]);
    return NULL;
}

// x [N, C, extent..] as [N, groups, extent.., C of a group], without the groups when there is one.
static spyre_view channels_last(const spyre_view *x, int64_t groups)
{
    spyre_view view = {.rank = 1, .offset = x->offset, .size = {x->size[0]}};
    int64_t channels = x->size[1] / groups;
    view.stride[0] = x->stride[0];
    if (groups > 1) add_dim(&view, groups, x->stride[1] * channels);
    for (uint32_t d = 2; d < x->rank; d++) add_dim(&view, x->size[d], x->stride[d]);
    add_dim(&view, channels, x->stride[1]);
    return view;
}

// [features, C of a group, taps..] as [groups, taps.., C of a group, features of a group].
static spyre_view taps_first(const spyre_view *weight, int64_t groups)
{
    spyre_view view = {.offset = weight->offset};
    int64_t features = weight->size[0] / groups;
    if (groups > 1) add_dim(&view, groups, weight->stride[0] * features);
    for (uint32_t d = 2; d < weight->rank; d++) add_dim(&view, weight->size[d], weight->stride[d]);
    add_dim(&view, weight->size[1], weight->stride[1]);
    add_dim(&view, features, weight->stride[0]);
    return view;
}

// Windows that never come to overlap or never move leave no loops of their own: such a dim is read
// in steps of one, or without any (compile/decompositions/convolutions/convolution_forms.py cuts
// the input for that).
static spyre_status check_dim(const convolution *c, uint32_t d, int64_t taps, int64_t windows)
{
    bool plain = c->steps.stride[d] == 1 && c->steps.dilation[d] == 1 && c->padding[d] == 0;
    if (taps == 1 && c->steps.stride[d] > 1)
        return status_new(SPYRE_UNSUPPORTED, "dim %u: a stride of windows of one element", d);
    if (taps > 1 && windows == 1 && !plain)
        return status_new(SPYRE_UNSUPPORTED, "dim %u: one window, spread or padded", d);
    return NULL;
}

// Whether every dim of x is one of its storage: windows walk a dim, no part of one.
static spyre_status has_whole_dims(const rewriter *r, const tensor *x, bool *out)
{
    uint32_t base = graph_value_base(r->target, x->value);
    spyre_view storage;
    TRY(graph_view_constant(r->target, &r->target->values.items[base].view, &storage));
    *out = true;
    for (uint32_t d = 0; d < x->view.rank; d++) {
        bool found = x->view.size[d] == 1;
        for (uint32_t i = 0; i < storage.rank; i++)
            found |= storage.size[i] == x->view.size[d] && storage.stride[i] == x->view.stride[d];
        *out &= found;
    }
    return NULL;
}

// With zeros around it, or as it is.
static spyre_status surround(rewriter *r, const convolution *c, tensor *x)
{
    uint32_t first = x->view.rank - 1 - c->steps.count;
    bool whole;
    for (uint32_t d = 0; d < c->steps.count; d++)
        TRY(make_padded(r, x, first + d, c->padding[d], c->padding[d],
                        &(graph_number){.value = 0}));
    TRY(has_whole_dims(r, x, &whole));
    return whole ? NULL : make_copy(r, x, NULL, x);
}

// The bias as [features, 1..], so that it broadcasts to the result.
static spyre_status add_bias(rewriter *r, const tensor *product, const tensor *into)
{
    tensor bias;
    TRY(rewrite_operand(r, BIAS, into->dtype, &bias));
    if (bias.view.rank != 1)
        return status_new(SPYRE_INVALID_ARGUMENT, "operand 2: rank %u", bias.view.rank);
    for (uint32_t d = 2; d < into->view.rank; d++) TRY(make_unsqueeze(r, &bias, d - 1, &bias));
    return make_binary(r, ATEN_SPYRE_ADD, product, &bias, into, NULL);
}

// Whether windows lie side by side: they become a dim of their own, along which none slide.
static bool are_tiles(const convolution *c, uint32_t d, int64_t taps)
{
    return c->steps.stride[d] == taps && c->steps.dilation[d] == 1;
}

// One channel a group, and windows of several taps wherever there are taps, of which some slide.
static bool is_depthwise(const tensor *x, const tensor *weight, const tensor *into,
                         const convolution *c)
{
    bool slides = false;
    for (uint32_t d = 2; d < x->view.rank; d++) {
        if (weight->view.size[d] > 1 && into->view.size[d] == 1) return false;
        slides |= weight->view.size[d] > 1 && !are_tiles(c, d - 2, weight->view.size[d]);
    }
    return slides && c->groups == x->view.size[1] && c->groups == weight->view.size[0];
}

// [C, 1, taps..] as [taps.., C].
static spyre_view taps_of_channels(const spyre_view *weight)
{
    spyre_view view = {.offset = weight->offset};
    for (uint32_t d = 2; d < weight->rank; d++) add_dim(&view, weight->size[d], weight->stride[d]);
    add_dim(&view, weight->size[0], weight->stride[0]);
    return view;
}

spyre_status rewrite_convolution(rewriter *r)
{
    tensor x, weight, bias, product, into;
    bool has_bias;
    convolution c = {0};
    TRY(rewrite_same_dtypes(r, X, 3));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, X, into.dtype, &x));
    TRY(rewrite_operand(r, WEIGHT, into.dtype, &weight));
    TRY(rewrite_optional(r, BIAS, &has_bias, &bias));
    uint32_t rank = x.view.rank, dims = rank - 2;
    if (rank < 3 || rank > 5 || weight.view.rank != rank || into.view.rank != rank)
        return status_new(SPYRE_UNSUPPORTED, "a convolution of rank %u", rank);
    TRY(load_convolution(r, dims, &c));
    if (x.view.size[1] != weight.view.size[1] * c.groups || weight.view.size[0] % c.groups)
        return status_new(SPYRE_INVALID_ARGUMENT, "%lld channels by a weight of %lld to %lld",
                          (long long)x.view.size[1], (long long)weight.view.size[1],
                          (long long)weight.view.size[0]);
    for (uint32_t d = 0; d < dims; d++)
        TRY(check_dim(&c, d, weight.view.size[d + 2], into.view.size[d + 2]));
    if (c.groups > 1 && c.groups == x.view.size[1] && weight.view.size[0] != c.groups)
        return status_new(SPYRE_UNSUPPORTED, "several features a channel");
    bool depthwise = is_depthwise(&x, &weight, &into, &c);
    aten_op op = depthwise ? ATEN_SPYRE_DEPTHWISE : ATEN_SPYRE_CONV2D;
    int64_t groups = depthwise ? 1 : c.groups;
    spyre_view of_x = channels_last(&x.view, groups), result = channels_last(&into.view, groups);
    spyre_view of_y = depthwise ? taps_of_channels(&weight.view) : taps_first(&weight.view, groups);
    TRY(make_view(r, &x, &of_x, NULL, &x));
    TRY(make_view(r, &weight, &of_y, NULL, &weight));
    TRY(surround(r, &c, &x));
    result.offset = 0;
    TRY(make_windows(r, op, &x, &weight, &c.steps, &result, &product));
    TRY(make_view(r, &product, &into.view, has_bias ? NULL : &into, &product));
    return has_bias ? add_bias(r, &product, &into) : NULL;
}
