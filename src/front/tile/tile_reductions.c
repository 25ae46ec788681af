// SPDX-License-Identifier: Apache-2.0
//
// Reductions along a cut loop. The result starts as the identity of the operation, in front of the
// outermost loop that cuts a reduced dim; each tile's partial result is combined with it. Where
// loops over kept dims stand outside and the result leaves them, it is accumulated in a buffer of
// one tile, which may live in LX, and copied behind the inner loop. Source: torch-spyre,
// docs/source/compiler/coarse_tiling_loops.md, "Reduction tiling".
//
// Combining inside of the op would need no buffers, but a kernel of the card starts from nothing.
#include "front/tile/tiling.h"

#include <math.h>

// An op that reduces along cut loops, and what replaces it.
typedef struct {
    tiling *t;
    loop_op_list *ops;      // the new order
    tile_path_list *paths;
    loop_op op;
    tile_path path;
    uint32_t first;         // the outermost level that cuts a reduced loop
} expansion;

bool tile_cuts_reduced(const loop_op *op, const tile_level *level)
{
    return level->var != LOOP_NO_DIM && !loop_result(op)->stride[level->var];
}

static spyre_status push(expansion *e, const loop_op *op, const tile_path *path)
{
    arena *memory = e->t->loops->memory;
    TRY(VEC_PUSH(memory, e->ops, *op));
    return VEC_PUSH(memory, e->paths, *path);
}

spyre_status tile_add_buffer(tiling *t, uint32_t like, uint8_t whole_at, uint32_t *out)
{
    loop_graph *loops = t->loops;
    loop_buffer fresh = loops->buffers.items[like];
    fresh.output = -1;
    *out = loops->buffers.count;
    TRY(VEC_PUSH(loops->memory, &loops->buffers, fresh));
    return VEC_PUSH(loops->memory, &t->whole_at, whole_at);
}

spyre_status tile_add_constant(tiling *t, double value, uint32_t like, uint32_t *out)
{
    loop_graph *loops = t->loops;
    const loop_buffer *result = &loops->buffers.items[like];
    loop_buffer constant = {.name = "identity",
                            .kind = LOOP_CONSTANT,
                            .value = value,
                            .dtype = result->dtype,
                            .format = result->format,
                            .stick = LOOP_NO_DIM,
                            .has_layout = true,
                            .output = -1,
                            .bytes = SPYRE_STICK_BYTES};
    *out = loops->buffers.count;
    TRY(VEC_PUSH(loops->memory, &loops->buffers, constant));
    return VEC_PUSH(loops->memory, &t->whole_at, LOOP_MAX_TILES);
}

loop_op tile_begin(const loop_op *from, const tile_path *path, opfunc func, uint32_t target,
                   uint32_t depth, tile_path *out_path)
{
    const loop_access *result = loop_result(from);
    loop_op op = {.op = func,
                  .name = from->name,
                  .stick = LOOP_NO_DIM,
                  .location = from->location,
                  .node = from->node};
    uint8_t at[LOOP_MAX_VARS];
    loop_access access = {.buffer = target, .offset = result->offset};
    for (uint32_t v = 0; v < from->var_count; v++) {
        at[v] = LOOP_NO_DIM;
        if (!result->stride[v]) continue;
        at[v] = (uint8_t)op.var_count++;
        op.extent[at[v]] = from->extent[v];
        op.dim_name[at[v]] = from->dim_name[v];
        op.split[at[v]] = 1;
        access.stride[at[v]] = result->stride[v];
        if (v == from->stick) op.stick = at[v];
    }
    op.operand[op.operand_count++] = access;
    *out_path = *path;
    out_path->depth = depth;
    out_path->combined = false;
    for (uint32_t l = 0; l < depth; l++)
        if (path->level[l].var != LOOP_NO_DIM) out_path->level[l].var = at[path->level[l].var];
    return op;
}

void tile_add_operand(loop_op *op, uint32_t buffer, bool moves)
{
    loop_access access = {.buffer = buffer};
    if (moves) {
        access = *loop_output_of(op);
        access.buffer = buffer;
    }
    for (uint32_t k = op->operand_count++; k > 0; k--) op->operand[k] = op->operand[k - 1];
    op->operand[0] = access;
}

// True when something outside of the loops around the accumulation reads the result.
static bool leaves_loops(const expansion *e, uint32_t result)
{
    const loop_graph *loops = e->t->loops;
    if (loops->buffers.items[result].output >= 0) return true;
    const tile_level *around = &e->path.level[e->first - 1];
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        const tile_path *path = &e->t->paths.items[i];
        bool inside = path->depth >= e->first &&
                      path->level[e->first - 1].scope == around->scope;
        if (!inside && loop_reads(op, result)) return true;
    }
    return false;
}

static spyre_status expand(expansion *e)
{
    uint32_t result = loop_output_of(&e->op)->buffer, sum = result, part, constant;
    bool copied = e->first > 0 && leaves_loops(e, result);
    uint8_t whole_at = (uint8_t)e->first;
    tile_path path;
    if (copied)
        TRY(tile_add_buffer(e->t, result, whole_at, &sum));
    else
        e->t->whole_at.items[result] = whole_at;
    TRY(tile_add_buffer(e->t, result, LOOP_MAX_TILES, &part));
    TRY(tile_add_constant(e->t, (double)opfunc_reduction_identity(e->op.op), result, &constant));

    loop_op fill = tile_begin(&e->op, &e->path, OPFUNC_IDENTITY, sum, e->first, &path);
    tile_add_operand(&fill, constant, false);
    TRY(push(e, &fill, &path));
    loop_output_of(&e->op)->buffer = part;
    TRY(push(e, &e->op, &e->path));
    loop_op combine =
        tile_begin(&e->op, &e->path, opfunc_pairwise(e->op.op), sum, e->path.depth, &path);
    tile_add_operand(&combine, part, true);
    tile_add_operand(&combine, sum, true);
    TRY(push(e, &combine, &path));
    if (!copied) return NULL;
    loop_op copy = tile_begin(&e->op, &e->path, OPFUNC_IDENTITY, result, e->first, &path);
    tile_add_operand(&copy, sum, true);
    return push(e, &copy, &path);
}

spyre_status tile_reductions(tiling *t)
{
    loop_op_list ops = {0};
    tile_path_list paths = {0};
    for (uint32_t i = 0; i < t->loops->ops.count; i++) {
        expansion e = {.t = t,
                       .ops = &ops,
                       .paths = &paths,
                       .op = t->loops->ops.items[i],
                       .path = t->paths.items[i]};
        while (e.first < e.path.depth && !tile_cuts_reduced(&e.op, &e.path.level[e.first]))
            e.first++;
        *t->loops->at_node = e.op.node;
        if (e.path.combined) e.first = e.path.depth;
        TRY(e.first < e.path.depth ? expand(&e) : push(&e, &e.op, &e.path));
    }
    t->loops->ops = ops;
    t->paths = paths;
    return NULL;
}
