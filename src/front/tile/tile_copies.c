// SPDX-License-Identifier: Apache-2.0
//
// Copies of tiles. What comes from outside of a stretch with tiles for LX, and is read by several
// of its ops, would be read from memory by each of them. An identity in front of the first one
// brings each iteration's tile, and the ops read that:
//
//     mean x; sub x, mean     ->    identity x to t; mean t; sub t, mean
//
// Where LX then has no room for the tile, lx_planning drops the copy (lx_copies_forward).
#include "front/tile/tiling.h"

#include <assert.h>
#include <string.h>

// Loops that move both accesses, of one buffer, by the same strides are as long.
static bool walk_alike(const loop_op *a, uint32_t i, const loop_op *b, uint32_t j)
{
    uint32_t balance = 0;
    for (uint32_t u = 0; u < a->var_count; u++) balance += a->operand[i].stride[u] != 0;
    for (uint32_t v = 0; v < b->var_count; v++) {
        bool found = !b->operand[j].stride[v];
        balance -= !found;
        for (uint32_t u = 0; u < a->var_count && !found; u++)
            found = a->operand[i].stride[u] == b->operand[j].stride[v] &&
                    a->extent[u] == b->extent[v];
        if (!found) return false;
    }
    return balance == 0;
}

bool tile_reads_alike(const loop_op *first, uint32_t other, uint8_t first_var, const loop_op *op,
                      uint32_t k, uint8_t var)
{
    const loop_access *access = &op->operand[k];
    return !op->table && !access->offset && !access->count && access->stride[var] > 0 &&
           access->stride[var] == first->operand[other].stride[first_var] &&
           walk_alike(first, other, op, k);
}

// The dims of the loops that walk the access, by rising strides; false where they overlap.
static bool take_dims(const loop_op *op, const loop_access *access, loop_buffer *out)
{
    out->dim_count = 0;
    for (uint32_t v = 0; v < op->var_count; v++) {
        const loop_dim dim = {op->extent[v], access->stride[v]};
        if (!dim.stride) continue;
        uint32_t at = out->dim_count++;
        for (; at > 0 && out->dim[at - 1].stride > dim.stride; at--)
            out->dim[at] = out->dim[at - 1];
        out->dim[at] = dim;
    }
    for (uint32_t d = 0; d < out->dim_count; d++) {
        const loop_dim *dim = &out->dim[d];
        if (dim->stride < 1) return false;
        if (d + 1 < out->dim_count && dim->stride * dim->extent > dim[1].stride) return false;
    }
    return out->dim_count > 0;
}

// The order of the dims that they are parts of; a stick is a whole dim.
static bool take_order(const loop_buffer *from, loop_buffer *out)
{
    uint32_t placed = 0;
    for (uint32_t n = 0; n < from->dim_count; n++)
        for (uint8_t d = 0; d < out->dim_count; d++) {
            const uint8_t whole = (uint8_t)loop_dim_at(from, out->dim[d].stride);
            if (whole != from->order[n]) continue;
            out->order[placed++] = d;
            if (whole != from->stick) continue;
            if (memcmp(&out->dim[d], &from->dim[whole], sizeof out->dim[d])) return false;
            out->stick = d;
        }
    return placed == out->dim_count;
}

bool tile_shape_copy(const loop_graph *loops, const loop_op *op, uint32_t k, loop_buffer *out)
{
    const loop_buffer *b = loop_operand_buffer(loops, op, k);
    if (!b->has_layout || b->exx2 || b->kind == LOOP_CONSTANT) return false;
    *out = *b;
    out->kind = LOOP_LOCAL;
    out->output = -1;
    out->replaced_by = 0;
    out->stick = LOOP_NO_DIM;
    out->fixed_size = NULL;
    return take_dims(op, &op->operand[k], out) && take_order(b, out) &&
           (b->stick == LOOP_NO_DIM) == (out->stick == LOOP_NO_DIM);
}

// The copy of the whole buffer, which will be cut as its readers are.
static spyre_status describe(tiling *t, const tile_copy *copy, loop_op *out, tile_path *out_path)
{
    const loop_graph *loops = t->loops;
    const loop_op *reader = &loops->ops.items[copy->first];
    const loop_access *access = &reader->operand[copy->operand];
    uint32_t twin;
    TRY(tile_add_buffer(t, access->buffer, LOOP_MAX_TILES, &twin));
    loop_buffer *b = &loops->buffers.items[twin];
    loop_buffer shape;
    const bool has_shape = tile_shape_copy(loops, reader, copy->operand, &shape);
    assert(has_shape);
    (void)has_shape;
    *b = shape;
    *out = loop_over_dims(reader, OPFUNC_IDENTITY, b);
    out->operand[0].buffer = access->buffer;
    out->operand[1].buffer = twin;
    *out_path = t->paths.items[copy->first];
    tile_level *level = &out_path->level[0];
    const int64_t stride = access->stride[level->var];
    for (uint8_t v = 0; v < out->var_count; v++)
        if (out->operand[0].stride[v] == stride) level->var = v;
    return NULL;
}

static void redirect(const tiling *t, const tile_copy *copy, uint32_t twin)
{
    loop_op *ops = t->loops->ops.items;
    const loop_op first = ops[copy->first];
    const uint8_t first_var = t->paths.items[copy->first].level[0].var;
    for (uint32_t i = copy->first; i < copy->end; i++) {
        const tile_path *path = &t->paths.items[i];
        if (!path->depth || path->level[0].scope != copy->scope) continue;
        for (uint32_t k = 0; k + 1 < ops[i].operand_count; k++)
            if (ops[i].operand[k].buffer == first.operand[copy->operand].buffer &&
                tile_reads_alike(&first, copy->operand, first_var, &ops[i], k, path->level[0].var))
                ops[i].operand[k].buffer = twin;
    }
}

spyre_status tile_copies(tiling *t)
{
    arena *memory = t->loops->memory;
    loop_op_list ops = {0};
    tile_path_list paths = {0};
    if (!t->copies.count) return NULL;
    for (uint32_t i = 0; i < t->loops->ops.count; i++) {
        for (uint32_t n = 0; n < t->copies.count; n++) {
            const tile_copy *copy = &t->copies.items[n];
            loop_op op;
            tile_path path;
            if (copy->first != i) continue;
            TRY(describe(t, copy, &op, &path));
            redirect(t, copy, op.operand[1].buffer);
            TRY(VEC_PUSH(memory, &ops, op));
            TRY(VEC_PUSH(memory, &paths, path));
        }
        TRY(VEC_PUSH(memory, &ops, t->loops->ops.items[i]));
        TRY(VEC_PUSH(memory, &paths, t->paths.items[i]));
    }
    t->loops->ops = ops;
    t->paths = paths;
    return NULL;
}
