// SPDX-License-Identifier: Apache-2.0
//
// The rules of windows: which inputs they move over, and that they stay inside; and of sizes that a
// launch chooses, which neither windows nor sticks of several dims have.
#include "bundle/step_facts.h"
#include "bundle/verify.h"

static spyre_status verify_window(const bundle_step *step, const bundle_window *w)
{
    const bundle_tensor *in = &step->tensors[step->inputs[0]], *out = &step->tensors[step->output];
    const int64_t most = 1 << 20;
    if (w->dim >= step->dim_count || w->kernel >= step->dim_count || w->dim == w->kernel) {
        return RULE("paddingSizes_: dims %u and %u of %u", w->dim, w->kernel, step->dim_count);
    }
    const char *name = step->dim_name[w->dim], *kernel = step->dim_name[w->kernel];
    if (w->stride < 1 || w->stride > most || w->dilation < 1 || w->dilation > most ||
        w->front < 0 || w->front > most || w->back < 0 || w->back > most ||
        w->total > LARGEST_ELEMENTS) {
        return RULE("paddingSizes_: dim %s has stride %lld, dilation %lld, padding %lld and %lld",
                    name, (long long)w->stride, (long long)w->dilation, (long long)w->front,
                    (long long)w->back);
    }
    int64_t span = (step->size[w->dim] - 1) * w->stride +
                   (step->size[w->kernel] - 1) * w->dilation + 1;
    if (span > w->total || w->total - w->front - w->back < 1) {
        return RULE("paddingSizes_: windows of dim %s reach over %lld of totalSize_ %lld, of which "
                    "%lld are padding", name, (long long)span, (long long)w->total,
                    (long long)(w->front + w->back));
    }
    if (in->scale[w->dim] <= 0 || in->scale[w->kernel] != 0 || out->scale[w->dim] <= 0 ||
        out->scale[w->kernel] > 0) {
        return RULE("paddingSizes_: input and output have dim %s, neither has the window's %s",
                    name, kernel);
    }
    if (bundle_stick_span(in, w->dim) > 1) {
        return RULE("stickDimOrder_: the windows of dim %s are in the stick of %s", name, in->name);
    }
    if (step->cores->slices[w->kernel] > 1 || (in->in_lx && step->cores->slices[w->dim] > 1)) {
        return RULE("numWkSlicesPerDim_: dim %s cannot be split",
                    step->cores->slices[w->kernel] > 1 ? kernel : name);
    }
    return NULL;
}

// Each window has an element. At most the indices beside the ends are looked at one by one.
static spyre_status verify_inside(const bundle_step *step, const bundle_window *w)
{
    for (int64_t i = 0; i < step->size[w->dim];) {
        int64_t first, end;
        bundle_window_inside(step, w, i, &first, &end);
        if (first >= end) {
            return RULE("paddingSizes_: window %lld of dim %s is all padding", (long long)i,
                        step->dim_name[w->dim]);
        }
        i = bundle_window_same(step, w, i);
    }
    return NULL;
}

spyre_status verify_windows(const bundle_step *step)
{
    uint32_t seen = 0;
    bool pools = opfunc_describe(step->op)->kind == OPFUNC_KIND_POOL;
    if (step->window_count > BUNDLE_MAX_WINDOWS || (pools && step->window_count == 0) ||
        (step->window_count && !opfunc_slides(step->op))) {
        return RULE("paddingSizes_: %u windows of %s", step->window_count,
                    opfunc_describe(step->op)->name);
    }
    for (uint32_t n = 0; n < step->window_count; n++) {
        const bundle_window *w = &step->windows[n];
        TRY(verify_window(step, w));
        uint32_t dims = 1u << w->dim | 1u << w->kernel;
        if (seen & dims) {
            return RULE("paddingSizes_: dim %s or %s has two windows", step->dim_name[w->dim],
                        step->dim_name[w->kernel]);
        }
        seen |= dims;
        TRY(verify_inside(step, w));
    }
    return NULL;
}

// Sizes that a launch chooses are not for what counts elements when it is compiled.
spyre_status verify_open(const bundle_step *step)
{
    bool counts = step->window_count || opfunc_describe(step->op)->kind == OPFUNC_KIND_MASK;
    uint32_t lanes = 0; // bits of the dims of sticks of several
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        counts = counts || tensor->format == SPYRE_FORMAT_SENINT4;
        for (uint32_t n = 0; n < tensor->digit_count; n++) lanes |= 1u << tensor->digits[n].dim;
    }
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (step->symbol[d] && (counts || lanes >> d & 1u))
            return status_new(SPYRE_UNSUPPORTED, "dimToSymbolMapping_: dim %s of %s",
                              step->dim_name[d], opfunc_describe(step->op)->name);
    return NULL;
}
