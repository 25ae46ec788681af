// SPDX-License-Identifier: Apache-2.0
//
// write_through_copies: a product, or an element-wise op, writes its result where a copy takes it
// that alone reads it, in whatever order of dims. Behind normalize_loops writer and copy walk the
// buffer between them in the same loops as a rule:
//     b2[1024*c0 + 128*c1 + c2] = sum over k of b0[..] * b1[..]      a product for each line
//     b3[8192*c1 + 128*c0 + c2] = b2[1024*c0 + 128*c1 + c2]          a clone of permuted dims
// becomes b3[8192*c1 + 128*c0 + c2] = sum over k of b0[..] * b1[..].
// Only where the innermost dim stays: it carries the stick as a rule, and a copy that changes a
// stick costs less than a product, or several operands, that have to take another.
#include "front/front.h"
#include "front/ir/def_use.h"

// Whether the copy alone reads a local buffer that one op writes, and alone writes its result.
static bool is_between(const loop_graph *loops, const def_use *f, const loop_op *op)
{
    if (!loop_is_copy(op) || op->tile_depth) return false;
    const uint32_t id = op->operand[0].buffer;
    const loop_buffer *from = &loops->buffers.items[id];
    const loop_buffer *to = loop_operand_buffer(loops, op, 1);
    return from->kind == LOOP_LOCAL && from->output < 0 && loop_same_elements(from, to) &&
           def_use_is_written_once(f, id) && def_use_use_count(f, id) == 1 &&
           def_use_is_written_once(f, op->operand[1].buffer);
}

static bool may_write_anywhere(const loop_op *op)
{
    return !op->tile_depth && !op->table && !loop_is_copy(op) &&
           (loop_is_matmul(op) || loop_is_element_wise(op));
}

// The loop of the copy that walks what it reads as the writer's loop v walks it.
static uint32_t find_loop(const loop_op *copy, const loop_op *writer, uint32_t v)
{
    uint32_t u = 0;
    while (u < copy->var_count && (copy->operand[0].stride[u] != loop_result(writer)->stride[v] ||
                                   copy->extent[u] != writer->extent[v]))
        u++;
    return u;
}

// The writer's result where the copy takes it; false unless they walk all of the buffer between
// them in the same loops, and the innermost dim of either buffer is that of the other, whole: heads
// of 32 would write parts of sticks.
static bool find_place(const loop_op *copy, const loop_op *writer, const loop_buffer *to,
                       loop_access *out)
{
    const loop_access *from = &copy->operand[0], *written = loop_result(writer);
    uint32_t walked = 0;
    bool keeps_innermost = false;
    if (from->offset || written->offset || to->dim_count == 0) return false;
    *out = copy->operand[1];
    for (uint32_t v = 0; v < LOOP_MAX_VARS; v++) out->stride[v] = 0;
    for (uint32_t v = 0; v < writer->var_count; v++) {
        if (!written->stride[v]) continue;
        const uint32_t u = find_loop(copy, writer, v);
        if (u == copy->var_count || !copy->operand[1].stride[u]) return false;
        out->stride[v] = copy->operand[1].stride[u];
        keeps_innermost |= written->stride[v] == 1 && out->stride[v] == to->dim[0].stride &&
                           writer->extent[v] == to->dim[0].extent;
        walked++;
    }
    return walked == copy->var_count && keeps_innermost;
}

static bool write_through(loop_graph *loops, const def_use *f, const loop_op *copy)
{
    loop_access place;
    if (!is_between(loops, f, copy)) return false;
    loop_op *writer = &loops->ops.items[f->writer[copy->operand[0].buffer]];
    const loop_buffer *to = loop_operand_buffer(loops, copy, 1);
    if (!may_write_anywhere(writer) || !find_place(copy, writer, to, &place)) return false;
    if (!loop_walks_evenly(to, writer, &place)) return false;
    *loop_output_of(writer) = place;
    return true;
}

spyre_status pass_write_through_copies(loop_graph *loops, bool *out_changed)
{
    return def_use_drop_ops(loops, write_through, out_changed);
}
