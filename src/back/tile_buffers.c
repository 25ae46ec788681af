// SPDX-License-Identifier: Apache-2.0
#include "back/tile_buffers.h"

#include <string.h>

#include "isa/time_formulas.h"

tile_buffers buffers_of(const nest *n)
{
    tile_buffers s = {.n = n, .largest_bytes = ISA_TILE_BYTES};
    for (uint32_t o = 0; o < n->operand_count; o++) {
        s.counted[o] = n->operand[o].tensor->count;
        s.staged[o] = !s.counted[o] && !n->operand[o].tensor->in_lx;
        s.source[o] = (uint8_t)o;
    }
    return s;
}

// True when every core reads the same elements of the same argument through both.
static bool are_equal(const nest *n, uint32_t a, uint32_t b)
{
    const nest_operand *one = &n->operand[a], *other = &n->operand[b];
    const bundle_tensor *t = one->tensor, *u = other->tensor;
    return t->arg == u->arg && t->format == u->format && one->element == other->element &&
           one->stick == other->stick && one->stick_dim == other->stick_dim &&
           one->lanes == other->lanes && bundle_same_starts(t, u, n->step->cores->core_count) &&
           memcmp(t->loop_stride, u->loop_stride, sizeof t->loop_stride) == 0 &&
           one->base == other->base && t->digit_count == u->digit_count &&
           memcmp(t->digits, u->digits, t->digit_count * sizeof *t->digits) == 0 &&
           memcmp(one->stride, other->stride, sizeof one->stride) == 0;
}

void buffers_join_equal_inputs(tile_buffers *s)
{
    const bundle_step *step = s->n->step;
    for (uint32_t i = 1; i < step->input_count; i++) {
        for (uint32_t before = 0; before < i; before++) {
            uint32_t a = step->inputs[before], b = step->inputs[i];
            if (a == b || !s->staged[a] || !s->staged[b] || !are_equal(s->n, a, b)) continue;
            s->staged[b] = false;
            s->source[b] = (uint8_t)a;
        }
    }
}

int64_t buffers_bytes(const void *context, const int64_t *tile)
{
    const tile_buffers *s = context;
    int64_t bytes = 0;
    for (uint32_t o = 0; o < s->n->operand_count; o++) {
        if (!s->staged[o] && !s->counted[o]) continue;
        int64_t one = place_tile_bytes(s->n, o, tile);
        if (one > s->largest_bytes) return INT64_MAX / 2;
        bytes += (s->staged[o] ? 2 : 1) * lx_align(one);
    }
    return bytes;
}

spyre_status buffers_take(tile_buffers *s, lx_share *share, const int64_t *tile)
{
    for (uint32_t o = 0; o < s->n->operand_count; o++)
        if (s->staged[o] || s->counted[o])
            TRY(lx_take(share, place_tile_bytes(s->n, o, tile), s->staged[o], &s->region[o]));
    return NULL;
}

spyre_status buffers_fit(tile_buffers *s, const back_options *options, const uint8_t *dims,
                         uint32_t dim_count, int64_t *out_tile)
{
    tile_limits limits = {lx_share_bytes(options), buffers_bytes, s};
    tile_smallest(s->n, out_tile);
    TRY(tile_check(&limits, out_tile));
    tile_grow_all(s->n, &limits, dims, dim_count, out_tile);
    lx_share share = lx_share_whole(options);
    return buffers_take(s, &share, out_tile);
}

// The numbers of a tile, one behind the other as the result lies.
static place counted_tile(const tile_buffers *s, const box *b, const place_axes *axes,
                          uint32_t operand)
{
    const nest_operand *o = &s->n->operand[operand];
    place home = place_home(s->n, b, axes, operand);
    place result = place_home(s->n, b, axes, s->n->step->output);
    place_order order = place_sorted(&result, axes), moving = {0};
    for (uint32_t i = 0; i < order.count; i++)
        if (home.stride[order.axis[i]]) moving.axis[moving.count++] = order.axis[i];
    return place_dense(b, axes, &moving, o->format, o->element, &s->region[operand]);
}

place buffers_place(const tile_buffers *s, const box *b, const place_axes *axes, uint32_t operand)
{
    operand = s->source[operand];
    if (s->counted[operand]) return counted_tile(s, b, axes, operand);
    if (s->staged[operand]) return place_tile(s->n, b, axes, operand, &s->region[operand]);
    return place_home(s->n, b, axes, operand);
}

bool buffers_stage_inputs(const tile_buffers *s, uint32_t inputs)
{
    for (uint32_t i = 0; i < inputs; i++)
        if (s->staged[s->n->step->inputs[i]]) return true;
    return false;
}
