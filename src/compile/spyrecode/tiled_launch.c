// SPDX-License-Identifier: Apache-2.0
//
// Rounds: a program on tensors that are larger than it was compiled for.
//
// A dim of a step can be divided into rounds when every index of it gives results of its own. In an
// argument the next round's tile begins where the dim would end in this one; what lies outside of
// the dim is further apart than the program was compiled for (isa/retile.h). A way to
// divide the whole bundle follows from one such dim: wherever the same bytes are read or written,
// the dim with the same stride is divided, too, or the way fails. For c = relu(a @ b) with a of
// M x K, b of K x N and N outermost in memory:
//
//   0_batchmatmul  c' = a @ b   N divided: b and c' are larger, a is not
//   1_relufwd      c = c'       c' moves along N with that stride, so N is divided here, too
//
// K cannot be divided, because it is reduced. A reduction of c' along N would make the way fail.
#include "compile/spyrecode/tiled_launch.h"

#include <string.h>

#include "bundle/step_facts.h"
#include "compile/spyrecode/tensor_span.h"
#include "spyrecode/model.h"

enum { WHOLE = -1 };

typedef struct {
    const bundle *b;
    const bundle_geometry *const *geometry;     // by step and tensor
    int32_t *divided;                           // by step: its dim, or WHOLE
    launch_tile *tile;                          // by argument
    bool *kept;                                 // by argument
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
                opfunc_describe(step->op)->kind != OPFUNC_KIND_MASK && !step->scanned[d] &&
                step->window_count == 0 &&
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

static int64_t start_of(const way *w, uint32_t s, uint32_t t)
{
    return tensor_span_of(&w->b->steps.items[s], t, &w->geometry[s][t]).start;
}

// Divides step `s`, whose tensor `t` has bytes in common with a divided one, in the same places.
static bool divide_alike(way *w, uint32_t s, uint32_t t, int64_t stride, int64_t extent)
{
    const bundle_step *step = &w->b->steps.items[s];
    const bundle_geometry *geometry = &w->geometry[s][t];
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
                good = start_of(w, at, input) == mine.start &&
                       divide_alike(w, at, input, g->stride[d], g->extent[d]);
        }
        uint32_t o = other->output;
        tensor_span theirs = tensor_span_of(other, o, &w->geometry[at][o]);
        if (!tensor_span_overlaps(&mine, other, o, &w->geometry[at][o])) continue;
        if (!writes)
            good = theirs.start == mine.start &&
                   divide_alike(w, at, o, g->stride[d], g->extent[d]);
        ended = theirs.start <= mine.start && theirs.end >= mine.end;
    }
    return good && (writes || ended);           // what no step has written has no rounds
}

static bool same_tile(const launch_tile *a, const launch_tile *b)
{
    return a->stride == b->stride && a->bytes == b->bytes;
}

// Follows an argument to all its uses, which begin with whole tiles.
static bool follow_argument(way *w, uint32_t s, uint32_t t, uint32_t d, launch_tile tile)
{
    const bundle_geometry *g = &w->geometry[s][t];
    int32_t a = w->b->steps.items[s].tensors[t].arg;
    if (w->tile[a].bytes) return same_tile(&w->tile[a], &tile);
    w->tile[a] = tile;
    bool good = !w->kept[a];
    for (uint32_t at = 0; at < w->b->steps.count; at++) {
        const bundle_step *other = &w->b->steps.items[at];
        for (uint32_t i = 0; good && i < other->tensor_count; i++)
            if (!other->tensors[i].in_lx && other->tensors[i].arg == a)
                good = start_of(w, at, i) % tile.bytes == 0 &&
                       divide_alike(w, at, i, g->stride[d], g->extent[d]);
    }
    return good;
}

// The dim in an argument that consists of as long pieces; 0 where it does not, or the step leaves
// out a part of the dim.
static launch_tile tile_along(const way *w, uint32_t s, uint32_t t, uint32_t d)
{
    const bundle_step *step = &w->b->steps.items[s];
    const bundle_geometry *g = &w->geometry[s][t];
    int64_t bytes = w->b->args.items[step->tensors[t].arg].bytes;
    int64_t tile = g->moves[d] ? g->stride[d] * g->extent[d] : 0;
    bool whole = g->extent[d] * bundle_stick_span(&step->tensors[t], d) == step->size[d];
    bool good = tile > 0 && whole && bytes % tile == 0 && start_of(w, s, t) % tile == 0;
    return good ? (launch_tile){g->stride[d], tile} : (launch_tile){0};
}

static bool follow(way *w, uint32_t s, uint32_t t)
{
    const bundle_tensor *tensor = &w->b->steps.items[s].tensors[t];
    uint32_t d = (uint32_t)w->divided[s];
    if (!w->geometry[s][t].moves[d]) {
        if (!is_launched(w->b, tensor)) return true;    // its writer, if divided, follows it here
        w->kept[tensor->arg] = true;
        return !w->tile[tensor->arg].bytes;
    }
    if (is_launched(w->b, tensor)) {
        launch_tile tile = tile_along(w, s, t, d);
        return tile.bytes && follow_argument(w, s, t, d, tile);
    }
    if (!tensor->in_lx && w->b->args.items[tensor->arg].kind != BUNDLE_ARG_POOL) return false;
    return follow_kept_bytes(w, s, t, d);
}

// What is written is written in every round, each time further on.
static bool writes_larger_only(const way *w)
{
    for (uint32_t s = 0; s < w->b->steps.count; s++) {
        const bundle_step *step = &w->b->steps.items[s];
        const bundle_tensor *output = &step->tensors[step->output];
        if (is_launched(w->b, output) && !w->tile[output->arg].bytes) return false;
    }
    return true;
}

static bool find_way(way *w, uint32_t s, uint32_t d)
{
    for (uint32_t i = 0; i < w->b->steps.count; i++) w->divided[i] = WHOLE;
    memset(w->tile, 0, w->b->args.count * sizeof *w->tile);
    memset(w->kept, 0, w->b->args.count * sizeof *w->kept);
    w->waiting_count = 0;
    bool good = divide(w, s, d);
    for (uint32_t n = 0; good && n < w->waiting_count; n++) {
        uint32_t at = w->waiting[n];
        for (uint32_t t = 0; good && t < w->b->steps.items[at].tensor_count; t++)
            good = follow(w, at, t);
    }
    return good && writes_larger_only(w);
}

static bool is_known(const way *w, const launch_tile *tiles, uint32_t ways)
{
    size_t row = w->b->args.count;
    for (uint32_t n = 0; n < ways; n++)
        if (memcmp(&tiles[n * row], w->tile, row * sizeof *tiles) == 0) return true;
    return false;
}

static void find_ways(way *w, launch_tile *tiles, uint32_t *ways)
{
    size_t row = w->b->args.count;
    for (uint32_t s = 0; s < w->b->steps.count; s++) {
        const bundle_step *step = &w->b->steps.items[s];
        uint32_t t = step->output;
        if (!is_launched(w->b, &step->tensors[t])) continue;
        for (uint32_t d = 0; d < step->dim_count && *ways < SPYRECODE_MOST_WAYS; d++) {
            if (!tile_along(w, s, t, d).bytes || !find_way(w, s, d) || is_known(w, tiles, *ways))
                continue;
            memcpy(&tiles[*ways * row], w->tile, row * sizeof *tiles);
            ++*ways;
        }
    }
}

spyre_status tiled_launch_find(arena *memory, const bundle *b, const launch_tile **out_tiles,
                               uint32_t *out_ways)
{
    uint32_t steps = b->steps.count, arguments = b->args.count;
    const bundle_geometry *const *geometry;
    launch_tile *tiles = ARENA_NEW(memory, launch_tile, (size_t)SPYRECODE_MOST_WAYS * arguments);
    bool straight;
    TRY_ALLOC(tiles);
    *out_tiles = tiles;
    *out_ways = 0;
    TRY(tensor_span_geometry(memory, b, &geometry, &straight));
    way w = {.b = b, .geometry = geometry};
    TRY_NEW(memory, w.divided, steps);
    TRY_NEW(memory, w.tile, arguments);
    TRY_NEW(memory, w.kept, arguments);
    TRY_NEW(memory, w.waiting, steps);
    if (straight) find_ways(&w, tiles, out_ways);
    return NULL;
}
