// SPDX-License-Identifier: Apache-2.0
#include "back/staged_tile.h"

spyre_status staged_load(emitter *e, const tile_buffers *tiles, const box *b,
                         const place_axes *axes, uint32_t inputs)
{
    uint32_t loaded = 0;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t o = tiles->n->step->inputs[i];
        if (!tiles->staged[o] || loaded >> o & 1) continue;
        place_copy copy = place_of_load(tiles->n, b, axes, o, &tiles->region[o]);
        TRY(emit_load(e, &copy.axes, &copy.tile, &copy.home));
        loaded |= 1u << o;
    }
    return loaded ? emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, TOKEN_INPUT_FULL) : NULL;
}

spyre_status staged_release(emitter *e, const tile_buffers *tiles, uint32_t inputs)
{
    if (!buffers_stage_inputs(tiles, inputs)) return NULL;
    return emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_LOAD, TOKEN_INPUT_FREE);
}

spyre_status staged_store(emitter *e, const tile_buffers *tiles, const box *b,
                          const place_axes *axes)
{
    uint32_t output = tiles->n->step->output;
    if (!tiles->staged[output]) return NULL;
    place tile = buffers_place(tiles, b, axes, output);
    place home = place_home(tiles->n, b, axes, output);
    TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    TRY(emit_store(e, axes, &home, &tile));
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_SFP, TOKEN_OUTPUT_FREE);
}
