// SPDX-License-Identifier: Apache-2.0
//
// A symbolic bundle from two bundles of one graph. bundle_bind() leaves things at their offsets and
// moves slices within a tensor, and parts of larger tensors by `moves`. So the two must have the
// same steps on the same buffers, and sizes that differ where the dim is; where a buffer lies in LX
// or in the pool is then free, and where the larger ones had room, smaller ones have. Comparing
// addresses in LX instead would refuse nearly everything: places are packed anew for each size.
#include <string.h>

#include "compile/size_rules.h"

// --- The loop IR: the same ops on the same buffers

static bool same_op(const loop_op *a, const loop_op *b)
{
    bool same = a->op == b->op && a->operand_count == b->operand_count && !a->tile_depth &&
                !b->tile_depth && a->table == b->table && a->adds == b->adds &&
                a->row_count == b->row_count &&
                memcmp(a->parameter, b->parameter, sizeof a->parameter) == 0;
    for (uint32_t o = 0; same && o < a->operand_count; o++)
        same = a->operand[o].buffer == b->operand[o].buffer;
    return same;
}

static bool same_buffer(const loop_buffer *a, const loop_buffer *b)
{
    bool same = a->kind == b->kind && a->index == b->index && a->in_lx == b->in_lx &&
                a->output == b->output && a->format == b->format && a->dim_count == b->dim_count &&
                memcmp(&a->value, &b->value, sizeof a->value) == 0 && a->scalar == b->scalar;
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

// Where a tensor lies may differ, which a comparison of starts judges.
static bool same_tensor(const bundle_tensor *a, const bundle_tensor *b)
{
    bundle_tensor other = *b;
    memcpy(other.start, a->start, sizeof other.start);
    other.owners = a->owners;
    bool owners = !a->owners == !b->owners &&
                  (!a->owners || memcmp(a->owners, b->owners, sizeof *a->owners) == 0);
    return owners && memcmp(a, &other, sizeof other) == 0;
}

static bool same_step(const bundle_step *a, const bundle_step *b)
{
    bundle_step other = *b;
    other.name = a->name;
    other.location = a->location;
    other.tensors = a->tensors;
    other.cores = a->cores;
    memcpy(other.size, a->size, sizeof other.size);
    bool same = memcmp(a, &other, sizeof other) == 0 &&
                memcmp(a->cores, b->cores, sizeof *a->cores) == 0;
    for (uint32_t t = 0; same && t < a->tensor_count; t++)
        same = same_tensor(&a->tensors[t], &b->tensors[t]);
    return same;
}

// Gives the step its symbols; null, or what speaks against one.
static const char *mark(bundle_step *step, const bundle_step *next, int64_t granule, int64_t size,
                        int64_t most)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (step->size[d] == next->size[d]) continue;
        if (step->size[d] != most || next->size[d] != size)
            return "a loop covers the dim together with others, or with padding";
        if (granule % step->cores->slices[d]) return "a granule has no slice for every core";
        for (uint32_t m = 0; m < step->mask_count; m++)
            if (step->masks[m].dim == d) return "the dim is masked";
        step->symbol[d] = 1;
    }
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (step->symbol[d] && (step->window_count || step->slice_size[d]))
            return "windows or uneven slices";
    return NULL;
}

static spyre_status mark_steps(arena *memory, bundle *b, const bundle *next, int64_t size,
                               const char **out_why)
{
    const bundle_step *from = b->steps.items;
    const bundle_symbol *symbol = &b->symbols.items[0];
    TRY_NEW(memory, b->steps.items, b->steps.count);
    for (uint32_t s = 0; s < b->steps.count && !*out_why; s++) {
        b->steps.items[s] = from[s];
        *out_why = mark(&b->steps.items[s], &next->steps.items[s], symbol->granularity, size,
                        symbol->most);
    }
    return NULL;
}

// --- Starts: what binding makes of the bundle at the smaller size lies where `next` has it, whole
// buffers in LX and the pool moved. A part of a buffer may begin where the size says (cat): it
// moves within the buffer.

typedef struct {
    arena *memory;
    bundle *b;
    const bundle *bound, *next;         // b and its steps at the smaller size
    int64_t granules;                   // how many it is smaller
    const loop_graph *loops, *next_loops;
    const char *why;
} placement;

static bool is_movable(const placement *p, const bundle_tensor *tensor)
{
    return tensor->in_lx || p->b->args.items[tensor->arg].kind == BUNDLE_ARG_POOL;
}

// How far the tensor lies from where `next` has it, alike on all cores.
static int64_t distance(placement *p, uint32_t step, uint32_t t)
{
    const bundle_tensor *mine = &p->bound->steps.items[step].tensors[t];
    const bundle_tensor *its = &p->next->steps.items[step].tensors[t];
    int64_t moved = mine->start[0] - its->start[0];
    for (uint32_t core = 1; core < p->b->steps.items[step].cores->core_count; core++)
        if (mine->start[core] - its->start[core] != moved)
            p->why = "cores have other parts of a tensor at another size";
    return moved;
}

// Only what is as many times as long as the size is long moves in equal steps.
static bool has_size_once(const placement *p, uint32_t buffer)
{
    const loop_buffer *a = &p->loops->buffers.items[buffer];
    const loop_buffer *b = &p->next_loops->buffers.items[buffer];
    uint32_t dims = 0;
    for (uint32_t d = 0; d < a->dim_count; d++) dims += a->dim[d].extent != b->dim[d].extent;
    return dims <= 1;
}

static spyre_status place_tensor(placement *p, uint32_t s, uint32_t t)
{
    const bundle_tensor *tensor = &p->b->steps.items[s].tensors[t];
    const loop_access *access = &p->loops->ops.items[s].operand[t];
    uint32_t buffer = access->buffer;
    bool same = access->offset == p->next_loops->ops.items[s].operand[t].offset;
    int64_t bytes = distance(p, s, t);
    if (is_movable(p, tensor))
        bytes -= p->loops->buffers.items[buffer].memory_offset -
                 p->next_loops->buffers.items[buffer].memory_offset;
    if (p->why || (bytes == 0 && same)) return NULL;
    if (!has_size_once(p, buffer) || bytes % p->granules ||
        (!tensor->in_lx && p->b->args.items[tensor->arg].kind == BUNDLE_ARG_CONSTANTS)) {
        p->why = "a part of a tensor begins where the square of a size says";
        return NULL;
    }
    const bundle_move move = {.step = s, .tensor = t, .bytes = bytes / p->granules};
    return VEC_PUSH(p->memory, &p->b->moves, move);
}

static spyre_status place_steps(arena *memory, bundle *b, const executable_segment *largest,
                                const executable_segment *next, int64_t value,
                                const char **out_why)
{
    bundle *bound;
    placement p = {.memory = memory, .b = b, .next = next->front.bundle,
                   .loops = largest->front.loops, .next_loops = next->front.loops};
    TRY(bundle_bind(memory, b, &value, &bound));
    p.bound = bound;
    p.granules = (b->symbols.items[0].most - value) / b->symbols.items[0].granularity;
    for (uint32_t s = 0; s < b->steps.count && !p.why; s++)
        for (uint32_t t = 0; t < b->steps.items[s].tensor_count; t++) TRY(place_tensor(&p, s, t));
    *out_why = p.why;
    return NULL;
}

static bool same_arguments(const bundle *a, const bundle *b)
{
    bool same = a->args.count == b->args.count && a->constants_bytes == b->constants_bytes &&
                memcmp(a->constants, b->constants, (size_t)a->constants_bytes) == 0;
    for (uint32_t k = 0; same && k < a->args.count; k++)
        same = a->args.items[k].kind == b->args.items[k].kind;
    return same;
}

const char size_other_plan[] = "plans of two sizes differ in more than sizes, or have loops over "
                               "tiles";

const char *size_compare_plans(const executable_segment *largest, const executable_segment *next)
{
    const bundle *a = largest->front.bundle, *b = next->front.bundle;
    bool same = a->steps.count == b->steps.count && same_arguments(a, b) &&
                a->steps.count == largest->front.loops->ops.count;
    for (uint32_t s = 0; same && s < a->steps.count; s++)
        same = same_step(&a->steps.items[s], &b->steps.items[s]);
    return same && same_loops(largest->front.loops, next->front.loops) ? NULL : size_other_plan;
}

spyre_status size_symbolic_bundle(arena *memory, const executable_segment *largest,
                                  const executable_segment *next, int64_t granule, int64_t size,
                                  int64_t most, bundle **out_bundle, const char **out_why)
{
    bundle *b = ARENA_NEW(memory, bundle, 1);
    TRY_ALLOC(b);
    *b = *largest->front.bundle;
    b->memory = memory;
    const bundle_symbol symbol = {.name = "s0", .granularity = granule, .most = most};
    TRY(VEC_PUSH(memory, &b->symbols, symbol));
    // What is bound at a launch has the bytes of its size there.
    const bundle_arg *arguments = b->args.items;
    TRY_NEW(memory, b->args.items, b->args.count);
    for (uint32_t k = 0; k < b->args.count; k++) {
        b->args.items[k] = arguments[k];
        if (arguments[k].bytes != next->front.bundle->args.items[k].bytes &&
            arguments[k].kind == BUNDLE_ARG_TENSOR)
            b->args.items[k].bytes = 0;
    }
    TRY(mark_steps(memory, b, next->front.bundle, size, out_why));
    if (!*out_why) TRY(place_steps(memory, b, largest, next, size, out_why));
    *out_bundle = b;
    return NULL;
}
