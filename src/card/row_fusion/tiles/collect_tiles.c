// SPDX-License-Identifier: Apache-2.0
//
// The tiles of a kernel, if it has none but those that row fusions know. Peeled iterations join
// their loop (peeled_iterations.c), partial sticks the row they end (join_partial_sticks.c), and
// loops around one tile become its dims:
//
//     fill; loop 8 { sum [2, 32]; sum [2, 24] }; fold  ->  fill; sum [8, 2, 2, 32], 56 lanes; fold
#include "card/row_fusion/tiles/collect_tiles.h"

#include "isa/dims.h"

static bool may_fuse(isa_opcode opcode)
{
    return opcode == ISA_VECTOR || opcode == ISA_FILL || opcode == ISA_FOLD ||
           isa_reduces(opcode) || opcode == ISA_LOAD;
}

// --- Loops around one tile

// Loops from `depth` on become dims of the tile, whose order they have.
static spyre_status absorb(arena *scratch, uint32_t depth, rows_tile *t, bool *out_good)
{
    isa_instruction whole = isa_copy(t->tile->instruction);
    for (*out_good = true; t->loops.depth > depth && *out_good; t->loops.depth--) {
        const uint32_t inmost = t->loops.depth - 1;
        *out_good = isa_absorb_loop(&whole, inmost, t->loops.iterations[inmost]);
    }
    return rows_set_tile(scratch, &whole, t);
}

// All tiles from `first` on come to stand in the loops of the one that has fewest, where those
// further inside go around one tile each.
static spyre_status absorb_loops(arena *scratch, rows_tiles *tiles, uint32_t first, bool *out_good)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t n = first; n < tiles->count; n++)
        if (tiles->items[n].loops.depth < least) least = tiles->items[n].loops.depth;
    *out_good = true;
    for (uint32_t n = first; n < tiles->count && *out_good; n++) {
        rows_tile *t = &tiles->items[n];
        const bool last = n + 1 == tiles->count;
        if (!loop_nest_same(&tiles->items[first].loops, &t->loops, least)) *out_good = false;
        else if (!last && loop_nest_same(&t->loops, &t[1].loops, least + 1)) *out_good = false;
        else if (t->loops.depth > least) TRY(absorb(scratch, least, t, out_good));
    }
    return NULL;
}

spyre_status rows_collect(const plan_kernel *kernel, arena *scratch, rows_tiles *out,
                          bool *out_good)
{
    loop_nest place = {0};
    const uint32_t own = out->count;
    *out_good = false;
    for (const plan_step *s = kernel->steps[ISA_QUEUE_SEQ]; s->kind != STEP_END; s++) {
        loop_nest_step(&place, s);
        if (!s->tile) continue;
        rows_tile t = {.tile = s->tile, .at = s->instruction, .loops = place};
        bool joined = false;
        if (!may_fuse(t.tile->instruction->opcode)) return NULL;
        TRY(rows_join_reduction(scratch, kernel->source, out, own, &t, &joined));
        if (!joined) TRY(rows_join_rest_of_dim(scratch, out, own, &t, &joined));
        if (joined) continue;
        TRY(rows_widen_sticks(scratch, kernel->source, &t));
        TRY(VEC_PUSH(scratch, out, t));
    }
    if (out->count == own) return NULL;
    TRY(rows_join_last_iteration(scratch, out, own));
    TRY(absorb_loops(scratch, out, own, out_good));
    for (uint32_t n = own; n < out->count; n++) rows_find_reach(&out->items[n]);
    *out_good = *out_good && out->count - own <= ROWS_MOST_STEPS;
    return NULL;
}
