// SPDX-License-Identifier: Apache-2.0
//
// Cuts what the schedule has put into loops: the ops' own loops, and the buffers that live inside
// of one iteration, which shrink to a tile. All other buffers stay whole, and accesses walk through
// them tile by tile: inputs, what outlives its loop (written slice by slice, without a copy), and
// what the iterations accumulate.
#include "front/tile/tiling.h"

#include "bundle/unroll.h"

typedef struct {
    tiling *t;
    uint32_t *first; // by buffer: an op that touches it, plus 1
} cutter;

// --- Buffers

// How the accesses of a buffer move at one level.
typedef struct {
    bool seen, agree;
    int64_t step, first;
} movement;

static void add_movement(const cutter *c, uint32_t index, uint32_t k, uint32_t at, movement *m)
{
    const loop_op *op = &c->t->loops->ops.items[index];
    const tile_path *path = &c->t->paths.items[index];
    int64_t step = tile_step(op, path, at, k), first = 0;
    bool inside = step == 0 || tile_stays_inside(c->t->loops, op, path, at, k, &first);
    if (!m->seen) *m = (movement){true, inside, step, first};
    m->agree = m->agree && inside && step == m->step && first == m->first;
}

static movement find_movement(const cutter *c, uint32_t buffer, uint32_t at)
{
    movement m = {0};
    for (uint32_t i = 0; i < c->t->loops->ops.count; i++) {
        const loop_op *op = &c->t->loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++)
            if (op->operand[k].buffer == buffer) add_movement(c, i, k, at, &m);
    }
    return m;
}

static void remove_dim(loop_buffer *b, uint8_t gone)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->dim_count; i++) {
        if (b->order[i] == gone) continue;
        b->order[kept++] = b->order[i] > gone ? b->order[i] - 1 : b->order[i];
    }
    b->dim_count--;
    for (uint32_t d = gone; d < b->dim_count; d++) b->dim[d] = b->dim[d + 1];
    if (b->stick != LOOP_NO_DIM && b->stick > gone) b->stick--;
}

// Makes the buffer one of the tiles that a level cuts it into; false when they are not all of it.
static bool shrink(loop_buffer *b, const movement *m, int64_t count)
{
    if (m->step == 0) return true;
    uint8_t d = (uint8_t)loop_dim_at(b, m->step);
    if (m->first || m->step % b->dim[d].stride) return false;
    int64_t extent = m->step / b->dim[d].stride;
    if (extent * count != b->dim[d].extent) return false;
    if (extent == 1 && d == b->stick) return false;
    b->dim[d].extent = extent;
    if (extent == 1) remove_dim(b, d);
    return true;
}

// A buffer shrinks in the loops that all ops that touch it are inside of, and walk alike.
static void shrink_buffer(cutter *c, uint32_t id)
{
    loop_graph *loops = c->t->loops;
    loop_buffer *b = &loops->buffers.items[id];
    if (b->kind != LOOP_LOCAL || b->output >= 0 || !c->first[id]) return;
    const loop_op *some = &loops->ops.items[c->first[id] - 1];
    uint32_t depth = some->tile_depth;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            if (op->operand[k].buffer != id) continue;
            uint32_t shared = loop_shared_tiles(some, op);
            if (shared < depth) depth = shared;
        }
    }
    while (b->tile_depth < depth) {
        movement m = find_movement(c, id, b->tile_depth);
        if (!m.agree) return;
        if (!shrink(b, &m, loops->tiles.items[some->tiles[b->tile_depth]].count)) return;
        b->tile_depth++;
    }
}

// --- Ops

// A reduction whose tiles are one element is a copy of it; the combination does the work.
static spyre_status settle_reduction(const loop_graph *loops, uint32_t index)
{
    loop_op *op = &loops->ops.items[index];
    if (opfunc_describe(op->op)->kind != OPFUNC_KIND_REDUCTION) return NULL;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_reduced(op, v)) return NULL;
    if (op->op == OPFUNC_MEAN) {
        *loops->at_node = SPYRE_NO_ID;
        return status_new(SPYRE_UNSUPPORTED, "%s: tiles of one element of a mean",
                          loop_op_place(loops, index));
    }
    op->op = OPFUNC_IDENTITY;
    return NULL;
}

static spyre_status cut_count(loop_graph *loops, const loop_op *op, const tile_path *path,
                              loop_access *access)
{
    const loop_count *was = loop_count_of(loops, access);
    if (!was) return NULL;
    loop_count count = *was;
    for (uint32_t l = 0; l < path->depth; l++) {
        uint8_t v = path->level[l].var;
        count.tile_step[l] =
            v == LOOP_NO_DIM ? 0 : count.step[v] * (int32_t)tile_extent(op, path, l + 1, v);
    }
    return loop_set_count(loops, access, count);
}

static spyre_status cut_op(const cutter *c, uint32_t index)
{
    loop_graph *loops = c->t->loops;
    loop_op *op = &loops->ops.items[index];
    const tile_path *path = &c->t->paths.items[index];
    for (uint32_t k = 0; k < op->operand_count; k++) {
        loop_access *access = &op->operand[k];
        loop_buffer *buffer = &loops->buffers.items[access->buffer];
        for (uint32_t l = 0; l < path->depth; l++) {
            bool walks = l >= buffer->tile_depth;
            access->tile_stride[l] = walks ? tile_step(op, path, l, k) : 0;
            buffer->walked |= access->tile_stride[l] != 0;
        }
        TRY(cut_count(loops, op, path, access));
    }
    for (uint32_t l = 0; l < path->depth; l++) {
        const tile_level *level = &path->level[l];
        if (level->var != LOOP_NO_DIM) op->extent[level->var] /= level->count;
    }
    for (uint32_t v = op->var_count; v-- > 0;)
        if (op->extent[v] == 1) TRY(loop_remove_var(loops, op, v));
    return path->depth ? settle_reduction(loops, index) : NULL;
}

// A tile that the layout cannot express is one of parts of sticks of a buffer that stays whole.
static spyre_status check_op(const loop_graph *loops, uint32_t index)
{
    const loop_op *op = &loops->ops.items[index];
    for (uint32_t k = 0; k < op->operand_count && op->tile_depth; k++) {
        loop_location place;
        const char *why = loop_locate(loops, op, &op->operand[k], &place);
        if (!why) continue;
        *loops->at_node = SPYRE_NO_ID;
        return status_new(SPYRE_UNSUPPORTED, "%s: operand %u in tiles of %s: it %s",
                          loop_op_place(loops, index), k,
                          loops->tiles.items[op->tiles[0]].name, why);
    }
    return NULL;
}

// Steps of the nest of counted loops that begins at op `first`; *behind: the op behind it.
static int64_t count_steps(const loop_graph *loops, uint32_t first, uint32_t *behind)
{
    int64_t total = 0;
    uint32_t nest = loops->ops.items[first].tiles[0], i = first;
    for (; i < loops->ops.count && total <= BUNDLE_MOST_UNROLLED; i++) {
        const loop_op *op = &loops->ops.items[i];
        int64_t steps = 1;
        if (!op->tile_depth || op->tiles[0] != nest) break;
        for (uint32_t l = 0; l < op->tile_depth && steps <= BUNDLE_MOST_UNROLLED; l++)
            if (__builtin_mul_overflow(steps, loops->tiles.items[op->tiles[l]].count, &steps))
                steps = INT64_MAX / 2;
        total += steps;
    }
    while (i < loops->ops.count && loops->ops.items[i].tile_depth &&
           loops->ops.items[i].tiles[0] == nest)
        i++;
    *behind = i;
    return total;
}

void tile_mark_unrolled(loop_graph *loops)
{
    for (uint32_t i = 0, behind; i < loops->ops.count; i = behind) {
        behind = i + 1;
        if (!loops->ops.items[i].tile_depth) continue;
        bool unrolled = count_steps(loops, i, &behind) <= BUNDLE_MOST_UNROLLED;
        for (uint32_t at = i; at < behind; at++)
            for (uint32_t l = 0; l < loops->ops.items[at].tile_depth; l++)
                loops->tiles.items[loops->ops.items[at].tiles[l]].unrolled =
                    unrolled && loops->settings.unroll_loops;
    }
}

spyre_status tile_apply(tiling *t)
{
    loop_graph *loops = t->loops;
    cutter c = {.t = t, .first = ARENA_NEW(loop_scratch(loops), uint32_t, loops->buffers.count)};
    TRY_ALLOC(c.first);
    for (uint32_t i = loops->ops.count; i-- > 0;) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) c.first[op->operand[k].buffer] = i + 1;
    }
    for (uint32_t b = 0; b < loops->buffers.count; b++) shrink_buffer(&c, b);
    for (uint32_t i = 0; i < loops->ops.count; i++) TRY(cut_op(&c, i));
    for (uint32_t i = 0; i < loops->ops.count; i++) TRY(check_op(loops, i));
    tile_mark_unrolled(loops);
    return NULL;
}
