// SPDX-License-Identifier: Apache-2.0
//
// boundary_clones: what enters or leaves the graph lives in memory, so every reader of it goes there.
// An input that several accesses read alike is copied once, by an op of its own, into a buffer that
// may live in LX; a result that leaves the graph and is read in it too is made in such a buffer, and
// a copy of it leaves. Whether LX has room for a clone is known only when all of LX is planned, so
// the plan is made on trial: clones without a place go, and the rest stays when the graph takes less
// time with them than without any.
#include "front/cost.h"
#include "front/flow.h"
#include "front/front.h"
#include "front/whole_copy.h"

enum { MOST_TRIALS = 3 };

// One copy: from `original`, an input, or to it, an output.
typedef struct {
    uint32_t original, buffer; // `buffer` after insertion
    uint32_t op;               // the copy goes before this one, or, of an output, behind it
} clone;

typedef VEC(clone) clone_list;

// --- Candidates

static division_view view_of(const loop_graph *loops, uint32_t op, uint32_t operand)
{
    const loop_op *o = &loops->ops.items[op];
    division_sizes sizes = division_sizes_of(loops, o);
    division d = division_get(o);
    return division_view_of(loops, o, &sizes, &d, operand);
}

// True when all reads of the buffer see the slices of `first`, outside of counted loops.
static bool reads_agree(const loop_graph *loops, const flow *f, uint32_t buffer,
                        const division_view *first)
{
    for (uint32_t u = f->first_use[buffer]; u < f->first_use[buffer + 1]; u++) {
        const flow_use *use = &f->uses[u];
        const loop_op *op = &loops->ops.items[use->op];
        if (op->tile_depth || loop_is_table(op, &op->operand[use->operand])) return false;
        division_view read = view_of(loops, use->op, use->operand);
        if (!division_views_agree(first, &read)) return false;
    }
    return true;
}

// The access whose division a copy of the buffer takes over; false when it can have no clone.
static bool find_candidate(const loop_graph *loops, const flow *f, uint32_t id, flow_use *out)
{
    const loop_buffer *b = &loops->buffers.items[id];
    uint32_t uses = flow_use_count(f, id);
    if (!b->has_layout || b->exx2 || b->dim_count == 0 || b->dim_count > LOOP_MAX_VARS)
        return false;
    if (b->kind == LOOP_INPUT && uses >= 2)
        *out = f->uses[f->first_use[id]];
    else if (b->kind == LOOP_LOCAL && b->output >= 0 && uses >= 1 && flow_is_written_once(f, id))
        *out = (flow_use){f->writer[id], loops->ops.items[f->writer[id]].operand_count - 1};
    else
        return false;
    if (b->walked || loops->ops.items[out->op].tile_depth) return false; // a copy breaks the loop
    division_view first = view_of(loops, out->op, out->operand);
    return !loops->ops.items[out->op].tile_depth && first.apart && reads_agree(loops, f, id, &first);
}

// --- The copy

static bool describe_copy(const loop_graph *loops, const flow_use *like, uint32_t source,
                          uint32_t target, loop_op *out)
{
    const loop_op *near = &loops->ops.items[like->op];
    return whole_copy_describe(loops, OPFUNC_IDENTITY, near, &near->operand[like->operand], source,
                               target, out);
}

static spyre_status make_copies(loop_graph *loops, clone_list *clones, loop_op *copies)
{
    flow f;
    TRY(flow_build(loops, &f));
    for (uint32_t n = 0; n < clones->count; n++) {
        clone *c = &clones->items[n];
        flow_use like;
        bool leaves = loops->buffers.items[c->original].output >= 0;
        TRY(whole_copy_target(loops, c->original, &c->buffer));
        if (!find_candidate(loops, &f, c->original, &like) ||
            !describe_copy(loops, &like, leaves ? c->buffer : c->original,
                           leaves ? c->original : c->buffer, &copies[n]))
            return status_new(SPYRE_INTERNAL, "b%u cannot be cloned any more", c->original);
    }
    return NULL;
}

// The op with clones for originals, and the copies that belong beside it.
static spyre_status append(loop_graph *loops, uint32_t index, const clone_list *clones,
                           const uint32_t *clone_of, const loop_op *copies, loop_op_list *out)
{
    loop_op op = loops->ops.items[index];
    const loop_op *behind = NULL;
    for (uint32_t k = 0; k < op.operand_count; k++) {
        uint32_t n = clone_of[op.operand[k].buffer];
        if (n == SPYRE_NO_ID) continue;
        bool leaves = copies[n].operand[1].buffer == clones->items[n].original;
        bool known = false;
        for (uint32_t j = 0; j < k; j++)
            known |= op.operand[j].buffer == clones->items[n].buffer;
        op.operand[k].buffer = clones->items[n].buffer;
        if (clones->items[n].op != index || known) continue;
        if (leaves)
            behind = &copies[n];
        else
            TRY(VEC_PUSH(loops->memory, out, copies[n]));
    }
    TRY(VEC_PUSH(loops->memory, out, op));
    return behind ? VEC_PUSH(loops->memory, out, *behind) : NULL;
}

// Puts the copies between the ops.
static spyre_status insert(loop_graph *loops, clone_list *clones)
{
    uint32_t buffers = loops->buffers.count, *clone_of = ARENA_NEW(loops->memory, uint32_t, buffers);
    loop_op *copies = ARENA_NEW(loops->memory, loop_op, clones->count);
    loop_op_list ops = {0};
    TRY_ALLOC(copies);
    TRY_ALLOC(clone_of);
    for (uint32_t b = 0; b < buffers; b++) clone_of[b] = SPYRE_NO_ID;
    for (uint32_t n = 0; n < clones->count; n++) clone_of[clones->items[n].original] = n;
    TRY(make_copies(loops, clones, copies));
    for (uint32_t i = 0; i < loops->ops.count; i++)
        TRY(append(loops, i, clones, clone_of, copies, &ops));
    loops->ops = ops;
    return NULL;
}

static spyre_status find_clones(const loop_graph *loops, clone_list *out)
{
    flow f;
    TRY(flow_build(loops, &f));
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        flow_use like;
        loop_op copy;
        if (!find_candidate(loops, &f, b, &like)) continue;
        if (!describe_copy(loops, &like, b, b, &copy)) continue;
        clone c = {.original = b, .op = like.op};
        TRY(VEC_PUSH(loops->memory, out, c));
    }
    return NULL;
}

// --- Trials

static spyre_status plan(const loop_graph *loops, clone_list *clones, arena *scratch,
                         loop_graph *out, double *out_us)
{
    bool changed;
    TRY(loop_copy(loops, scratch, out));
    TRY(insert(out, clones));
    TRY(pass_lx_planning(out, &changed));
    *out_us = cost_of_graph(out);
    return NULL;
}

// Keeps those that LX has room for; true when all were.
static bool keep_placed(const loop_graph *planned, clone_list *clones)
{
    uint32_t kept = 0, count = clones->count;
    for (uint32_t n = 0; n < count; n++)
        if (planned->buffers.items[clones->items[n].buffer].in_lx)
            clones->items[kept++] = clones->items[n];
    clones->count = kept;
    return kept == count;
}

static spyre_status choose(const loop_graph *loops, clone_list *clones, arena *scratch)
{
    loop_graph trial;
    clone_list none = {0};
    double without, with = 0;
    bool settled = false;
    TRY(plan(loops, &none, scratch, &trial, &without));
    for (uint32_t n = 0; n < MOST_TRIALS && clones->count && !settled; n++) {
        TRY(plan(loops, clones, scratch, &trial, &with));
        settled = keep_placed(&trial, clones);
    }
    if (!settled || with >= without) clones->count = 0;
    return NULL;
}

spyre_status pass_boundary_clones(loop_graph *loops, bool *out_changed)
{
    clone_list clones = {0};
    *out_changed = false;
    if (!loops->settings.lx_boundary_clones || !loops->settings.lx_planning) return NULL;
    TRY(find_clones(loops, &clones));
    if (clones.count == 0) return NULL;
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = choose(loops, &clones, scratch);
    arena_destroy(scratch);
    TRY(status);
    if (clones.count == 0) return NULL;
    *out_changed = true;
    return insert(loops, &clones);
}
