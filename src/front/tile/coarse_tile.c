// SPDX-License-Identifier: Apache-2.0
//
// coarse_tile: ops of a scope stand in a counted loop each iteration of which works on one tile, so
// that what passes between them is a tile, too, and may stay in LX. Layouts are chosen before, on
// whole tensors, and work is divided afterwards, on tiles. The user names the scopes; ops that
// reach too far over a tensor, and those that pass on more than LX holds, get tiles without being
// asked. Without any of it nothing changes.
// Source: torch-spyre, docs/source/compiler/coarse_tiling_loops.md.
#include "front/front.h"
#include "front/tile/tiling.h"

#include <string.h>

#include "base/log.h"

// What tiling changes of a graph: lists, and copies of what they had.
typedef struct {
    loop_op_list ops;
    loop_op *op;
    loop_buffer *buffer;
    uint32_t buffers, tiles;
} snapshot;

static spyre_status take(const loop_graph *loops, snapshot *out)
{
    *out = (snapshot){.ops = loops->ops, .buffers = loops->buffers.count,
                      .tiles = loops->tiles.count};
    TRY_NEW(loop_scratch(loops), out->op, out->ops.count);
    TRY_NEW(loop_scratch(loops), out->buffer, out->buffers);
    memcpy(out->op, loops->ops.items, out->ops.count * sizeof *out->op);
    memcpy(out->buffer, loops->buffers.items, out->buffers * sizeof *out->buffer);
    return NULL;
}

static void give_back(loop_graph *loops, const snapshot *s)
{
    loops->ops = s->ops;
    memcpy(loops->ops.items, s->op, s->ops.count * sizeof *s->op);
    memcpy(loops->buffers.items, s->buffer, s->buffers * sizeof *s->buffer);
    loops->buffers.count = s->buffers;
    loops->tiles.count = s->tiles;
}

static spyre_status cut(tiling *t)
{
    for (uint32_t b = 0; b < t->loops->buffers.count; b++)
        TRY(VEC_PUSH(loop_scratch(t->loops), &t->whole_at, LOOP_MAX_TILES));
    TRY(tile_copies(t));
    TRY(tile_online_softmax(t));
    TRY(tile_reductions(t));
    TRY(tile_schedule(t));
    return tile_apply(t);
}

static bool has_paths(const tiling *t)
{
    for (uint32_t i = 0; i < t->paths.count; i++)
        if (t->paths.items[i].depth) return true;
    return false;
}

// for_lx: with tiles for LX.
static spyre_status find_paths(tiling *t, bool for_lx, bool *out_for_lx)
{
    const loop_graph *loops = t->loops;
    const tile_path none = {0};
    for (uint32_t i = 0; i < loops->ops.count; i++)
        TRY(VEC_PUSH(loop_scratch(loops), &t->paths, none));
    if (!loops->settings.ignore_wsr_hints) TRY(tile_by_hints(t));
    bool spans = !loops->settings.ignore_span_overflow_hints;
    for (uint32_t i = 0; i < loops->ops.count && spans; i++) tile_by_spans(t, i);
    return for_lx ? tile_for_lx(t, out_for_lx) : NULL;
}

// A program for several sizes has the same steps for all of them.
static bool wants_lx(const spyre_settings *s)
{
    return s->tile_for_lx && s->lx_planning && !s->symbolic_size;
}

spyre_status pass_coarse_tile(loop_graph *loops, bool *out_changed)
{
    tiling t = {.loops = loops};
    snapshot before;
    bool for_lx = false;
    TRY(find_paths(&t, wants_lx(&loops->settings), &for_lx));
    *out_changed = has_paths(&t);
    if (!*out_changed) return NULL;
    if (!for_lx) return cut(&t);
    // A layout may not express tiles for LX; the graph then compiles without them.
    TRY(take(loops, &before));
    spyre_status refused = cut(&t);
    if (!refused || spyre_status_code(refused) == SPYRE_OUT_OF_MEMORY) return refused;
    if (spyre_status_code(refused) == SPYRE_UNSUPPORTED)
        log_info("no tiles for LX: %s", spyre_status_message(refused));
    else
        log_warn("no tiles for LX: %s", spyre_status_message(refused));
    spyre_status_free(refused);
    give_back(loops, &before);
    t = (tiling){.loops = loops};
    TRY(find_paths(&t, false, &for_lx));
    *out_changed = has_paths(&t);
    return *out_changed ? cut(&t) : NULL;
}
