// SPDX-License-Identifier: Apache-2.0
//
// The ops of a sum over exp(x - max(x)) along a cut loop, and their new order. Shared by
// tile_online_softmax.c and online_softmax_ops.c. Internal.
#ifndef FRONT_ONLINE_SOFTMAX_OPS_H
#define FRONT_ONLINE_SOFTMAX_OPS_H

#include "front/ir/def_use.h"
#include "front/tile/tiling.h"

enum { ONLINE_MOST_SUMS = 4, ONLINE_NO_LOOP = -1 };

typedef struct {
    tiling *t;
    def_use f;
    uint32_t most, shifted, power;   // ops: max(x), x - that, exp of that
    uint32_t guard;                  // op: the maximum of max(x) and something, or SPYRE_NO_ID
    uint32_t sums[ONLINE_MOST_SUMS], sum_count;
    uint32_t held[ONLINE_MOST_SUMS];        // buffers: where each sum is accumulated
    uint32_t level;                  // of the loop that is cut, the innermost
    double lowest;
    loop_op_list ops;                // the new order
    tile_path_list paths;
    uint32_t kept, fresh, change;    // buffers: the largest so far, with this tile, exp of the gap
} online_softmax;

static inline const loop_op *online_op(const online_softmax *r, uint32_t index)
{
    return &r->t->loops->ops.items[index];
}

static inline const tile_path *online_path(const online_softmax *r, uint32_t index)
{
    return &r->t->paths.items[index];
}

static inline uint32_t online_result(const online_softmax *r, uint32_t index)
{
    return online_op(r, index)->operand[online_op(r, index)->operand_count - 1].buffer;
}

// Finds the ops that belong to the maximum r->most; false when they are no such sum.
bool online_find(online_softmax *r);

// The loop of x - max(x) that walks what loop v of a sum walks, or ONLINE_NO_LOOP.
int online_loop(const online_softmax *r, uint32_t sum, uint32_t k, uint32_t v);

bool online_is_summed(const online_softmax *r, uint32_t op);

#endif
