// SPDX-License-Identifier: Apache-2.0
#include "front/ir/redirect_reads.h"

static bool may_go(const loop_graph *loops, const def_use *f, uint32_t result)
{
    return loops->buffers.items[result].output < 0 && def_use_is_written_once(f, result);
}

spyre_status redirect_reads(loop_graph *loops, redirect_rule *rule, void *context,
                            bool *out_changed)
{
    def_use f;
    uint32_t *places, kept = 0; // by buffer: where its contents are read; itself at first
    TRY(def_use_build(loops, &f));
    TRY_NEW(loop_scratch(loops), places, loops->buffers.count);
    for (uint32_t b = 0; b < loops->buffers.count; b++) places[b] = b;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        uint32_t result = loop_result(op)->buffer, place = result;
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            op->operand[k].buffer = places[op->operand[k].buffer];
        TRY(rule(context, loops, &f, op, &place));
        if (place != result && may_go(loops, &f, result)) {
            places[result] = place;
            continue;
        }
        if (kept != i) loops->ops.items[kept] = *op;
        kept++;
    }
    *out_changed = kept != loops->ops.count;
    loops->ops.count = kept;
    return NULL;
}
