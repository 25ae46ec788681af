// SPDX-License-Identifier: Apache-2.0
//
// What front/cost/cost.h predicts, op by op, for callers of the library (spyre/loops.h).
#include "front/check/invariant.h"
#include "front/cost/cost.h"
#include "front/front.h"

// Bytes of the operand that all executions together reach: each once.
static double distinct_bytes(const loop_graph *loops, const loop_op *op, const cost_basis *basis,
                             uint32_t k)
{
    double bytes = basis->bytes[k];
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (op->operand[k].tile_stride[t])
            bytes *= (double)loops->tiles.items[op->tiles[t]].count;
    return bytes;
}

static void count_bytes(const loop_graph *loops, const loop_op *op, const cost_basis *basis,
                        uint32_t resident, spyre_op_cost *out)
{
    double lx = 0, distinct = 0;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        if (resident >> k & 1u)
            lx += basis->bytes[k];
        else if (k + 1 < op->operand_count && !loop_repeats_input(op, k))
            distinct += distinct_bytes(loops, op, basis, k);
    }
    out->lx_bytes = (int64_t)lx;
    out->reread_bytes -= (int64_t)distinct;
    if (out->reread_bytes < 0) out->reread_bytes = 0;
}

spyre_status spyre_loops_op_cost(const spyre_loops *loops, uint32_t index, spyre_op_cost *out_cost)
{
    if (index >= loops->ops.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "op %u of %u", index, loops->ops.count);
    if (loops->stage < STAGE_propagate_layouts)
        return status_new(SPYRE_INVALID_ARGUMENT, "ops have no cost before layouts are chosen");
    const loop_op *op = &loops->ops.items[index];
    cost_basis basis = cost_basis_of(loops, op);
    division d = division_get(op);
    uint32_t resident = cost_resident(loops, op);
    cost c = cost_of(op, &basis, &d, resident);
    double times = loop_executions(loops, op);
    *out_cost = (spyre_op_cost){.name = op->name,
                                .opfunc = opfunc_describe(op->op)->name,
                                .cores = loop_core_count(op),
                                .tile_count = op->tile_depth,
                                .executions = (int64_t)times,
                                .us = c.us * times,
                                .memory_us = c.memory_us * times,
                                .compute_us = c.compute_us * times,
                                .ring_us = c.ring_us * times,
                                .memory_bytes = (int64_t)((c.read_bytes + c.written_bytes) * times),
                                .reread_bytes = (int64_t)(c.read_bytes * times)};
    for (uint32_t t = 0; t < op->tile_depth; t++)
        out_cost->tiles[t] = (spyre_loop_tiles){
            .group = op->tiles[t], .count = loops->tiles.items[op->tiles[t]].count};
    count_bytes(loops, op, &basis, resident, out_cost);
    return NULL;
}
