// SPDX-License-Identifier: Apache-2.0
//
// merge_equal_ops: of ops that compute the same from the same operands the first stays, and the
// others' readers read its result. One walk in order suffices: operands are renamed before an op is
// looked up. Results that leave the graph stay apart, because the caller may write into them, and
// so do buffers that are written in pieces.
#include "front/front.h"
#include "front/ir/redirect_reads.h"
#include "front/tile/tiling.h"
#include "graph/hint.h"

#include <stddef.h>
#include <string.h>

// Operands by their present names; what is left out belongs to the result's place alone.
typedef struct {
    uint32_t op, var_count, operand_count, table, accumulator, scanned;
    int64_t extent[LOOP_MAX_VARS];
    int64_t row_stride, row_count;
    float parameter[OPFUNC_MAX_PARAMETERS];
    spyre_view storage;                     // of the result
    graph_hint hint;                        // the user's, of its node
    uint32_t dtype, format;
    loop_access operand[LOOP_MAX_OPERANDS]; // of the result: strides; in maps as many as there are
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

// The number of the first that are equal, plus one; 0: there are none.
static spyre_status number_of_count(arena *memory, map_bytes *counts, const loop_count *count,
                                    uint32_t *out)
{
    *out = 0;
    if (!count) return NULL;
    return map_bytes_intern(memory, counts, count, sizeof *count, counts->count + 1, out);
}

static op_key key_of(const loop_graph *loops, const loop_op *op)
{
    op_key key;
    uint32_t result = op->operand_count - 1;
    const loop_buffer *buffer = loop_operand_buffer(loops, op, result);
    memset(&key, 0, sizeof key);
    key.op = (uint32_t)op->op;
    key.var_count = op->var_count;
    key.operand_count = op->operand_count;
    key.table = op->table;
    key.accumulator = op->accumulator;
    key.scanned = op->scanned;
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

// What an op computes, and numbers in the place of operands, to the first that are equal.
typedef struct {
    map_bytes ops, counts;
} firsts;

static spyre_status read_first(void *context, const loop_graph *loops, const def_use *f,
                               const loop_op *op, uint32_t *place)
{
    if (!def_use_is_written_once(f, *place)) return NULL;
    firsts *seen = context;
    arena *memory = loop_scratch(loops);
    op_key key = key_of(loops, op);
    for (uint32_t k = 0; k < op->operand_count; k++)
        TRY(number_of_count(memory, &seen->counts, loop_count_of(loops, &op->operand[k]),
                            &key.operand[k].count));
    const size_t bytes = offsetof(op_key, operand) + key.operand_count * sizeof *key.operand;
    return map_bytes_intern(memory, &seen->ops, &key, bytes, *place, place);
}

spyre_status pass_merge_equal_ops(loop_graph *loops, bool *out_changed)
{
    firsts seen = {0};
    return redirect_reads(loops, read_first, &seen, out_changed);
}
