// SPDX-License-Identifier: Apache-2.0
//
// A buffer has the dims of the op that wrote it, an input those of the program before. Windows of
// an image, say, are left as (b, 4, 4, 4, 4, c): 16 lines of four windows each are two dims, and
// x[:, 2:] begins inside of one of them. What writes windows may as well write lines, since several
// loops may walk one dim:
//     b1[8192*c0 + 2048*c1 + 512*c2 + ..] = b0[..]     b1: (2, 4, 4, ..), then (2, 16, ..)
// An input stays as it is. So a copy does that, whose loops are the input's dims. It costs a pass
// over the input and is made only where the op could not be compiled without.
#include "front/simplify/match_dims.h"

#include <string.h>

static bool has_dense_dims(const loop_buffer *buffer)
{
    return buffer->dim_count > 0 && buffer->dim_count <= LOOP_MAX_VARS && loop_is_dense(buffer);
}

static int64_t element_count(const loop_buffer *buffer)
{
    const loop_dim *last = &buffer->dim[buffer->dim_count - 1];
    return last->stride * last->extent;
}

// Whether a loop over `extent` elements of which the first has the index `first` in dim d moves
// within the dims, once it is split at their boundaries.
static bool can_follow_dims(const loop_buffer *buffer, uint32_t d, int64_t first, int64_t stride,
                            int64_t extent)
{
    for (; d < buffer->dim_count; d++, first = 0) {
        const loop_dim *dim = &buffer->dim[d];
        if (stride % dim->stride) return false;
        int64_t inner = loop_part_within(dim, first, stride / dim->stride, extent);
        if (inner == extent) return true;
        if (!inner) return false;
        extent /= inner;
        stride = dim->stride * dim->extent;
    }
    return false;
}

// How the loops of an op go with dims, each better than the one before.
typedef enum {
    FIT_NOT,
    FIT_SPLIT, // once they are split
    FIT_AS_THEY_ARE,
} loop_fit;

static loop_fit fit_of(const loop_buffer *buffer, const loop_op *op, const loop_access *access)
{
    int64_t first[LOOP_MAX_DIMS];
    if (loop_stays_in_dims(buffer, op, access)) return FIT_AS_THEY_ARE;
    loop_split_offset(buffer, access->offset, first);
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t stride = access->stride[v];
        uint32_t d = loop_dim_at(buffer, stride);
        if (stride < 0) return FIT_NOT;
        if (stride && !can_follow_dims(buffer, d, first[d], stride, op->extent[v])) return FIT_NOT;
    }
    return FIT_SPLIT;
}

// The dims between the strides of an access, from the innermost; false when they do not nest.
static bool find_dims(const loop_op *op, const loop_access *access, int64_t elements,
                      loop_buffer *out)
{
    int64_t stride = 1;
    out->dim_count = 0;
    while (stride < elements) {
        int64_t next = elements;
        for (uint32_t v = 0; v < op->var_count; v++) {
            if (access->stride[v] < 0) return false;
            if (access->stride[v] > stride && access->stride[v] < next) next = access->stride[v];
        }
        if (next % stride || out->dim_count == LOOP_MAX_DIMS) return false;
        out->dim[out->dim_count++] = (loop_dim){next / stride, stride};
        stride = next;
    }
    return loop_stays_in_dims(out, op, access);
}

// Whether a dim may begin at `stride` beside those of `buffer`.
static bool may_begin(const loop_buffer *buffer, int64_t stride)
{
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        int64_t other = buffer->dim[d].stride;
        if (stride % other && other % stride) return false;
    }
    return true;
}

// Joins dims of `buffer` where loops over those of `other` cannot be split to follow: (8, 7) beside
// (7, 8) is one of 56, (16, 6, 48) beside (24, 192) is (96, 48). What follows the dims of `buffer`
// follows these.
static loop_buffer join_dims(const loop_buffer *buffer, const loop_buffer *other)
{
    loop_buffer joined = {0};
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        const loop_dim dim = buffer->dim[d];
        if (may_begin(other, dim.stride))
            joined.dim[joined.dim_count++] = dim;
        else
            joined.dim[joined.dim_count - 1].extent *= dim.extent;
    }
    return joined;
}

static spyre_status add_in_front(loop_graph *loops, const loop_op *op)
{
    TRY(VEC_PUSH(loops->memory, &loops->ops, *op));
    for (uint32_t i = loops->ops.count - 1; i > 0; i--)
        loops->ops.items[i] = loops->ops.items[i - 1];
    loops->ops.items[0] = *op;
    return NULL;
}

static void read_copy(loop_graph *loops, uint32_t input, uint32_t copy)
{
    const loop_buffer *from = &loops->buffers.items[input], *to = &loops->buffers.items[copy];
    for (uint32_t i = 1; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
            loop_access *access = &op->operand[k];
            if (access->buffer == input && (!op->table || op->table != k) &&
                fit_of(to, op, access) > fit_of(from, op, access))
                access->buffer = copy;
        }
    }
}

static spyre_status copy_input(loop_graph *loops, const loop_op *near,
                               const loop_access *reader, loop_buffer *shape, bool *out_matched)
{
    const uint32_t input = reader->buffer;
    loop_op copy = loop_over_dims(near, OPFUNC_IDENTITY, &loops->buffers.items[input]);
    copy.stick = LOOP_NO_DIM; // is chosen later
    copy.operand[0].buffer = input;
    if (fit_of(shape, &copy, &copy.operand[1]) != FIT_AS_THEY_ARE) {
        const loop_buffer *from = &loops->buffers.items[input];
        if (fit_of(from, near, reader)) return NULL;
        *shape = join_dims(from, shape);
        if (!fit_of(shape, near, reader)) return NULL;
    }
    *out_matched = true;
    TRY(loop_add_in_dims(loops, input, shape->dim, shape->dim_count, &copy.operand[1].buffer));
    TRY(add_in_front(loops, &copy));
    read_copy(loops, input, copy.operand[1].buffer);
    return NULL;
}

// False when an op that moves within the dims which the buffer has would leave the others.
static bool all_fit(const loop_graph *loops, uint32_t buffer, const loop_buffer *shape)
{
    const loop_buffer *now = &loops->buffers.items[buffer];
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            const loop_access *access = &op->operand[k];
            if (access->buffer == buffer && loop_stays_in_dims(now, op, access) &&
                !loop_stays_in_dims(shape, op, access))
                return false;
        }
    }
    return true;
}

// Every change has one more op move within the dims, or else follow them; none less moves within.
static void change_dims(loop_graph *loops, const loop_op *near, const loop_access *reader,
                        loop_buffer *shape, bool *out_matched)
{
    const uint32_t buffer = reader->buffer;
    loop_buffer *to = &loops->buffers.items[buffer];
    if (!all_fit(loops, buffer, shape)) {
        if (fit_of(to, near, reader)) return;
        *shape = join_dims(to, shape);
        if (!fit_of(shape, near, reader)) return;
    }
    *out_matched = true;
    to->dim_count = shape->dim_count;
    memcpy(to->dim, shape->dim, sizeof to->dim);
}

spyre_status match_dims(loop_graph *loops, uint32_t index, bool *out_matched)
{
    const uint32_t ops = loops->ops.count;
    *out_matched = false;
    for (uint32_t k = 0; k + 1 < LOOP_MAX_OPERANDS; k++) {
        // Copies go in front, and what reads the same input, another operand perhaps, has them now.
        const loop_op op = loops->ops.items[index + loops->ops.count - ops];
        const loop_access *access = &op.operand[k];
        if (op.tile_depth || k + 1 >= op.operand_count) return NULL;
        const loop_buffer *from = &loops->buffers.items[access->buffer];
        loop_buffer shape = {0};
        bool is_table = op.table && op.table == k;
        if (from->kind == LOOP_CONSTANT || !has_dense_dims(from) || is_table ||
            fit_of(from, &op, access) == FIT_AS_THEY_ARE)
            continue;
        if (!find_dims(&op, access, element_count(from), &shape)) continue;
        if (from->kind == LOOP_LOCAL)
            change_dims(loops, &op, access, &shape, out_matched);
        else
            TRY(copy_input(loops, &op, access, &shape, out_matched));
    }
    return NULL;
}
