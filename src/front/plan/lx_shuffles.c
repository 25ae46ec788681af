// SPDX-License-Identifier: Apache-2.0
//
// Where readers divide a buffer in another way than its writer, a shuffle sends it over the ring,
// from LX to LX, to the cores that need it. Readers that want the same share one. Without it such a
// buffer goes through memory once for its writer and once for each reader. The ring is cheaper a
// byte, but both forms of the buffer take LX while it is shuffled.
#include "front/plan/lx_shuffles.h"

#include "front/cost/cost.h"
#include "front/cost/cost_shuffle.h"
#include "front/ir/redirect_reads.h"
#include "front/ir/lx_slices.h"
#include "isa/constants.h"

enum { MOST_FORMS = 4, MOST_SHUFFLE_LOOPS = 7 };

bool lx_shuffles_may_move(const loop_graph *loops, const def_use *f, uint32_t id)
{
    const loop_buffer *b = &loops->buffers.items[id];
    return b->kind == LOOP_LOCAL && b->output < 0 && b->has_layout && !b->exx2 && b->dim_count &&
           def_use_is_written_once(f, id) && loops->ops.items[f->writer[id]].tile_depth == 0;
}

// The shuffle, among those from `first` on, that serves a reader, or a new one; SPYRE_NO_ID in
// *out when there is none.
static spyre_status find_shuffle(const loop_graph *loops, const def_use_use *use,
                                 const lx_slices *read, uint32_t first, lx_copies *copies,
                                 uint32_t *out)
{
    const loop_op *reader = &loops->ops.items[use->op];
    lx_copy made = {.original = reader->operand[use->operand].buffer, .kept = true};
    for (*out = first; *out < copies->items.count; ++*out) {
        const loop_op *op = &copies->items.items[*out].op;
        lx_slices sent = lx_slices_of(loops, op, 1);
        if (lx_slices_serves(&sent, read)) return NULL;
    }
    bool possible = copies->items.count - first < MOST_FORMS &&
                    lx_copy_describe(loops, OPFUNC_SHUFFLE, reader, use->operand, &made.op) &&
                    made.op.var_count <= MOST_SHUFFLE_LOOPS; // one dim is left for emission
    if (possible) return VEC_PUSH(loop_scratch(loops), &copies->items, made);
    *out = SPYRE_NO_ID;
    return NULL;
}

// Adds what the readers of the buffer want; false in *out when some of them needs it in memory.
static spyre_status add_shuffles(const loop_graph *loops, const def_use *f, uint32_t id,
                                 lx_copies *copies, bool *out)
{
    const loop_buffer *b = &loops->buffers.items[id];
    uint32_t first = copies->items.count;
    lx_slices written = lx_slices_written(loops, &loops->ops.items[f->writer[id]]);
    *out = false;
    if (written.why || !lx_slices_are_whole(b, &written, false)) return NULL;
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
        uint32_t k = f->uses[u].operand, at = f->uses[u].op * LOOP_MAX_OPERANDS + k;
        const loop_op *op = &loops->ops.items[f->uses[u].op];
        lx_slices read = lx_slices_of(loops, op, k);
        if (op->tile_depth || read.why) return NULL;
        if (lx_slices_serves(&written, &read)) continue;
        TRY(find_shuffle(loops, &f->uses[u], &read, first, copies, &copies->copy_of[at]));
        if (copies->copy_of[at] == SPYRE_NO_ID) return NULL;
    }
    *out = copies->items.count > first;
    return NULL;
}

// Traffic that LX saves, less what the shuffles from `first` on take.
static double gain_of(const loop_graph *loops, const def_use *f, uint32_t id,
                      const lx_copies *copies, uint32_t first)
{
    const loop_op *writer = &loops->ops.items[f->writer[id]];
    double bytes = cost_basis_of(loops, writer).bytes[writer->operand_count - 1];
    double saved = (1 + def_use_use_count(f, id)) * bytes / MEMORY_BANDWIDTH;
    for (uint32_t n = first; n < copies->items.count; n++) {
        const loop_op *op = &copies->items.items[n].op;
        shuffle_cost price = shuffle_cost_of(loops, op, bytes);
        saved -= price.messages > SHUFFLE_MOST_MESSAGES ? saved : price.us;
    }
    return saved;
}

static spyre_status add_candidate(const loop_graph *loops, const def_use *f, uint32_t id,
                                  lx_copies *copies)
{
    uint32_t first = copies->items.count;
    bool found;
    TRY(add_shuffles(loops, f, id, copies, &found));
    double gain_us = found ? gain_of(loops, f, id, copies, first) : 0;
    for (uint32_t n = first; n < copies->items.count; n++) copies->items.items[n].gain_us = gain_us;
    if (gain_us > 0) return NULL;
    copies->items.count = first;
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++)
        copies->copy_of[f->uses[u].op * LOOP_MAX_OPERANDS + f->uses[u].operand] = SPYRE_NO_ID;
    return NULL;
}

spyre_status lx_shuffles_find(const loop_graph *loops, lx_copies *out)
{
    def_use f;
    *out = (lx_copies){0};
    if (!loops->settings.lx_planner_relayout || !loops->settings.lx_planning) return NULL;
    TRY(def_use_build(loops, &f));
    TRY(lx_copies_create(loops, out));
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (lx_shuffles_may_move(loops, &f, b)) TRY(add_candidate(loops, &f, b, out));
    return NULL;
}

static spyre_status read_unshuffled(void *context, const loop_graph *loops, const def_use *f,
                                    const loop_op *op, uint32_t *place)
{
    (void)context, (void)loops, (void)f;
    if (op->op == OPFUNC_SHUFFLE) *place = op->operand[0].buffer;
    return NULL;
}

spyre_status lx_shuffles_undo(loop_graph *loops)
{
    bool changed;
    return redirect_reads(loops, read_unshuffled, NULL, &changed);
}
