// SPDX-License-Identifier: Apache-2.0
//
// merge_equal_ops: of ops that compute the same from the same operands the first stays, and the
// others' readers read its result. One walk in order suffices: operands are renamed before an op is
// looked up. Results that leave the graph stay apart, because the caller may write into them, and
// so do buffers that are written in pieces.
#include "front/front.h"
#include "front/ir/rename.h"
#include "front/tile/tiling.h"
#include "graph/hint.h"

#include <string.h>

// Operands by their present names; what is left out belongs to the result's place alone.
typedef struct {
    uint32_t op, var_count, operand_count, table, adds;
    int64_t extent[LOOP_MAX_VARS];
    loop_access operand[LOOP_MAX_OPERANDS]; // of the result: strides
    int64_t row_stride, row_count;
    float parameter[OPFUNC_MAX_PARAMETERS];
    spyre_view storage;                     // of the result
    graph_hint hint;                        // the user's, of its node
    uint32_t dtype, format;
} op_key;

// True when the op is in steps of loops and in no scope of tiles: steps may share what they
// compute.
static bool is_in_step_only(const loop_graph *loops, const loop_op *op)
{
    const char *at = tile_scopes_of(loops, op);
    hint_tiles hint;
    while (hint_next_tiles(&at, &hint))
        if (!hint_is_step(&hint)) return false;
    return true;
}

static op_key key_of(const loop_graph *loops, const loop_op *op)
{
    op_key key;
    uint32_t result = op->operand_count - 1;
    const loop_buffer *buffer = &loops->buffers.items[op->operand[result].buffer];
    memset(&key, 0, sizeof key);
    key.op = (uint32_t)op->op;
    key.var_count = op->var_count;
    key.operand_count = op->operand_count;
    key.table = op->table;
    key.adds = op->adds;
    memcpy(key.extent, op->extent, sizeof key.extent);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        key.operand[k].buffer = k == result ? 0 : op->operand[k].buffer;
        key.operand[k].offset = op->operand[k].offset;
        memcpy(key.operand[k].stride, op->operand[k].stride, sizeof key.operand[k].stride);
    }
    key.row_stride = op->row_stride;
    key.row_count = op->row_count;
    memcpy(key.parameter, op->parameter, sizeof key.parameter);
    key.storage.rank = buffer->storage.rank;
    for (uint32_t d = 0; d < buffer->storage.rank; d++) {
        key.storage.size[d] = buffer->storage.size[d];
        key.storage.stride[d] = buffer->storage.stride[d];
    }
    key.hint = loops->graph->nodes.items[op->node].hint;
    if (is_in_step_only(loops, op)) key.hint.tiles = 0;
    key.dtype = (uint32_t)buffer->dtype;
    key.format = (uint32_t)buffer->format;
    return key;
}

spyre_status pass_merge_equal_ops(loop_graph *loops, bool *out_changed)
{
    renaming r;
    map_bytes seen = {0};
    uint32_t kept = 0;
    TRY(rename_begin(loops, &r));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        uint32_t result = loop_result(&op)->buffer, first = result;
        rename_operands(&r, &op);
        if (flow_is_written_once(&r.flow, result)) {
            op_key key = key_of(loops, &op);
            TRY(map_bytes_intern(loop_scratch(loops), &seen, &key, sizeof key, result,
                                 &first));
        }
        if (first != result && rename_may_drop(&r, result))
            r.places[result] = first;
        else
            loops->ops.items[kept++] = op;
    }
    *out_changed = kept != loops->ops.count;
    loops->ops.count = kept;
    return NULL;
}
