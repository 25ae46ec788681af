// SPDX-License-Identifier: Apache-2.0
#include "back/stage.h"

stage stage_of(const nest *n)
{
    stage s = {.n = n, .largest_bytes = STAGE_LARGEST_TILE_BYTES};
    for (uint32_t o = 0; o < n->operand_count; o++) s.staged[o] = !n->operand[o].tensor->in_lx;
    return s;
}

int64_t stage_footprint(const void *context, const int64_t *tile)
{
    const stage *s = context;
    int64_t bytes = 0;
    for (uint32_t o = 0; o < s->n->operand_count; o++) {
        if (!s->staged[o]) continue;
        int64_t one = place_tile_bytes(s->n, o, tile);
        if (one > s->largest_bytes) return INT64_MAX / 2;
        bytes += 2 * lx_align(one);
    }
    return bytes;
}

spyre_status stage_take(stage *s, lx_share *share, const int64_t *tile)
{
    for (uint32_t o = 0; o < s->n->operand_count; o++)
        if (s->staged[o]) TRY(lx_take(share, place_tile_bytes(s->n, o, tile), true, &s->region[o]));
    return NULL;
}

spyre_status stage_fit(stage *s, const back_options *options, const uint8_t *dims,
                       uint32_t dim_count, int64_t *out_tile)
{
    tile_limits limits = {lx_share_bytes(options), stage_footprint, s};
    tile_smallest(s->n, out_tile);
    TRY(tile_check(&limits, out_tile));
    tile_grow_all(s->n, &limits, dims, dim_count, out_tile);
    lx_share share = lx_share_whole(options);
    return stage_take(s, &share, out_tile);
}

place stage_place(const stage *s, const box *b, const place_axes *axes, uint32_t operand)
{
    if (s->staged[operand]) return place_tile(s->n, b, axes, operand, &s->region[operand]);
    return place_home(s->n, b, axes, operand);
}

bool stage_has_inputs(const stage *s)
{
    for (uint32_t o = 0; o < s->n->operand_count; o++)
        if (s->staged[o] && o != s->n->step->output) return true;
    return false;
}
