// SPDX-License-Identifier: Apache-2.0
//
// Reductions along a cut loop. The result starts as the identity of the operation, in front of the
// outermost loop that cuts a reduced dim; each tile's partial result is combined with it. Where
// loops over kept dims stand outside and the result leaves them, it is accumulated in a buffer of
// one tile, which may live in LX, and copied behind the inner loop. Source: torch-spyre,
// docs/source/compiler/coarse_tiling_loops.md, "Reduction tiling".
//
// Combining inside of the op would need no buffers, but a kernel of the card starts from nothing.
#include "front/tiling.h"

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

static bool cuts_reduced(const loop_op *op, const tile_level *level)
{
    return level->var != LOOP_NO_DIM && !op->operand[op->operand_count - 1].stride[level->var];
}

static opfunc combination(opfunc op)
{
    if (op == OPFUNC_MAX) return OPFUNC_MAXIMUM;
    if (op == OPFUNC_MIN) return OPFUNC_MINIMUM;
    return OPFUNC_ADD;
}

static double identity(opfunc op)
{
    if (op == OPFUNC_MAX) return -HUGE_VAL;
    if (op == OPFUNC_MIN) return HUGE_VAL;
    return 0;
}

static spyre_status push(expansion *e, const loop_op *op, const tile_path *path)
{
    arena *memory = e->t->loops->memory;
    TRY(VEC_PUSH(memory, e->ops, *op));
    return VEC_PUSH(memory, e->paths, *path);
}

// A buffer like the op's result that does not leave the graph.
static spyre_status add_buffer(expansion *e, uint8_t whole_at, uint32_t *out)
{
    loop_graph *loops = e->t->loops;
    loop_buffer fresh = loops->buffers.items[loop_output_of(&e->op)->buffer];
    fresh.output = -1;
    *out = loops->buffers.count;
    TRY(VEC_PUSH(loops->memory, &loops->buffers, fresh));
    return VEC_PUSH(loops->memory, &e->t->whole_at, whole_at);
}

static spyre_status add_identity(expansion *e, uint32_t *out)
{
    loop_graph *loops = e->t->loops;
    const loop_buffer *result = &loops->buffers.items[loop_output_of(&e->op)->buffer];
    loop_buffer constant = {.name = "identity",
                            .kind = LOOP_CONSTANT,
                            .value = identity(e->op.op),
                            .dtype = result->dtype,
                            .format = result->format,
                            .stick = LOOP_NO_DIM,
                            .has_layout = true,
                            .output = -1,
                            .bytes = SPYRE_STICK_BYTES};
    *out = loops->buffers.count;
    TRY(VEC_PUSH(loops->memory, &loops->buffers, constant));
    return VEC_PUSH(loops->memory, &e->t->whole_at, LOOP_MAX_TILES);
}

// An op over the kept loops of the reduction that writes `target` and has the first `depth` levels.
static loop_op begin(const expansion *e, opfunc func, uint32_t target, uint32_t depth,
                     tile_path *out_path)
{
    const loop_op *from = &e->op;
    const loop_access *result = &from->operand[from->operand_count - 1];
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
    *out_path = e->path;
    out_path->depth = depth;
    for (uint32_t l = 0; l < depth; l++) out_path->level[l].var = at[e->path.level[l].var];
    return op;
}

// Puts an operand that moves as the result does, or not at all, in front of the others.
static void add_operand(loop_op *op, uint32_t buffer, bool moves)
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
        bool reads = false, inside = path->depth >= e->first;
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            reads |= op->operand[k].buffer == result;
        if (inside) inside = path->level[e->first - 1].scope == around->scope;
        if (reads && !inside) return true;
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
        TRY(add_buffer(e, whole_at, &sum));
    else
        e->t->whole_at.items[result] = whole_at;
    TRY(add_buffer(e, LOOP_MAX_TILES, &part));
    TRY(add_identity(e, &constant));

    loop_op fill = begin(e, OPFUNC_IDENTITY, sum, e->first, &path);
    add_operand(&fill, constant, false);
    TRY(push(e, &fill, &path));
    loop_output_of(&e->op)->buffer = part;
    TRY(push(e, &e->op, &e->path));
    loop_op combine = begin(e, combination(e->op.op), sum, e->path.depth, &path);
    add_operand(&combine, part, true);
    add_operand(&combine, sum, true);
    TRY(push(e, &combine, &path));
    if (!copied) return NULL;
    loop_op copy = begin(e, OPFUNC_IDENTITY, result, e->first, &path);
    add_operand(&copy, sum, true);
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
        while (e.first < e.path.depth && !cuts_reduced(&e.op, &e.path.level[e.first])) e.first++;
        *t->loops->at_node = e.op.node;
        TRY(e.first < e.path.depth ? expand(&e) : push(&e, &e.op, &e.path));
    }
    t->loops->ops = ops;
    t->paths = paths;
    return NULL;
}
