// SPDX-License-Identifier: Apache-2.0
#include "front/ir/def_use.h"

#include <string.h>

static void count_op(const loop_op *op, def_use *f)
{
    uint32_t output = op->operand_count - 1, *writer = &f->writer[op->operand[output].buffer];
    *writer = *writer == DEF_USE_NO_WRITER ? 0 : DEF_USE_MANY_WRITERS;
    for (uint32_t k = 0; k < output; k++) f->first_use[op->operand[k].buffer + 1]++;
}

spyre_status def_use_build(const loop_graph *loops, def_use *out)
{
    uint32_t buffers = loops->buffers.count;
    TRY_NEW(loop_scratch(loops), out->writer, buffers);
    TRY_NEW(loop_scratch(loops), out->first_use, buffers + 1);
    uint32_t *next = ARENA_NEW(loop_scratch(loops), uint32_t, buffers + 1);
    TRY_ALLOC(next);
    for (uint32_t b = 0; b < buffers; b++) out->writer[b] = DEF_USE_NO_WRITER;
    for (uint32_t i = 0; i < loops->ops.count; i++) count_op(&loops->ops.items[i], out);
    for (uint32_t b = 0; b < buffers; b++)
        next[b + 1] = out->first_use[b + 1] += out->first_use[b];
    TRY_NEW(loop_scratch(loops), out->uses, out->first_use[buffers]);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t output = op->operand_count - 1, *writer = &out->writer[op->operand[output].buffer];
        if (*writer != DEF_USE_MANY_WRITERS) *writer = i;
        for (uint32_t k = 0; k < output; k++)
            out->uses[next[op->operand[k].buffer]++] = (def_use_use){i, k};
    }
    return NULL;
}

spyre_status def_use_drop_ops(loop_graph *loops, def_use_goes *goes, bool *out_changed)
{
    def_use f;
    TRY(def_use_build(loops, &f));
    bool *gone = ARENA_NEW(loop_scratch(loops), bool, loops->ops.count);
    TRY_ALLOC(gone);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        gone[i] = goes(loops, &f, &loops->ops.items[i]);
    *out_changed = loop_drop_ops(loops, gone);
    return NULL;
}

spyre_status def_use_join_writers(const loop_graph *loops, def_use *f)
{
    uint32_t buffers = loops->buffers.count, ops = loops->ops.count;
    uint32_t *next = ARENA_NEW(loop_scratch(loops), uint32_t, buffers + 1);
    def_use_use *uses = ARENA_NEW(loop_scratch(loops), def_use_use, f->first_use[buffers] + ops);
    TRY_ALLOC(next);
    TRY_ALLOC(uses);
    for (uint32_t i = ops; i-- > 0;) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t buffer = loop_result(op)->buffer;
        if (f->writer[buffer] == DEF_USE_MANY_WRITERS) next[buffer + 1]++;
    }
    for (uint32_t b = 0; b < buffers; b++) {
        if (next[b + 1]) next[b + 1]--; // the first one is no use
        next[b + 1] += next[b] + def_use_use_count(f, b);
    }
    memcpy(f->first_use, next, (buffers + 1) * sizeof *next);
    for (uint32_t i = 0; i < ops; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            uint32_t buffer = op->operand[k].buffer, *writer = &f->writer[buffer];
            bool writes = k + 1 == op->operand_count;
            if (writes && *writer == DEF_USE_MANY_WRITERS) *writer = i;
            if (!writes || *writer != i) uses[next[buffer]++] = (def_use_use){i, k};
        }
    }
    f->uses = uses;
    return NULL;
}

static bool same_loops(const loop_op *a, const loop_op *b)
{
    return a->var_count == b->var_count && !a->tile_depth && !b->tile_depth &&
           memcmp(a->extent, b->extent, a->var_count * sizeof *a->extent) == 0;
}

static bool same_hint(const loop_graph *loops, const loop_op *a, const loop_op *b)
{
    const graph_node *nodes = loops->graph->nodes.items;
    return memcmp(&nodes[a->node].hint, &nodes[b->node].hint, sizeof nodes->hint) == 0;
}

const loop_op *def_use_writer_in_loops(const def_use *f, const loop_graph *loops,
                                       const loop_op *reader, const loop_access *read)
{
    const loop_buffer *buffer = &loops->buffers.items[read->buffer];
    if (buffer->kind != LOOP_LOCAL || !def_use_is_written_once(f, read->buffer)) return NULL;
    const loop_op *op = &loops->ops.items[f->writer[read->buffer]];
    const loop_access *written = loop_result(op);
    bool same = !op->table && same_loops(op, reader) && same_hint(loops, op, reader) &&
                written->offset == read->offset &&
                memcmp(written->stride, read->stride,
                       op->var_count * sizeof *read->stride) == 0;
    return same ? op : NULL;
}

// Whether element n of what the op reads is element n of what it writes.
static bool keeps_places(const loop_op *op)
{
    const loop_access *from = &op->operand[0], *to = loop_result(op);
    return from->offset == to->offset &&
           memcmp(from->stride, to->stride, op->var_count * sizeof *to->stride) == 0;
}

bool def_use_through_cast(const def_use *f, const loop_graph *loops, const loop_op *reader,
                          const loop_access *read, loop_access *out)
{
    const loop_buffer *buffer = &loops->buffers.items[read->buffer];
    if (buffer->kind != LOOP_LOCAL || !def_use_is_written_once(f, read->buffer)) return false;
    const loop_op *cast = &loops->ops.items[f->writer[read->buffer]];
    if (cast->op != OPFUNC_DL16TOFP32 || cast->tile_depth || reader->tile_depth) return false;
    bool aligned = def_use_writer_in_loops(f, loops, reader, read);
    if (!aligned && cast->operand[0].count) return false;
    if (!aligned && (!keeps_places(cast) || !same_hint(loops, cast, reader))) return false;
    *out = aligned ? cast->operand[0] : *read;
    out->buffer = cast->operand[0].buffer;
    return true;
}
