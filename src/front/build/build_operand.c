// SPDX-License-Identifier: Apache-2.0
//
// Operands of an op: values of the graph as accesses of their buffers, or as numbers.
#include "front/build/build.h"

spyre_status build_add_value(builder *b, loop_op *op, const space *dims, uint32_t value,
                             const uint32_t *map)
{
    spyre_view view;
    bool counted;
    if (!map) {
        TRY(build_take_count(b, op, dims, value, &op->operand[op->operand_count], &counted));
        op->operand_count += counted;
        if (counted) return NULL;
    }
    TRY(build_settle_count(b, value));
    TRY(build_view(b, value, &view));
    uint32_t buffer = b->buffer_of[value];
    if (buffer == SPYRE_NO_ID) return build_refuse(b, "an operand without a place on the card");
    int64_t strides[LOOP_MAX_VARS + 2] = {0};
    for (uint32_t i = 0; i < view.rank; i++) {
        uint32_t d = map ? map[i] : dims->rank - view.rank + i;
        if (view.size[i] == 1 || view.stride[i] == 0) continue;
        if (d >= dims->rank || view.size[i] != dims->size[d])
            return build_refuse(b, "operand sizes that do not broadcast");
        strides[d] = view.stride[i];
    }
    build_add_access(op, dims, buffer, view.offset, strides);
    return NULL;
}

spyre_status build_finish_result(builder *b, loop_op *op, const space *dims, const uint32_t *map)
{
    uint32_t value = build_node_of(b)->results[0];
    const graph_value *result = &b->graph->values.items[value];
    spyre_view view;
    TRY(build_view(b, value, &view));
    TRY(loop_add_local(b->loops, result->name, result->dtype,
                       spyre_dtype_card_format(result->dtype), &view, &b->buffer_of[value]));
    TRY(build_add_value(b, op, dims, value, map));
    loop_output_of(op)->offset = 0;
    return build_finish_op(b, op);
}
