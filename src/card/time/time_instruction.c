// SPDX-License-Identifier: Apache-2.0
//
// What one instruction moves, and how long the resource that executes it takes for it alone.
#include "card/plan.h"
#include "card/time/time.h"

// What the operands in LX move, once each.
static double lx_bytes(const isa_instruction *i, double cores)
{
    double bytes = 0;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        if (i->operand[o].space != ISA_SPACE_LX) continue;
        double size = spyre_format_bytes(i->operand[o].format);
        for (uint32_t d = 0; d < i->dim_count; d++)
            if (i->operand[o].stride[d]) size *= i->extent[d];
        if (i->opcode == ISA_MATMUL && o != 1) size *= matmul_lanes(i);
        bytes += size;
    }
    return bytes * cores;
}

void time_cost_of(const isa_kernel *kernel, const isa_instruction *i, time_cost *out)
{
    double cores = __builtin_popcount(kernel->active_cores);
    *out = (time_cost){.kind = TIME_COMPUTE, .lx_bytes = lx_bytes(i, cores)};
    switch (isa_describe(i->opcode)->queue) {
    case ISA_QUEUE_LOAD:
        out->kind = TIME_READ;
        time_cost_transfer(kernel, i, 1, out);
        return;
    case ISA_QUEUE_STORE:
        out->kind = TIME_WRITE;
        time_cost_transfer(kernel, i, 0, out);
        return;
    case ISA_QUEUE_SFP: time_cost_vector(i, cores, out); return;
    case ISA_QUEUE_PT: time_cost_matmul(i, cores, out); return;
    case ISA_QUEUE_RING:
        out->kind = isa_writes(i->opcode, 0) ? TIME_RECEIVE : TIME_SEND;
        time_cost_message(i, out);
        return;
    case ISA_QUEUE_SEQ:
    case ISA_QUEUE_ANY: return;
    }
}
