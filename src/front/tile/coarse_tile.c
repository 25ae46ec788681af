// SPDX-License-Identifier: Apache-2.0
//
// coarse_tile: ops of a scope stand in a counted loop each iteration of which works on one tile, so
// that what passes between them is a tile, too, and may stay in LX. Layouts are chosen before, on
// whole tensors, and work is divided afterwards, on tiles. The user names the scopes; ops that
// reach too far over a tensor get tiles without being asked. Without either nothing changes.
// Source: torch-spyre, docs/source/compiler/coarse_tiling_loops.md.
#include "front/front.h"
#include "front/tile/tiling.h"

spyre_status pass_coarse_tile(loop_graph *loops, bool *out_changed)
{
    tiling t = {.loops = loops};
    const tile_path none = {0};
    *out_changed = false;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        TRY(VEC_PUSH(loop_scratch(loops), &t.paths, none));
    if (!loops->settings.ignore_wsr_hints) TRY(tile_by_hints(&t));
    bool spans = !loops->settings.ignore_span_overflow_hints;
    for (uint32_t i = 0; i < loops->ops.count && spans; i++) tile_by_spans(&t, i);
    for (uint32_t i = 0; i < loops->ops.count; i++) *out_changed |= t.paths.items[i].depth > 0;
    if (!*out_changed) return NULL;
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        TRY(VEC_PUSH(loop_scratch(loops), &t.whole_at, LOOP_MAX_TILES));
    TRY(tile_exponentials(&t));
    TRY(tile_reductions(&t));
    TRY(tile_schedule(&t));
    return tile_apply(&t);
}
