// SPDX-License-Identifier: Apache-2.0
//
// The counted loop in the place of repeated steps: the body of one step, in front of it what the
// steps need and the first values of what they hand on, behind each iteration the new values. What
// an iteration makes and the next one needs lies in a buffer that outlives it; where the old value
// is still read after the new one is made, the new one is copied there at the end.
#include "front/reroll/reroll.h"

typedef struct {
    reroll *r;
    loop_graph *loops;
    loop_op_list ops;    // the new order
    bool *made, *needed; // by buffer: the steps write it, read it
    uint32_t *held;      // by position: the buffer that holds the value between iterations
    uint32_t tiles;      // number of the loop
} roller;

static const loop_op *old_op(const roller *b, uint32_t index)
{
    return &b->r->loops->ops.items[index];
}

static spyre_status push(roller *b, const loop_op *op)
{
    return VEC_PUSH(b->loops->memory, &b->ops, *op);
}

static void put_inside(roller *b, loop_op *op)
{
    op->tile_depth = 1;
    op->tiles[0] = b->tiles;
}

// --- Around the loop

static void mark_buffers(roller *b)
{
    for (uint32_t i = 0; i < b->r->loops->ops.count; i++) {
        const loop_op *op = old_op(b, i);
        if (b->r->step_of[i] == SPYRE_NO_ID) continue;
        b->made[loop_result(op)->buffer] = true;
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            b->needed[op->operand[k].buffer] = true;
    }
}

static bool touches(const loop_op *op, const bool *marks)
{
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (marks[op->operand[k].buffer]) return true;
    return false;
}

// Ops between the steps go in front of the loop where they do not depend on it, else behind it.
static spyre_status add_others(roller *b, bool behind)
{
    const reroll *r = b->r;
    uint32_t first = reroll_op(r, 0, 0), last = reroll_op(r, r->steps - 1, r->length - 1);
    for (uint32_t i = 0; i < r->loops->ops.count; i++) {
        const loop_op *op = old_op(b, i);
        uint32_t result = loop_result(op)->buffer;
        bool depends = i > first && touches(op, b->made);
        if (r->step_of[i] != SPYRE_NO_ID) continue;
        if (i > first && i < last && op->tile_depth)
            reroll_refuse(b->r, i, "it stands in another loop");
        if (depends && b->needed[result])
            reroll_refuse(b->r, i, "a step needs it and it needs a step");
        if (depends) b->made[result] = true;
        if (depends == behind) TRY(push(b, op));
    }
    return NULL;
}

// --- Values that iterations hand on

// A copy of all of `target` from another buffer of its dims, or of one element of it.
static spyre_status add_copy(roller *b, uint32_t target, const loop_access *source, bool moves,
                             const loop_op *like, bool inside)
{
    const loop_buffer *to = &b->loops->buffers.items[target];
    loop_op op = loop_over_dims(like, OPFUNC_IDENTITY, to);
    op.name = like->name;
    op.operand[1].buffer = target;
    if (!moves) op.operand[0] = (loop_access){0};
    op.operand[0].buffer = source->buffer;
    op.operand[0].offset = source->offset;
    if (inside) put_inside(b, &op);
    return push(b, &op);
}

static bool moves(const loop_access *access)
{
    for (uint32_t v = 0; v < LOOP_MAX_VARS; v++)
        if (access->stride[v]) return true;
    return false;
}

// True when nothing but step 0 of this value reads the buffer of the first value.
static bool is_ours(const roller *b, uint32_t q)
{
    const reroll *r = b->r;
    const loop_buffer *first = &r->loops->buffers.items[r->results[q].first];
    uint32_t reads = 0;
    if (first->kind != LOOP_LOCAL || first->output >= 0 || first->tile_depth) return false;
    for (uint32_t p = 0; p < r->length; p++)
        for (uint32_t k = 0; k + 1 < old_op(b, reroll_op(r, 0, p))->operand_count; k++) {
            const reroll_operand *o = &r->operands[p][k];
            reads += o->source == REROLL_CARRY && o->from == q;
        }
    return reads == def_use_use_count(&r->f, r->results[q].first);
}

static void rename_all(const roller *b, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < b->ops.count; i++)
        for (uint32_t k = 0; k < b->ops.items[i].operand_count; k++)
            if (b->ops.items[i].operand[k].buffer == from) b->ops.items[i].operand[k].buffer = to;
}

static spyre_status begin_value(roller *b, uint32_t q)
{
    const reroll_result *result = &b->r->results[q];
    const loop_op *like = old_op(b, reroll_op(b->r, 0, q));
    uint32_t mine = reroll_buffer(b->r, q);
    const loop_buffer *first = &b->loops->buffers.items[result->first];
    bool walks = moves(&result->access);
    bool alike = walks && reroll_same_places(first, &b->loops->buffers.items[mine]) &&
                 reroll_same_strides(b->loops, &result->access, &result->walk) &&
                 result->access.offset == result->walk.offset;
    if (!alike && (walks || first->kind != LOOP_CONSTANT)) {
        reroll_refuse(b->r, reroll_op(b->r, 0, q), "its first value has another layout");
        return NULL;
    }
    if (b->loops->buffers.items[mine].dim_count > LOOP_MAX_VARS) {
        reroll_refuse(b->r, reroll_op(b->r, 0, q), "it has too many dims");
        return NULL;
    }
    b->held[q] = mine;
    if (alike && is_ours(b, q)) {
        if (!result->in_place)
            b->held[q] = result->first;
        else
            rename_all(b, result->first, mine);
        return NULL;
    }
    if (!result->in_place) {
        loop_buffer fresh = b->loops->buffers.items[mine];
        fresh.output = -1;
        b->held[q] = b->loops->buffers.count;
        TRY(VEC_PUSH(b->loops->memory, &b->loops->buffers, fresh));
    }
    loop_access from = {.buffer = result->first, .offset = walks ? 0 : result->access.offset};
    return add_copy(b, b->held[q], &from, walks, like, false);
}

static spyre_status end_value(roller *b, uint32_t q)
{
    const loop_op *like = old_op(b, reroll_op(b->r, 0, q));
    loop_access from = {.buffer = reroll_buffer(b->r, q)};
    if (from.buffer == b->held[q]) return NULL;
    return add_copy(b, b->held[q], &from, true, like, true);
}

// --- The body

static spyre_status add_op(roller *b, uint32_t p)
{
    loop_op op = *old_op(b, reroll_op(b->r, 1, p));
    const loop_op *first = old_op(b, reroll_op(b->r, 0, p));
    op.name = first->name;
    op.node = first->node;
    for (uint32_t k = 0; k < op.operand_count; k++) {
        const reroll_operand *o = &b->r->operands[p][k];
        loop_access *access = &op.operand[k];
        if (o->source == REROLL_OWN) access->buffer = reroll_buffer(b->r, o->from);
        if (o->source == REROLL_CARRY) access->buffer = b->held[o->from];
        if (o->source != REROLL_SHARED) continue;
        access->offset = first->operand[k].offset;
        access->tile_stride[0] = o->step;
        if (o->step) b->loops->buffers.items[access->buffer].walked = true;
    }
    put_inside(b, &op);
    return push(b, &op);
}

static void check_places(const roller *b)
{
    for (uint32_t i = 0; i < b->ops.count && !b->r->why_not; i++) {
        const loop_op *op = &b->ops.items[i];
        loop_location place;
        if (!op->tile_depth || op->tiles[0] != b->tiles) continue;
        for (uint32_t k = 0; k < op->operand_count; k++) {
            const char *why = loop_locate(b->loops, op, &op->operand[k], &place);
            if (why) reroll_refuse(b->r, reroll_op(b->r, 0, 0), why);
        }
    }
}

spyre_status reroll_build(reroll *r, loop_graph *loops)
{
    roller b = {.r = r, .loops = loops, .tiles = loops->tiles.count};
    TRY_NEW(loops->memory, b.made, loops->buffers.count);
    TRY_NEW(loops->memory, b.needed, loops->buffers.count);
    TRY_NEW(loops->memory, b.held, r->length);
    loop_tiles tiles = {.count = r->steps, .name = "steps"};
    TRY(VEC_PUSH(loops->memory, &loops->tiles, tiles));
    mark_buffers(&b);
    TRY(add_others(&b, false));
    for (uint32_t q = 0; q < r->length && !r->why_not; q++)
        if (r->results[q].carried) TRY(begin_value(&b, q));
    if (r->why_not) return NULL;
    for (uint32_t p = 0; p < r->length; p++) TRY(add_op(&b, p));
    for (uint32_t q = 0; q < r->length; q++) {
        if (r->results[q].carried) TRY(end_value(&b, q));
        bool stays = r->results[q].read_outside || r->results[q].in_place;
        if (r->operands[q][old_op(&b, reroll_op(r, 0, q))->operand_count - 1].source == REROLL_OWN)
            loops->buffers.items[reroll_buffer(r, q)].tile_depth = !stays;
    }
    TRY(add_others(&b, true));
    check_places(&b);
    loops->ops = b.ops;
    return NULL;
}
