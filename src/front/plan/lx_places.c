// SPDX-License-Identifier: Apache-2.0
//
// Bytes and addresses of buffers in LX: intermediates stay in each core's LX between kernels.
// lx_slices.c says which buffers could, a solver finds their addresses, the others stay in memory.
// The contents of LX last as long as the bundle, so nothing is moved in or out. Deciding op by op
// while walking the graph would be simpler, but a buffer that comes early and stays long then
// blocks all that come later.
#include "front/plan/lx_places.h"

#include <string.h>

#include "front/ir/lx_slices.h"
#include "front/memory/solver.h"

typedef struct {
    loop_graph *loops;
    lx_fit *fits;
    solver_problem problem;
    uint32_t *buffer_of; // by item
    uint32_t *item_of;   // by buffer, or SPYRE_NO_ID
} planner;

// The LX form of a buffer; its address comes later.
static void slice(loop_buffer *buffer, const lx_fit *r)
{
    buffer->in_lx = true;
    for (uint32_t d = 0; d < buffer->dim_count; d++) buffer->slices[d] = r->slices[d];
    buffer->bytes = loop_device_bytes(buffer);
}

static spyre_status add_item(planner *p, uint32_t id)
{
    loop_buffer *buffer = &p->loops->buffers.items[id];
    lx_fit *r = &p->fits[id];
    if (!r->why && !r->reads) r->why = "nothing reads it";
    buffer->why_in_memory = r->why;
    if (r->why) return NULL;
    int64_t whole = loop_device_bytes(buffer);
    loop_buffer sliced = *buffer;
    slice(&sliced, r);
    if (sliced.bytes > p->problem.capacity) {
        buffer->why_in_memory = "a core's slice is larger than LX";
        return NULL;
    }
    *buffer = sliced;
    p->item_of[id] = p->problem.count;
    p->buffer_of[p->problem.count] = id;
    p->problem.items[p->problem.count++] = (solver_item){.bytes = buffer->bytes,
                                                         .first = buffer->first_op,
                                                         .last = buffer->last_op,
                                                         .worth = whole * (1 + r->reads)};
    return NULL;
}

// Parents: the operands that die in the op and whose elements lie where the result's will.
static void add_parents(planner *p, uint32_t index)
{
    loop_op *op = &p->loops->ops.items[index];
    uint32_t child = p->item_of[loop_output_of(op)->buffer];
    if (child == SPYRE_NO_ID || p->problem.items[child].first != index) return;
    solver_item *item = &p->problem.items[child];
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        uint32_t parent = p->item_of[op->operand[k].buffer];
        bool known = parent == SPYRE_NO_ID;
        for (uint32_t i = 0; !known && i < item->parent_count; i++)
            known = item->parent[i] == parent;
        if (known || p->problem.items[parent].last != index) continue;
        if (p->problem.items[parent].bytes != item->bytes) continue;
        if (lx_in_place(p->loops, op, k)) item->parent[item->parent_count++] = parent;
    }
}

static void forget_place(loop_buffer *buffer)
{
    if (!buffer->in_lx) return;
    memset(buffer->slices, 0, sizeof buffer->slices);
    buffer->in_lx = false;
    buffer->memory_offset = buffer->bytes = 0;
}

static spyre_status begin(planner *p)
{
    loop_graph *loops = p->loops;
    uint32_t count = loops->buffers.count;
    for (uint32_t b = 0; b < count; b++) forget_place(&loops->buffers.items[b]);
    loop_find_live_ranges(loops);
    TRY(lx_fits_find(loops, &p->fits));
    TRY_NEW(loop_scratch(loops), p->problem.items, count);
    TRY_NEW(loop_scratch(loops), p->buffer_of, count);
    TRY_NEW(loop_scratch(loops), p->item_of, count);
    for (uint32_t b = 0; b < count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        p->item_of[b] = SPYRE_NO_ID;
        if (buffer->kind == LOOP_LOCAL && buffer->first_op != LOOP_UNUSED) TRY(add_item(p, b));
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) add_parents(p, i);
    return NULL;
}

// A shuffle without a place for its result is a copy to memory, which reads what each core has; so
// then its source has to be there, too.
static void settle_shuffles(loop_graph *loops)
{
    for (uint32_t i = loops->ops.count; i-- > 0;) {
        const loop_op *op = &loops->ops.items[i];
        loop_buffer *source = &loops->buffers.items[op->operand[0].buffer];
        if (op->op != OPFUNC_SHUFFLE || loop_operand_buffer(loops, op, 1)->in_lx) continue;
        if (source->in_lx) source->why_in_memory = "LX is full";
        source->in_lx = false;
        source->memory_offset = 0;
    }
}

spyre_status lx_places_choose(loop_graph *loops)
{
    planner p = {.loops = loops, .problem = {.memory = loop_scratch(loops)}};
    p.problem.capacity = lx_limit_bytes(loops);
    TRY(begin(&p));
    TRY(solver_run(&p.problem, loops->settings.layout_solver));
    TRY(status_at(solver_check(&p.problem), "LX"));
    for (uint32_t i = 0; i < p.problem.count; i++) {
        loop_buffer *buffer = &loops->buffers.items[p.buffer_of[i]];
        buffer->in_lx = p.problem.items[i].address != SOLVER_UNPLACED;
        buffer->memory_offset = buffer->in_lx ? p.problem.items[i].address : 0;
        if (!buffer->in_lx) buffer->why_in_memory = "LX is full";
    }
    settle_shuffles(loops);
    return NULL;
}
