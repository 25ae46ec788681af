// SPDX-License-Identifier: Apache-2.0
#include "front/cost/cost_windows.h"

#include <math.h>

#include "base/integer.h"
#include "isa/time_formulas.h"

// A stick's products in fp32, beside which tiles of the operands have the rest of its share.
enum { PRODUCT_BYTES = 256 };
static const double PRODUCTS_SHARE = 0.9;

cost_windows cost_windows_of(const loop_graph *loops, const loop_op *op)
{
    cost_windows w = {0};
    const loop_access *input = &op->operand[0];
    const loop_buffer *buffer = &loops->buffers.items[input->buffer];
    if (!opfunc_slides(op->op) || loop_is_matmul(op) || !buffer->dim_count) return w;
    for (uint8_t v = 0; v < op->var_count; v++) {
        const uint8_t taps = loop_tap_of(op, buffer, v);
        if (taps == LOOP_NO_DIM) continue;
        const int64_t step = input->stride[v], tap = input->stride[taps];
        const int64_t place = common_divisor(step, tap);
        uint32_t at = w.count++;
        for (; at > 0 && input->stride[w.of[at - 1].windows] > step; at--) w.of[at] = w.of[at - 1];
        w.of[at].windows = v;
        w.of[at].taps = taps;
        w.of[at].step = step / place;
        w.of[at].tap = tap / place;
    }
    return w;
}

// Windows that a tile has room for, of one stick.
static double windows_of_tile(const loop_op *op, const cost_windows *w, double share_bytes)
{
    double taps = 1, places = 1;
    for (uint32_t n = 0; n < w->count; n++) {
        taps *= (double)op->extent[w->of[n].taps];
        places *= (double)w->of[n].step;
    }
    const double most = ISA_TILE_BYTES / SPYRE_STICK_BYTES / places;
    if (op->op != OPFUNC_DEPTHWISECONV2D) return most;
    return fmin(most, PRODUCTS_SHARE * share_bytes / (PRODUCT_BYTES * taps));
}

// Tiles of the loops along which the factors stand still, other than those over windows.
static double other_tiles(const loop_op *op, const cost_windows *w, const division_sizes *sizes)
{
    double tiles = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool others = op->operand[0].stride[v] && !op->operand[1].stride[v];
        for (uint32_t n = 0; n < w->count; n++) others = others && w->of[n].windows != v;
        if (others && !loop_var_is_reduced(op, v)) tiles *= (double)sizes->size[v];
    }
    return tiles;
}

cost_window_reads cost_windows_read(const loop_op *op, const cost_windows *w,
                                    const division_sizes *sizes, const division *d,
                                    double share_bytes)
{
    cost_window_reads reads = {1, 1};
    if (!w->count) return reads;
    double room = windows_of_tile(op, w, share_bytes);
    for (uint32_t n = 0; n < w->count; n++) {
        const uint8_t v = w->of[n].windows;
        const double taps = (double)op->extent[w->of[n].taps];
        const double slice = (double)division_slice(sizes, v, d->split[v]);
        const double tile = fmax(1, fmin(slice, floor(room)));
        const double last = (tile - 1) * (double)w->of[n].step + (taps - 1) * (double)w->of[n].tap;
        reads.input *= fmin(1, (last + 1) / (tile * taps));
        reads.factor *= ceil(slice / tile) * d->split[v];
        room /= tile;
    }
    reads.factor *= other_tiles(op, w, sizes);
    if (op->op != OPFUNC_DEPTHWISECONV2D) reads.factor = 1;
    return reads;
}
