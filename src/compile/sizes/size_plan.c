// SPDX-License-Identifier: Apache-2.0
//
// Whether the plans of one graph at two sizes differ in sizes alone: the same ops on the same
// buffers, and steps of the same form. Where tensors lie and what room is behind them may differ,
// and what the sizes decide: factors of means, the places of masked ends.
#include <string.h>

#include "bundle/step_facts.h"
#include "compile/sizes/size_rules.h"

const char size_other_plan[] = "plans of two sizes differ in more than sizes, or have loops over "
                               "tiles";

// --- The loop IR: the same ops on the same buffers

// Factors of means are compared with the steps.
static bool same_parameters(const loop_op *a, const loop_op *b)
{
    const uint32_t first = opfunc_describe(a->op)->kind == OPFUNC_KIND_REDUCTION;
    return memcmp(a->parameter + first, b->parameter + first,
                  sizeof a->parameter - first * sizeof *a->parameter) == 0;
}

static bool same_op(const loop_op *a, const loop_op *b)
{
    bool same = a->op == b->op && a->operand_count == b->operand_count && !a->tile_depth &&
                !b->tile_depth && a->table == b->table && a->accumulator == b->accumulator &&
                a->scanned == b->scanned && a->row_count == b->row_count &&
                same_parameters(a, b);
    for (uint32_t o = 0; same && o < a->operand_count; o++)
        same = a->operand[o].buffer == b->operand[o].buffer;
    return same;
}

// Constants may differ, which size_constants_find() judges.
static bool same_buffer(const loop_buffer *a, const loop_buffer *b)
{
    bool same = a->kind == b->kind && a->index == b->index && a->in_lx == b->in_lx &&
                a->output == b->output && a->format == b->format && a->dim_count == b->dim_count &&
                a->scalar == b->scalar &&
                (a->kind != LOOP_CONSTANT || a->memory_offset == b->memory_offset);
    for (uint32_t d = 0; same && a->in_lx && d < a->dim_count; d++)
        same = a->slices[d] == b->slices[d];
    return same;
}

static bool same_loops(const loop_graph *a, const loop_graph *b)
{
    bool same = a->ops.count == b->ops.count && a->buffers.count == b->buffers.count;
    for (uint32_t n = 0; same && n < a->ops.count; n++)
        same = same_op(&a->ops.items[n], &b->ops.items[n]);
    for (uint32_t n = 0; same && n < a->buffers.count; n++)
        same = same_buffer(&a->buffers.items[n], &b->buffers.items[n]);
    return same;
}

// --- Steps

// Where a tensor lies may differ, which a comparison of starts judges, and the room behind it,
// which mark() does.
static bool same_tensor(const bundle_tensor *a, const bundle_tensor *b)
{
    bundle_tensor other = *b;
    other.start = a->start;
    other.core_offset = a->core_offset;
    memcpy(other.gap, a->gap, sizeof other.gap);
    other.owners = a->owners;
    other.count = a->count;
    bool counts = !a->count == !b->count &&
                  (!a->count || memcmp(a->count, b->count, sizeof *a->count) == 0);
    bool owners = !a->owners == !b->owners &&
                  (!a->owners || memcmp(a->owners, b->owners, sizeof *a->owners) == 0);
    return owners && counts && memcmp(a, &other, sizeof other) == 0;
}

// Whether what is masked is the end of a dim: mark_dim() has more to say about that.
static bool masks_end(const bundle_step *step, uint32_t m)
{
    const bundle_mask *mask = &step->masks[m];
    return mask->start + mask->length == step->size[mask->dim];
}

static bool same_mask(const bundle_step *a, const bundle_step *b, uint32_t m)
{
    const bundle_mask *one = &a->masks[m], *other = &b->masks[m];
    bool ends = masks_end(a, m) && masks_end(b, m);
    return one->dim == other->dim && one->length == other->length &&
           (ends || one->start == other->start);
}

static bool same_window(const bundle_window *a, const bundle_window *b)
{
    return a->dim == b->dim && a->kernel == b->kernel && a->stride == b->stride &&
           a->dilation == b->dilation && a->front == b->front && a->back == b->back &&
           a->total == b->total;
}

static bool same_constant(const bundle_constant *a, const bundle_constant *b, bool is_factor)
{
    return strcmp(a->name, b->name) == 0 && a->format == b->format &&
           (is_factor || a->bits == b->bits);
}

// Of a mean's factor and the places of masked ends, the sizes decide.
static bool same_lists(const bundle *of, const bundle_step *a, const bundle_step *b)
{
    uint32_t factor, its;
    bool same = true, mean = bundle_is_mean(of, a, &factor) && bundle_is_mean(of, b, &its) &&
                             its == factor;
    for (uint32_t m = 0; same && m < a->mask_count; m++) same = same_mask(a, b, m);
    for (uint32_t w = 0; same && w < a->window_count; w++)
        same = same_window(&a->windows[w], &b->windows[w]);
    for (uint32_t c = 0; same && c < a->constant_count; c++)
        same = same_constant(&a->constants[c], &b->constants[c], mean && c == factor);
    return same;
}

// Half a stick is stored by both, or all of it.
static bool same_live_lanes(const bundle_step *a, const bundle_step *b)
{
    for (uint32_t d = 0; d < a->dim_count; d++) {
        bool part = bundle_stored_size(a, d) < a->size[d];
        if (part != (bundle_stored_size(b, d) < b->size[d])) return false;
    }
    return true;
}

static bool same_step(const bundle *of, const bundle_step *a, const bundle_step *b)
{
    bundle_step other = *b;
    other.name = a->name;
    other.location = a->location;
    other.tensors = a->tensors;
    other.cores = a->cores;
    memcpy(other.size, a->size, sizeof other.size);
    other.live_lanes = a->live_lanes;
    other.masks = a->masks;
    other.windows = a->windows;
    other.constants = a->constants;
    bool same = memcmp(a, &other, sizeof other) == 0 &&
                memcmp(a->cores, b->cores, sizeof *a->cores) == 0 &&
                same_lists(of, a, b) && same_live_lanes(a, b);
    for (uint32_t t = 0; same && t < a->tensor_count; t++)
        same = same_tensor(&a->tensors[t], &b->tensors[t]);
    return same;
}

static bool same_arguments(const bundle *a, const bundle *b)
{
    bool same = a->args.count == b->args.count && a->constants_bytes == b->constants_bytes;
    for (uint32_t k = 0; same && k < a->args.count; k++)
        same = a->args.items[k].kind == b->args.items[k].kind;
    return same;
}

const char *size_compare_plans(const executable_segment *largest, const executable_segment *next)
{
    const bundle *a = largest->front.bundle, *b = next->front.bundle;
    bool same = a->steps.count == b->steps.count && same_arguments(a, b) &&
                a->steps.count == largest->front.loops->ops.count;
    for (uint32_t s = 0; same && s < a->steps.count; s++)
        same = same_step(a, &a->steps.items[s], &b->steps.items[s]);
    return same && same_loops(largest->front.loops, next->front.loops) ? NULL : size_other_plan;
}
