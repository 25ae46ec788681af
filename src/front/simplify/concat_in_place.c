// SPDX-License-Identifier: Apache-2.0
//
// concat_in_place: a concatenation copies its pieces to where they belong in the result; here the
// op that computes a piece writes it there, or the ops that compute its parts, as when the piece is
// a concatenation itself. Only element-wise ops, which may carry any stick that
// the result has, and only pieces of whole sticks: what cuts a stick of the result would force
// another stick on every operand of the op, where the copy changes that of one.
#include <string.h>

#include "front/front.h"
#include "front/ir/def_use.h"

// Whether the copy takes each element once: of one that it repeats (expand) or takes for several
// windows, the writer would make the first alone.
static bool takes_each_once(const loop_op *copy)
{
    const int64_t *stride = copy->operand[0].stride, *extent = copy->extent;
    for (uint32_t v = 0; v < copy->var_count; v++) {
        if (extent[v] > 1 && stride[v] <= 0) return false;
        for (uint32_t u = 0; u < v; u++)
            if (extent[u] > 1 && extent[v] > 1 && stride[u] < stride[v] * extent[v] &&
                stride[v] < stride[u] * extent[u])
                return false;
    }
    return true;
}

// A copy of a whole local buffer that nothing else reads.
static bool is_piece(const loop_graph *loops, const def_use *f, const loop_op *op)
{
    if (!loop_is_copy(op)) return false;
    uint32_t id = op->operand[0].buffer;
    const loop_buffer *from = &loops->buffers.items[id];
    const loop_buffer *to = loop_operand_buffer(loops, op, 1);
    return from->kind == LOOP_LOCAL && from->output < 0 && loop_same_elements(from, to) &&
           op->operand[0].offset == 0 && takes_each_once(op) &&
           !def_use_is_written_once(f, op->operand[1].buffer) &&
           f->writer[id] != DEF_USE_NO_WRITER && def_use_use_count(f, id) == 1;
}

// Whether what the op writes there begins and ends at sticks, should the stick run along the
// innermost dim.
static bool is_of_whole_sticks(const loop_graph *loops, const loop_op *op, const loop_access *to)
{
    const loop_buffer *buffer = &loops->buffers.items[to->buffer];
    if (buffer->dim_count == 0) return false;
    int64_t inner = buffer->dim[0].extent, lanes = loop_lanes(buffer), walked = 1;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (to->stride[v] == buffer->dim[0].stride) walked = op->extent[v];
    if (walked == inner) return true;
    int64_t begin = to->offset / buffer->dim[0].stride % inner;
    return begin % lanes == 0 && (walked % lanes == 0 || begin + walked == inner);
}

// The iteration in which the copy, which walks the dims of its source one by one, takes the element
// at an offset.
static bool find_iteration(const loop_op *copy, int64_t offset, int64_t index[LOOP_MAX_VARS])
{
    const loop_access *from = &copy->operand[0];
    memset(index, 0, sizeof(int64_t) * LOOP_MAX_VARS);
    while (offset > 0) {
        uint32_t widest = copy->var_count;
        for (uint32_t v = 0; v < copy->var_count; v++) {
            if (from->stride[v] <= 0 || from->stride[v] > offset) continue;
            if (widest == copy->var_count || from->stride[v] > from->stride[widest]) widest = v;
        }
        if (widest == copy->var_count) return false;
        index[widest] = offset / from->stride[widest];
        offset -= index[widest] * from->stride[widest];
    }
    return true;
}

// The writer's result where the copy would put it: each loop moves as the copy's over that dim, and
// stays within it.
static bool move_result(const loop_op *copy, const loop_op *writer, loop_access *out)
{
    const loop_access *from = &copy->operand[0], *to = &copy->operand[1];
    const loop_access *written = loop_result(writer);
    int64_t index[LOOP_MAX_VARS];
    *out = *written;
    out->buffer = to->buffer;
    out->offset = to->offset;
    if (!find_iteration(copy, written->offset, index)) return false;
    for (uint32_t v = 0; v < copy->var_count; v++) out->offset += index[v] * to->stride[v];
    for (uint32_t w = 0; w < writer->var_count; w++) {
        if (!written->stride[w]) return false;
        bool found = false;
        for (uint32_t v = 0; v < copy->var_count && !found; v++) {
            found = from->stride[v] == written->stride[w];
            if (!found) continue;
            out->stride[w] = to->stride[v];
            index[v] += writer->extent[w] - 1;
        }
        if (!found) return false;
    }
    for (uint32_t v = 0; v < copy->var_count; v++)
        if (index[v] >= copy->extent[v]) return false;
    return true;
}

typedef VEC(uint32_t) op_list;

#define NO_OP UINT32_MAX

// The ops that write each buffer, in no order.
typedef struct {
    uint32_t *first; // by buffer
    uint32_t *next;  // by op
} writer_lists;

static void add_writer(writer_lists *lists, uint32_t buffer, uint32_t op)
{
    lists->next[op] = lists->first[buffer];
    lists->first[buffer] = op;
}

static spyre_status list_writers(const loop_graph *loops, writer_lists *out)
{
    out->first = ARENA_NEW(loop_scratch(loops), uint32_t, loops->buffers.count);
    out->next = ARENA_NEW(loop_scratch(loops), uint32_t, loops->ops.count);
    TRY_ALLOC(out->first);
    TRY_ALLOC(out->next);
    memset(out->first, 0xFF, sizeof *out->first * loops->buffers.count);
    for (uint32_t n = 0; n < loops->ops.count; n++)
        add_writer(out, loop_result(&loops->ops.items[n])->buffer, n);
    return NULL;
}

// The ops that write the piece; false when one of them cannot write where the copy would put it.
static spyre_status find_writers(const loop_graph *loops, const writer_lists *lists, uint32_t copy,
                                 const bool *gone, op_list *out, bool *out_movable)
{
    const loop_op *ops = loops->ops.items;
    *out_movable = true;
    out->count = 0;
    for (uint32_t w = lists->first[ops[copy].operand[0].buffer]; w != NO_OP; w = lists->next[w]) {
        loop_access moved;
        if (gone[w]) continue;
        *out_movable = w < copy && loop_is_element_wise(&ops[w]) &&
                       move_result(&ops[copy], &ops[w], &moved) &&
                       is_of_whole_sticks(loops, &ops[w], &moved);
        if (!*out_movable) return NULL;
        TRY(VEC_PUSH(loop_scratch(loops), out, w));
    }
    return NULL;
}

spyre_status pass_concat_in_place(loop_graph *loops, bool *out_changed)
{
    def_use f;
    writer_lists lists;
    op_list writers = {0};
    TRY(def_use_build(loops, &f));
    TRY(list_writers(loops, &lists));
    bool *gone = ARENA_NEW(loop_scratch(loops), bool, loops->ops.count);
    TRY_ALLOC(gone);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *copy = &loops->ops.items[i];
        bool movable;
        if (!is_piece(loops, &f, copy)) continue;
        TRY(find_writers(loops, &lists, i, gone, &writers, &movable));
        if (!movable) continue;
        lists.first[copy->operand[0].buffer] = NO_OP;
        for (uint32_t n = 0; n < writers.count; n++) {
            loop_op *writer = &loops->ops.items[writers.items[n]];
            loop_access moved;
            gone[i] = move_result(copy, writer, &moved);
            *loop_output_of(writer) = moved;
            add_writer(&lists, moved.buffer, writers.items[n]);
        }
    }
    *out_changed = loop_drop_ops(loops, gone);
    return NULL;
}
