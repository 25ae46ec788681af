// SPDX-License-Identifier: Apache-2.0
//
// Runs the rows of invariant.def over a loop graph. A broken one is our fault, so the code is
// INTERNAL, and the message says after which pass, which rule, where and with which values.
#include "front/front.h"
#include "front/invariant.h"

static const struct {
    const char *number, *holds;
    uint32_t from;
    invariant_of_graph *graph; // one of the four
    invariant_of_buffer *buffer;
    invariant_of_op *op;
    invariant_of_access *access;
} rows[] = {
#define INVARIANT_ROW(number, kind, name, from, holds)                                             \
    {"I-" #number, holds, STAGE_##from, .kind = invariant_##name},
#include "front/invariant.def"
#undef INVARIANT_ROW
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static spyre_status check_buffers(const loop_graph *loops, invariant_of_buffer *check)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        spyre_status status = check(loops, buffer);
        if (status) return status_at(status, "buffer b%u %%%s", b, buffer->name);
    }
    return NULL;
}

static spyre_status check_ops(const loop_graph *loops, invariant_of_op *check)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        spyre_status status = check(loops, &loops->ops.items[i]);
        if (status) return status_at(status, "%s", loop_op_place(loops, i));
    }
    return NULL;
}

static spyre_status check_accesses(const loop_graph *loops, invariant_of_access *check)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            spyre_status status = check(loops, op, &op->operand[k]);
            if (status) return status_at(status, "%s", loop_access_place(loops, i, k));
        }
    }
    return NULL;
}

static spyre_status check_row(const loop_graph *loops, uint32_t row)
{
    if (rows[row].graph) return rows[row].graph(loops);
    if (rows[row].buffer) return check_buffers(loops, rows[row].buffer);
    if (rows[row].op) return check_ops(loops, rows[row].op);
    return check_accesses(loops, rows[row].access);
}

static spyre_status verify(const loop_graph *loops, uint32_t first_stage)
{
    arena *scratch = arena_create();
    spyre_status status = NULL;
    TRY_ALLOC(scratch);
    loop_graph view = *loops;
    view.memory = scratch;
    for (uint32_t i = 0; !status && i < ROW_COUNT; i++) {
        if (rows[i].from < first_stage || rows[i].from > loops->stage) continue;
        status = check_row(&view, i);
        if (status)
            status = status_at(status, "after pass %s: %s, %s", front_stage_name(loops->stage),
                               rows[i].number, rows[i].holds);
    }
    arena_destroy(scratch);
    return status;
}

spyre_status loop_verify(const loop_graph *loops)
{
    return verify(loops, 0);
}

spyre_status loop_verify_begun(const loop_graph *loops)
{
    return verify(loops, loops->stage);
}
