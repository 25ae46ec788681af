// SPDX-License-Identifier: Apache-2.0
//
// lx_relayout: where readers divide a buffer in another way than its writer, a shuffle sends it
// over the ring, from LX to LX, to the cores that need it. Readers that want the same share one.
// Without it such a buffer goes through memory once for its writer and once for each reader. The
// ring is cheaper a byte, but both forms of the buffer take LX while it is shuffled, and when LX is
// short something else has to leave; so LX is planned on trial with all shuffles that save traffic,
// those without a place for both forms go, and the rest stays when the graph takes less time than
// without any; if it does not, the half that saves least goes, and so on.
#include "front/memory/lx_relayout.h"

#include <stdlib.h>

#include "front/cost/cost.h"
#include "front/cost/cost_shuffle.h"
#include "front/front.h"
#include "front/ir/flow.h"
#include "front/ir/rename.h"
#include "front/ir/residency.h"
#include "front/memory/whole_copy.h"
#include "isa/constants.h"

enum { MOST_TRIALS = 8, MOST_COPIES = 4, MOST_SHUFFLE_LOOPS = 7 };

// One form of a buffer that some readers want.
typedef struct {
    uint32_t source;     // candidate
    residency_view view; // what its readers see
    loop_op copy;        // its target is known after insertion
    bool inserted;
    uint32_t target;
} move;

typedef struct {
    uint32_t buffer, first_move, move_count;
    double gain_us; // as if all else were in memory
    bool kept;
} candidate;

typedef struct {
    flow f;
    VEC(candidate) candidates;
    VEC(move) moves;
    uint32_t *move_of; // by use of the flow, or SPYRE_NO_ID
    uint32_t *use_at;  // by op and operand: the use of the flow
} relayout;

// --- Candidates

bool lx_relayout_may_move(const loop_graph *loops, const flow *f, uint32_t id)
{
    const loop_buffer *b = &loops->buffers.items[id];
    return b->kind == LOOP_LOCAL && b->output < 0 && b->has_layout && !b->exx2 && b->dim_count &&
           flow_is_written_once(f, id) && loops->ops.items[f->writer[id]].tile_depth == 0;
}

// The move among the candidate's that serves a reader, or a new one; false when there is none.
static bool find_move(const loop_graph *loops, relayout *r, const candidate *c,
                      const residency_view *view, const flow_use *use, uint32_t *out,
                      spyre_status *status)
{
    const loop_buffer *b = &loops->buffers.items[c->buffer];
    for (*out = c->first_move; *out < r->moves.count; ++*out)
        if (residency_serves(b, &r->moves.items[*out].view, view)) return true;
    if (r->moves.count - c->first_move == MOST_COPIES) return false;
    move m = {.source = r->candidates.count, .view = *view};
    const loop_op *reader = &loops->ops.items[use->op];
    if (!whole_copy_describe(loops, OPFUNC_SHUFFLE, reader, &reader->operand[use->operand],
                             c->buffer, c->buffer, &m.copy))
        return false;
    if (m.copy.var_count > MOST_SHUFFLE_LOOPS) return false; // one dim is left for emission
    *status = VEC_PUSH(loops->memory, &r->moves, m);
    return !*status;
}

// Finds what the readers of the buffer want; false when some of them needs it in memory.
static bool add_moves(const loop_graph *loops, relayout *r, candidate *c, spyre_status *status)
{
    const loop_buffer *b = &loops->buffers.items[c->buffer];
    residency_view written = residency_written(loops, &loops->ops.items[r->f.writer[c->buffer]]);
    if (written.why || !residency_has_slices(b, &written, false)) return false;
    for (uint32_t u = r->f.first_use[c->buffer]; u < r->f.first_use[c->buffer + 1]; u++) {
        const flow_use *use = &r->f.uses[u];
        const loop_op *op = &loops->ops.items[use->op];
        const loop_access *access = &op->operand[use->operand];
        residency_view read = residency_view_of(loops, op, access);
        if (op->tile_depth || loop_is_table(op, access) || read.why) return false;
        if (residency_serves(b, &written, &read)) continue;
        if (!find_move(loops, r, c, &read, use, &r->move_of[u], status)) return false;
    }
    c->move_count = r->moves.count - c->first_move;
    return c->move_count > 0;
}

// Traffic that LX saves, less what the shuffles take.
static double gain_of(const loop_graph *loops, const relayout *r, const candidate *c)
{
    const loop_op *writer = &loops->ops.items[r->f.writer[c->buffer]];
    cost_basis basis = cost_basis_of(loops, writer);
    double bytes = basis.bytes[writer->operand_count - 1];
    double saved = (1 + flow_use_count(&r->f, c->buffer)) * bytes / MEMORY_BANDWIDTH;
    for (uint32_t m = 0; m < c->move_count; m++) {
        const loop_op *copy = &r->moves.items[c->first_move + m].copy;
        shuffle_division source = shuffle_source(loops, copy);
        shuffle_cost price = shuffle_cost_of(copy, &source, bytes);
        saved -= price.messages > SHUFFLE_MOST_MESSAGES ? saved : price.us;
    }
    return saved;
}

static spyre_status find_candidates(const loop_graph *loops, relayout *r)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        spyre_status status = NULL;
        candidate c = {.buffer = b, .first_move = r->moves.count, .kept = true};
        if (!lx_relayout_may_move(loops, &r->f, b)) continue;
        bool found = add_moves(loops, r, &c, &status);
        TRY(status);
        if (found) c.gain_us = gain_of(loops, r, &c);
        if (found && c.gain_us > 0) {
            TRY(VEC_PUSH(loops->memory, &r->candidates, c));
            continue;
        }
        r->moves.count = c.first_move;
        for (uint32_t u = r->f.first_use[b]; u < r->f.first_use[b + 1]; u++)
            r->move_of[u] = SPYRE_NO_ID;
    }
    return NULL;
}

static spyre_status begin(const loop_graph *loops, relayout *r)
{
    TRY(flow_build(loops, &r->f));
    uint32_t uses = r->f.first_use[loops->buffers.count];
    r->move_of = ARENA_NEW(loop_scratch(loops), uint32_t, uses);
    r->use_at = ARENA_NEW(loop_scratch(loops), uint32_t, loops->ops.count * LOOP_MAX_OPERANDS);
    TRY_ALLOC(r->move_of);
    TRY_ALLOC(r->use_at);
    for (uint32_t u = 0; u < uses; u++) {
        r->move_of[u] = SPYRE_NO_ID;
        r->use_at[r->f.uses[u].op * LOOP_MAX_OPERANDS + r->f.uses[u].operand] = u;
    }
    return find_candidates(loops, r);
}

// --- Insertion

// The shuffle of a reader goes right before the first of them.
static spyre_status serve(loop_graph *loops, relayout *r, uint32_t index, loop_op_list *out)
{
    loop_op op = loops->ops.items[index];
    for (uint32_t k = 0; k + 1 < op.operand_count; k++) {
        uint32_t n = r->move_of[r->use_at[index * LOOP_MAX_OPERANDS + k]];
        if (n == SPYRE_NO_ID || !r->candidates.items[r->moves.items[n].source].kept) continue;
        move *m = &r->moves.items[n];
        if (!m->inserted) {
            loop_op copy = m->copy;
            TRY(whole_copy_target(loops, copy.operand[0].buffer, &m->target));
            copy.operand[1].buffer = m->target;
            m->inserted = true;
            TRY(VEC_PUSH(loops->memory, out, copy));
        }
        op.operand[k].buffer = m->target;
    }
    return VEC_PUSH(loops->memory, out, op);
}

static spyre_status insert(loop_graph *loops, relayout *r)
{
    loop_op_list ops = {0};
    TRY(VEC_ROOM(loops->memory, &ops, loops->ops.count + r->moves.count));
    for (uint32_t m = 0; m < r->moves.count; m++) r->moves.items[m].inserted = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) TRY(serve(loops, r, i, &ops));
    loops->ops = ops;
    return NULL;
}

spyre_status lx_relayout_undo(loop_graph *loops)
{
    renaming r;
    uint32_t kept = 0;
    TRY(rename_begin(loops, &r));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        rename_operands(&r, &op);
        if (op.op == OPFUNC_SHUFFLE)
            r.places[op.operand[1].buffer] = op.operand[0].buffer;
        else
            loops->ops.items[kept++] = op;
    }
    loops->ops.count = kept;
    return NULL;
}

// --- Trials

static spyre_status plan(const loop_graph *loops, relayout *r, arena *scratch, loop_graph *out,
                         double *out_us)
{
    bool changed;
    TRY(loop_copy(loops, scratch, out));
    TRY(insert(out, r));
    TRY(pass_lx_planning(out, &changed));
    *out_us = cost_of_graph(out);
    return NULL;
}

static uint32_t count_kept(const relayout *r)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->candidates.count; n++) count += r->candidates.items[n].kept;
    return count;
}

// Drops those without a place; true when there were none.
static bool keep_placed(const loop_graph *planned, relayout *r)
{
    bool all = true;
    for (uint32_t n = 0; n < r->candidates.count; n++) {
        candidate *c = &r->candidates.items[n];
        bool placed = planned->buffers.items[c->buffer].in_lx;
        for (uint32_t m = 0; m < c->move_count && c->kept; m++)
            placed &= planned->buffers.items[r->moves.items[c->first_move + m].target].in_lx;
        all &= placed || !c->kept;
        c->kept &= placed;
    }
    return all;
}

static int by_gain(const void *a, const void *b)
{
    const candidate *const *x = a, *const *y = b;
    if ((*x)->gain_us != (*y)->gain_us) return (*x)->gain_us < (*y)->gain_us ? -1 : 1;
    return (*x)->buffer < (*y)->buffer ? -1 : 1;
}

static void drop_half(relayout *r, candidate **order)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->candidates.count; n++)
        if (r->candidates.items[n].kept) order[count++] = &r->candidates.items[n];
    qsort(order, count, sizeof *order, by_gain);
    for (uint32_t n = 0; n < (count + 1) / 2; n++) order[n]->kept = false;
}

static spyre_status choose(const loop_graph *loops, relayout *r, arena *scratch)
{
    loop_graph trial;
    double without, with;
    bool changed;
    candidate **order = ARENA_NEW(scratch, candidate *, r->candidates.count);
    TRY_ALLOC(order);
    TRY(loop_copy(loops, scratch, &trial));
    TRY(pass_lx_planning(&trial, &changed));
    without = cost_of_graph(&trial);
    for (uint32_t n = 0; n < MOST_TRIALS && count_kept(r); n++) {
        TRY(plan(loops, r, scratch, &trial, &with));
        if (!keep_placed(&trial, r)) continue;
        if (with < without * (1 - 1e-9)) return NULL;
        drop_half(r, order);
    }
    for (uint32_t n = 0; n < r->candidates.count; n++) r->candidates.items[n].kept = false;
    return NULL;
}

spyre_status pass_lx_relayout(loop_graph *loops, bool *out_changed)
{
    relayout r = {0};
    *out_changed = false;
    if (!loops->settings.lx_planner_relayout || !loops->settings.lx_planning) return NULL;
    if (front_skips(&loops->settings, "lx_planning")) return NULL;
    TRY(begin(loops, &r));
    if (r.candidates.count == 0) return NULL;
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = choose(loops, &r, scratch);
    arena_destroy(scratch);
    TRY(status);
    if (count_kept(&r) == 0) return NULL;
    *out_changed = true;
    return insert(loops, &r);
}
