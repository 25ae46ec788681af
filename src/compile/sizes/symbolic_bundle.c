// SPDX-License-Identifier: Apache-2.0
//
// A symbolic bundle from bundles of one graph. bundle_bind() leaves things at their offsets and
// moves slices within a tensor, and parts of larger tensors by `moves`. So the bundles must have
// the same steps on the same buffers, and sizes that differ where the dim is; where a buffer lies
// in LX or in the pool is then free, and where the larger ones had room, smaller ones have.
// Comparing addresses in LX instead would refuse nearly everything: places are packed anew for each
// size. Whether a part begins where one size says, or the other, or their product, shows in the
// bundle in which both are smaller.
#include <stdio.h>
#include <string.h>

#include "bundle/step_facts.h"
#include "compile/sizes/size_rules.h"

const char size_no_slices[] = "a granule has no slice for every core";
const char size_no_third[] = "a size is rounded up, or a multiple neither of the dim nor of its "
                            "square";
const char size_part_of_stick[] = "a granule is no whole number of sticks where the dim lies along "
                                  "them";

// --- Marks

// Else the rest of a stick is padding, which other sizes have not. A stick of several dims is of
// fixed ones.
static bool keeps_sticks(const bundle_step *step, uint32_t d, int64_t granule)
{
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        int64_t span = bundle_stick_span(tensor, d);
        if (tensor->scale[d] <= 0 || span == 1) continue;
        if (granule % span || tensor->digit_count) return false;
    }
    return true;
}

// Whether all tensors have the whole dim: code for an end that some lack is that of fixed sizes.
static spyre_status check_ends(const bundle *b, const bundle_step *step, const char **out_why)
{
    for (uint32_t t = 0; t < step->tensor_count && !*out_why; t++) {
        bundle_geometry geometry;
        TRY(bundle_tensor_geometry(b, step, t, &geometry));
        for (uint32_t d = 0; d < step->dim_count; d++)
            if (step->symbol[d] && geometry.moves[d] && geometry.valid[d] != step->size[d] &&
                step->tensors[t].index_kind != BUNDLE_INDEX_VALUE)
                *out_why = size_part_of_stick;
    }
    return NULL;
}

// Whether a granule, and so every size, has a slice for every core, and for those that hold the
// input of a shuffle, of whole sticks.
static bool keeps_slices(const bundle_step *step, uint32_t d, int64_t granule)
{
    int64_t slices = step->cores->slices[d];
    if (granule % slices || step->size[d] % slices) return false;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        if (tensor->scale[d] <= 0) continue;
        int64_t span = bundle_stick_span(tensor, d);
        int64_t owners = tensor->owners ? tensor->owners->slices[d] : slices;
        if (granule % (slices * span) || granule % (owners * span) ||
            step->size[d] % (owners * span))
            return false;
    }
    return true;
}

// By how much a number is smaller for each granule that the dim is, as the smaller one shows; 0
// where that is no whole number, or nothing.
static int64_t step_of(int64_t most, int64_t next, const spyre_size_span *span)
{
    int64_t granules = (span->most - span->size) / span->granule;
    return (most - next) % granules ? 0 : (most - next) / granules;
}

// Room for the other parts of a concatenation, in LX for those of a core.
static bool mark_gaps(bundle_step *step, const bundle_step *next, uint32_t number,
                      const spyre_size_span *span)
{
    for (uint32_t t = 0; t < step->tensor_count; t++)
        for (uint32_t d = 0; d < step->dim_count; d++) {
            bundle_tensor *tensor = &step->tensors[t];
            int64_t gap = tensor->gap[d], smaller = next->tensors[t].gap[d];
            if (gap == smaller) continue;
            tensor->gap_step[d] = step_of(gap, smaller, span);
            if (tensor->gap_symbol[d] || !tensor->gap_step[d]) return false;
            tensor->gap_symbol[d] = (uint8_t)(number + 1);
        }
    return true;
}

// Gives dim `d` of the step symbol `number`; null, or what speaks against it.
static const char *mark_dim(bundle_step *step, const bundle_step *next, uint32_t d,
                            uint32_t number, const spyre_size_span *span)
{
    int64_t size = step->size[d], each = step_of(size, next->size[d], span);
    if (step->symbol[d] || each < 1)
        return "a loop covers the dim together with others, or with padding";
    if (size - each * (span->most / span->granule - 1) < 1)
        return "a loop is empty where the dim is a granule";
    if (!keeps_sticks(step, d, each)) return size_part_of_stick;
    if (!keeps_slices(step, d, each)) return size_no_slices;
    for (uint32_t m = 0; m < step->mask_count; m++)
        if (step->masks[m].dim == d) return "the dim is masked";
    step->symbol[d] = (uint8_t)(number + 1);
    step->symbol_size[d] = (bundle_symbol_size){size, each};
    if (d == step->tensors[step->output].stick_dim) step->live_lanes = 0; // which follow it
    return NULL;
}

// Gives the step symbol `number`; null, or what speaks against it.
static const char *mark(bundle_step *step, const bundle_step *next, uint32_t number,
                        const spyre_size_span *span)
{
    const char *why = NULL;
    for (uint32_t d = 0; d < step->dim_count && !why; d++)
        if (step->size[d] != next->size[d]) why = mark_dim(step, next, d, number, span);
    if (why) return why;
    if (!mark_gaps(step, next, number, span))
        return "room between parts of a tensor follows no size";
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (step->symbol[d] && (step->window_count || step->cores->slice_size[d]))
            return "windows or uneven slices";
    return NULL;
}

// Whether a size or a gap is no multiple of its symbol, so that two sizes do not prove its rule.
static bool has_sums(const bundle_step *step, const size_rules *rules)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        const spyre_size_span *span = &rules->spans[step->symbol[d] ? step->symbol[d] - 1 : 0];
        const int64_t granules = span->most / span->granule;
        if (step->symbol[d] && step->symbol_size[d].step * granules != step->size[d]) return true;
        for (uint32_t t = 0; t < step->tensor_count; t++) {
            const bundle_tensor *tensor = &step->tensors[t];
            if (!tensor->gap_symbol[d]) continue;
            span = &rules->spans[tensor->gap_symbol[d] - 1];
            if (tensor->gap_step[d] * (span->most / span->granule) != tensor->gap[d]) return true;
        }
    }
    return false;
}

// The first loop of the step that has no symbol though it differs.
static void tell_place(const size_rules *rules, const bundle_step *step, const bundle_step *next)
{
    uint32_t d = 0;
    while (d < step->dim_count && (step->symbol[d] || step->size[d] == next->size[d])) d++;
    if (d == step->dim_count)
        snprintf(rules->place, SIZE_PLACE_BYTES, "step %s: ", step->name);
    else
        snprintf(rules->place, SIZE_PLACE_BYTES, "step %s, loop %s of %lld and %lld: ", step->name,
                 step->dim_name[d], (long long)step->size[d], (long long)next->size[d]);
}

static spyre_status mark_steps(const size_rules *rules, bundle *b,
                               const executable_segment *const *smaller, const char **out_why)
{
    const bundle_step *from = b->steps.items;
    TRY_NEW(rules->memory, b->steps.items, b->steps.count);
    for (uint32_t s = 0; s < b->steps.count && !*out_why; s++) {
        bundle_step *step = &b->steps.items[s];
        *step = from[s];
        TRY_NEW(rules->memory, step->tensors, step->tensor_count);
        memcpy(step->tensors, from[s].tensors, step->tensor_count * sizeof *step->tensors);
        TRY_NEW(rules->memory, step->symbol_size, BUNDLE_MAX_DIMS);
        for (uint32_t t = 0; t < step->tensor_count; t++)
            TRY_NEW(rules->memory, step->tensors[t].gap_step, BUNDLE_MAX_DIMS);
        for (uint32_t k = 0; k < rules->count && !*out_why; k++) {
            const bundle_step *next = &smaller[k]->front.bundle->steps.items[s];
            *out_why = mark(step, next, k, &rules->spans[k]);
            if (*out_why) tell_place(rules, step, next);
        }
        if (!*out_why && !rules->has_least && has_sums(step, rules)) *out_why = size_no_third;
        if (!*out_why) TRY(check_ends(b, step, out_why));
        if (*out_why && !rules->place[0])
            tell_place(rules, step, &smaller[0]->front.bundle->steps.items[s]);
    }
    return NULL;
}

// --- Starts: what binding makes of the bundle at smaller sizes lies where these have it, whole
// buffers in LX and the pool moved. A part of a buffer may begin where a size, or the product of
// two, says (cat): it moves within the buffer.

typedef struct {
    const size_rules *rules;
    bundle *b;
    const bundle *bound[SIZE_MOST_SMALLER];             // b at the sizes of the smaller ones
    const executable_segment *largest, *const *smaller;
    const char *why;
} placement;

static bool is_movable(const placement *p, const bundle_tensor *tensor)
{
    return tensor->in_lx || p->b->args.items[tensor->arg].kind == BUNDLE_ARG_POOL;
}

// How far the tensor lies from where smaller executable `number` has it, alike on all cores.
static int64_t distance(placement *p, uint32_t number, uint32_t step, uint32_t t)
{
    const bundle_tensor *mine = &p->bound[number]->steps.items[step].tensors[t];
    const bundle *next = p->smaller[number]->front.bundle;
    const bundle_tensor *its = &next->steps.items[step].tensors[t];
    int64_t moved = mine->start - its->start;
    for (uint32_t core = 1; core < p->b->steps.items[step].cores->core_count; core++)
        if (bundle_start(mine, core) - bundle_start(its, core) != moved)
            p->why = "cores have other parts of a tensor at another size";
    uint32_t buffer = p->largest->front.loops->ops.items[step].operand[t].buffer;
    if (is_movable(p, &p->b->steps.items[step].tensors[t]))
        moved -= p->largest->front.loops->buffers.items[buffer].memory_offset -
                 p->smaller[number]->front.loops->buffers.items[buffer].memory_offset;
    return moved;
}

static bool same_offset(const placement *p, uint32_t number, uint32_t s, uint32_t t)
{
    return p->largest->front.loops->ops.items[s].operand[t].offset ==
           p->smaller[number]->front.loops->ops.items[s].operand[t].offset;
}

// Only what is as many times as long as the size is long moves in equal steps.
static bool has_size_once(const placement *p, uint32_t number, uint32_t buffer)
{
    const loop_buffer *a = &p->largest->front.loops->buffers.items[buffer];
    const loop_buffer *b = &p->smaller[number]->front.loops->buffers.items[buffer];
    uint32_t dims = 0;
    for (uint32_t d = 0; d < a->dim_count; d++) dims += a->dim[d].extent != b->dim[d].extent;
    return dims <= 1;
}

static spyre_status add_move(placement *p, uint32_t s, uint32_t t, uint32_t symbols, int64_t bytes,
                             int64_t granules)
{
    if (bytes % granules) p->why = "a part of a tensor begins where no granule of a size says";
    const bundle_move move = {.step = s, .tensor = t, .symbols = symbols,
                              .bytes = bytes / granules};
    return bytes ? VEC_PUSH(p->rules->memory, &p->b->moves, move) : NULL;
}

// moved[n]: as distance() says. Of two dims a start is a + b n + c m + d n m in granules n and m;
// with N and M the largest and k and l how many of them are missing, moved[0] is k (b + d M),
// moved[1] l (c + d N) and moved[2] moved[0] + moved[1] - k l d.
static spyre_status add_moves(placement *p, uint32_t s, uint32_t t, const int64_t *moved)
{
    const size_rules *rules = p->rules;
    int64_t most[SPYRE_MOST_SIZES], less[SPYRE_MOST_SIZES], product = 0;
    for (uint32_t k = 0; k < rules->count; k++) {
        most[k] = rules->spans[k].most / rules->spans[k].granule;
        less[k] = most[k] - rules->spans[k].size / rules->spans[k].granule;
    }
    if (rules->count > 1) {
        int64_t bytes = moved[0] + moved[1] - moved[2];
        TRY(add_move(p, s, t, 3, bytes, less[0] * less[1]));
        product = bytes / (less[0] * less[1]);
    }
    for (uint32_t k = 0; k < rules->count; k++) {
        int64_t other = rules->count > 1 ? most[1 - k] : 0;
        TRY(add_move(p, s, t, 1u << k, moved[k] - product * other * less[k], less[k]));
    }
    return NULL;
}

static spyre_status place_tensor(placement *p, uint32_t s, uint32_t t)
{
    const bundle_tensor *tensor = &p->b->steps.items[s].tensors[t];
    uint32_t buffer = p->largest->front.loops->ops.items[s].operand[t].buffer;
    int64_t moved[SIZE_MOST_SMALLER];
    bool still = true, once = true;
    for (uint32_t n = 0; n < size_corner_count(p->rules); n++) {
        moved[n] = distance(p, n, s, t);
        still = still && moved[n] == 0 && same_offset(p, n, s, t);
        once = once && (n == p->rules->count || has_size_once(p, n, buffer));
    }
    if (p->why || still) return NULL;
    if (once && (tensor->in_lx || p->b->args.items[tensor->arg].kind != BUNDLE_ARG_CONSTANTS))
        return add_moves(p, s, t, moved);
    p->why = "a part of a tensor begins where the square of a size says";
    return NULL;
}

static spyre_status bind_smaller(placement *p)
{
    for (uint32_t n = 0; n < size_smaller_count(p->rules); n++) {
        int64_t sizes[SPYRE_MOST_SIZES];
        bundle *bound;
        size_smaller_sizes(p->rules, n, sizes);
        TRY(bundle_bind(p->rules->memory, p->b, sizes, &bound));
        p->bound[n] = bound;
    }
    return NULL;
}

static bool same_sizes(const bundle_step *a, const bundle_step *b)
{
    bool same = memcmp(a->size, b->size, sizeof a->size) == 0 &&
                (a->mask_count == 0 ||
                 memcmp(a->masks, b->masks, a->mask_count * sizeof *a->masks) == 0);
    for (uint32_t t = 0; same && t < a->tensor_count; t++)
        same = memcmp(a->tensors[t].gap, b->tensors[t].gap, sizeof a->tensors[t].gap) == 0;
    return same;
}

// Whether binding makes of the bundle what the smaller ones are.
static void check_bound(placement *p, uint32_t number)
{
    const bundle *next = p->smaller[number]->front.bundle;
    for (uint32_t s = 0; s < p->b->steps.count && !p->why; s++) {
        const bundle_step *mine = &p->bound[number]->steps.items[s];
        if (!same_sizes(mine, &next->steps.items[s]))
            p->why = "a loop covers the dim together with others, or with padding";
        for (uint32_t t = 0; t < mine->tensor_count && !p->why; t++)
            if (distance(p, number, s, t) && !p->why)
                p->why = "a part of a tensor begins where no sum of sizes says";
    }
}

static spyre_status place_steps(const size_rules *rules, bundle *b,
                                const executable_segment *largest,
                                const executable_segment *const *smaller, const char **out_why)
{
    placement p = {.rules = rules, .b = b, .largest = largest, .smaller = smaller};
    TRY(bind_smaller(&p));
    for (uint32_t s = 0; s < b->steps.count && !p.why; s++)
        for (uint32_t t = 0; t < b->steps.items[s].tensor_count; t++) TRY(place_tensor(&p, s, t));
    if (!p.why) TRY(bind_smaller(&p));
    for (uint32_t n = 0; n < size_smaller_count(rules) && !p.why; n++) check_bound(&p, n);
    *out_why = p.why;
    return NULL;
}

spyre_status size_symbolic_bundle(const size_rules *rules, const executable_segment *largest,
                                  const executable_segment *const *smaller, bundle **out_bundle,
                                  const char **out_why)
{
    bundle *b = ARENA_NEW(rules->memory, bundle, 1);
    TRY_ALLOC(b);
    *b = *largest->front.bundle;
    b->memory = rules->memory;
    for (uint32_t k = 0; k < rules->count; k++) {
        bundle_symbol symbol = {.granularity = rules->spans[k].granule,
                                .most = rules->spans[k].most};
        snprintf(symbol.name, sizeof symbol.name, "s%u", k);
        TRY(VEC_PUSH(rules->memory, &b->symbols, symbol));
    }
    // What is bound at a launch has the bytes of its size there.
    const bundle_arg *arguments = b->args.items;
    TRY_NEW(rules->memory, b->args.items, b->args.count);
    for (uint32_t a = 0; a < b->args.count; a++) {
        b->args.items[a] = arguments[a];
        for (uint32_t k = 0; k < rules->count; k++)
            if (arguments[a].bytes != smaller[k]->front.bundle->args.items[a].bytes &&
                arguments[a].kind == BUNDLE_ARG_TENSOR)
                b->args.items[a].bytes = 0;
    }
    TRY(mark_steps(rules, b, smaller, out_why));
    if (!*out_why) TRY(place_steps(rules, b, largest, smaller, out_why));
    *out_bundle = b;
    return NULL;
}
