// SPDX-License-Identifier: Apache-2.0
//
// Rounds: a program on tensors that are larger than it was compiled for.
//
// A dim of a step can be divided into rounds when every index of it gives results of its own. If it
// is the outermost one of an argument, the next round's tile lies right behind this one's. A way to
// divide the whole bundle follows from one such dim: wherever the same bytes are read or written,
// the dim with the same stride is divided, too, or the way fails. For c = relu(a @ b) with a of
// M x K, b of K x N and N outermost in memory:
//
//   0_batchmatmul  c' = a @ b   N divided: b and c' are larger, a is not
//   1_relufwd      c = c'       c' moves along N with that stride, so N is divided here, too
//
// K cannot be divided, because it is reduced. A reduction of c' along N would make the way fail.
#include "compile/tiled_launch.h"

#include "bundle/derived.h"
#include "compile/tensor_span.h"

enum { MOST_WAYS = 32, WHOLE = -1 };

typedef struct {
    const bundle *b;
    const bundle_geometry *const *geometry;     // by step and tensor
    int32_t *divided;                           // by step: its dim, or WHOLE
    bool *larger, *kept;                        // by argument
    uint32_t *waiting, waiting_count;           // steps whose tensors are to be followed
} way;

static bool is_launched(const bundle *b, const bundle_tensor *tensor)
{
    return !tensor->in_lx && b->args.items[tensor->arg].kind == BUNDLE_ARG_TENSOR;
}

// Whether each index of the dim gives results of its own.
static bool is_divisible(const way *w, uint32_t s, uint32_t d)
{
    const bundle_step *step = &w->b->steps.items[s];
    bool good = step->index_count == 0 && step->op != OPFUNC_SHUFFLE &&
                opfunc_describe(step->op)->kind != OPFUNC_KIND_RANK &&
                opfunc_describe(step->op)->kind != OPFUNC_KIND_MASK && step->window_count == 0 &&
                w->geometry[s][step->output].moves[d];
    for (uint32_t m = 0; m < step->mask_count; m++) good = good && step->masks[m].dim != d;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        int64_t valid = w->geometry[s][t].valid[d];
        if (!w->geometry[s][t].moves[d]) continue;
        good = good && valid == step->size[d];
        good = good && valid % bundle_stick_span(tensor, d) == 0;
    }
    return good;
}

static bool divide(way *w, uint32_t s, uint32_t d)
{
    if (w->divided[s] == (int32_t)d) return true;
    if (w->divided[s] != WHOLE || !is_divisible(w, s, d)) return false;
    w->divided[s] = (int32_t)d;
    w->waiting[w->waiting_count++] = s;
    return true;
}

// Divides step `s`, whose tensor `t` has bytes in common with a divided one, in the same places.
static bool divide_alike(way *w, uint32_t s, uint32_t t, int64_t start, int64_t stride,
                         int64_t extent)
{
    const bundle_step *step = &w->b->steps.items[s];
    const bundle_geometry *geometry = &w->geometry[s][t];
    if (tensor_span_of(step, t, geometry).start != start) return false;
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (geometry->moves[d] && geometry->stride[d] == stride && geometry->extent[d] == extent)
            return divide(w, s, d);
    return false;
}

// Follows a tensor in memory that lasts for one round: to the step that wrote it, or those that
// read it.
static bool follow_kept_bytes(way *w, uint32_t s, uint32_t t, uint32_t d)
{
    const bundle_step *step = &w->b->steps.items[s];
    const bundle_geometry *g = &w->geometry[s][t];
    tensor_span mine = tensor_span_of(step, t, g);
    bool writes = t == step->output, ended = false, good = true;
    uint32_t at = s;
    while (good && !ended && (writes ? ++at < w->b->steps.count : at-- > 0)) {
        const bundle_step *other = &w->b->steps.items[at];
        for (uint32_t i = 0; writes && good && i < other->input_count; i++) {
            uint32_t input = other->inputs[i];
            if (tensor_span_overlaps(&mine, other, input, &w->geometry[at][input]))
                good = divide_alike(w, at, input, mine.start, g->stride[d], g->extent[d]);
        }
        uint32_t o = other->output;
        tensor_span theirs = tensor_span_of(other, o, &w->geometry[at][o]);
        if (!tensor_span_overlaps(&mine, other, o, &w->geometry[at][o])) continue;
        if (!writes) good = divide_alike(w, at, o, mine.start, g->stride[d], g->extent[d]);
        ended = theirs.start <= mine.start && theirs.end >= mine.end;
    }
    return good && (writes || ended);           // what no step has written has no rounds
}

// Follows an argument to all its uses.
static bool follow_argument(way *w, uint32_t s, uint32_t t, uint32_t d)
{
    const bundle_geometry *g = &w->geometry[s][t];
    int32_t a = w->b->steps.items[s].tensors[t].arg;
    if (w->larger[a]) return true;
    w->larger[a] = true;
    bool good = !w->kept[a];
    for (uint32_t at = 0; at < w->b->steps.count; at++) {
        const bundle_step *other = &w->b->steps.items[at];
        for (uint32_t i = 0; good && i < other->tensor_count; i++)
            if (!other->tensors[i].in_lx && other->tensors[i].arg == a)
                good = divide_alike(w, at, i, 0, g->stride[d], g->extent[d]);
    }
    return good;
}

static bool is_outermost(const way *w, uint32_t s, uint32_t t, uint32_t d)
{
    const bundle_step *step = &w->b->steps.items[s];
    const bundle_geometry *g = &w->geometry[s][t];
    int64_t bytes = w->b->args.items[step->tensors[t].arg].bytes;
    return g->moves[d] && bytes > 0 && g->stride[d] * g->extent[d] == bytes &&
           tensor_span_of(step, t, g).start == 0;
}

static bool follow(way *w, uint32_t s, uint32_t t)
{
    const bundle_tensor *tensor = &w->b->steps.items[s].tensors[t];
    uint32_t d = (uint32_t)w->divided[s];
    if (!w->geometry[s][t].moves[d]) {
        if (!is_launched(w->b, tensor)) return true;    // its writer, if divided, follows it here
        w->kept[tensor->arg] = true;
        return !w->larger[tensor->arg];
    }
    if (is_launched(w->b, tensor)) return is_outermost(w, s, t, d) && follow_argument(w, s, t, d);
    if (!tensor->in_lx && w->b->args.items[tensor->arg].kind != BUNDLE_ARG_POOL) return false;
    return follow_kept_bytes(w, s, t, d);
}

// What is written is written in every round, each time further on.
static bool writes_larger_only(const way *w)
{
    for (uint32_t s = 0; s < w->b->steps.count; s++) {
        const bundle_step *step = &w->b->steps.items[s];
        const bundle_tensor *output = &step->tensors[step->output];
        if (is_launched(w->b, output) && !w->larger[output->arg]) return false;
    }
    return true;
}

static bool find_way(way *w, uint32_t s, uint32_t d)
{
    for (uint32_t i = 0; i < w->b->steps.count; i++) w->divided[i] = WHOLE;
    for (uint32_t a = 0; a < w->b->args.count; a++) w->larger[a] = w->kept[a] = false;
    w->waiting_count = 0;
    bool good = divide(w, s, d);
    for (uint32_t n = 0; good && n < w->waiting_count; n++) {
        uint32_t at = w->waiting[n];
        for (uint32_t t = 0; good && t < w->b->steps.items[at].tensor_count; t++)
            good = follow(w, at, t);
    }
    return good && writes_larger_only(w);
}

static bool is_known(const way *w, const uint32_t *ways, uint32_t number)
{
    for (uint32_t a = 0; a < w->b->args.count; a++)
        if ((ways[a] >> number & 1) != w->larger[a]) return false;
    return true;
}

static void add_way(const way *w, uint32_t *ways, uint32_t *count)
{
    for (uint32_t n = 0; n < *count; n++)
        if (is_known(w, ways, n)) return;
    if (*count == MOST_WAYS) return;
    for (uint32_t a = 0; a < w->b->args.count; a++) ways[a] |= (uint32_t)w->larger[a] << *count;
    ++*count;
}

static void find_ways(way *w, uint32_t *ways)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < w->b->steps.count; s++) {
        const bundle_step *step = &w->b->steps.items[s];
        uint32_t t = step->output;
        if (!is_launched(w->b, &step->tensors[t])) continue;
        for (uint32_t d = 0; d < step->dim_count; d++)
            if (is_outermost(w, s, t, d) && find_way(w, s, d)) add_way(w, ways, &count);
    }
}

spyre_status tiled_launch_find(arena *memory, const bundle *b, uint32_t *out_ways)
{
    uint32_t steps = b->steps.count, arguments = b->args.count;
    const bundle_geometry *const *geometry;
    bool straight;
    for (uint32_t a = 0; a < arguments; a++) out_ways[a] = 0;
    TRY(tensor_span_geometry(memory, b, &geometry, &straight));
    way w = {.b = b, .geometry = geometry, .divided = ARENA_NEW(memory, int32_t, steps),
             .larger = ARENA_NEW(memory, bool, arguments),
             .kept = ARENA_NEW(memory, bool, arguments),
             .waiting = ARENA_NEW(memory, uint32_t, steps)};
    TRY_ALLOC(w.divided);
    TRY_ALLOC(w.larger);
    TRY_ALLOC(w.kept);
    TRY_ALLOC(w.waiting);
    if (straight) find_ways(&w, out_ways);
    return NULL;
}
