// SPDX-License-Identifier: Apache-2.0
//
// Runs the rows of invariant.def over a loop graph. A broken one is our fault, so the code is
// INTERNAL, and the message says after which pass, which rule, where and with which values.
#include "front/check/invariant.h"
#include "front/front.h"

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
#include "front/check/invariant.def"
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

static bool is_of_ops(uint32_t row)
{
    return rows[row].op || rows[row].access;
}

static spyre_status check_op(const loop_graph *loops, uint32_t row, uint32_t index)
{
    const loop_op *op = &loops->ops.items[index];
    if (rows[row].op) {
        spyre_status status = rows[row].op(loops, op);
        return status ? status_at(status, "%s", loop_op_place(loops, index)) : NULL;
    }
    for (uint32_t k = 0; k < op->operand_count; k++) {
        spyre_status status = rows[row].access(loops, op, &op->operand[k]);
        if (status) return status_at(status, "%s", loop_access_place(loops, index, k));
    }
    return NULL;
}

// Rows of ops and accesses that follow each other, op by op: a walk over all ops for each row would
// fetch them from memory as often.
static spyre_status check_ops(const loop_graph *loops, const uint32_t *some, uint32_t count,
                              uint32_t *out_row)
{
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t n = 0; n < count; n++) {
            *out_row = some[n];
            TRY(check_op(loops, some[n], i));
        }
    return NULL;
}

// The rows that hold from `first_stage` or later.
static spyre_status check_rows(const loop_graph *loops, uint32_t first_stage, uint32_t *out_row)
{
    uint32_t some[ROW_COUNT], count = 0;
    for (uint32_t row = 0; row < ROW_COUNT; row++) {
        if (rows[row].from < first_stage || rows[row].from > loops->stage) continue;
        if (is_of_ops(row)) {
            some[count++] = row;
            continue;
        }
        TRY(check_ops(loops, some, count, out_row));
        count = 0;
        *out_row = row;
        if (rows[row].graph)
            TRY(rows[row].graph(loops));
        else
            TRY(check_buffers(loops, rows[row].buffer));
    }
    return check_ops(loops, some, count, out_row);
}

static spyre_status verify(const loop_graph *loops, uint32_t first_stage)
{
    arena *scratch = arena_create();
    uint32_t row = 0;
    TRY_ALLOC(scratch);
    loop_graph view = *loops;
    view.memory = scratch;
    spyre_status status = check_rows(&view, first_stage, &row);
    if (status)
        status = status_at(status, "after pass %s: %s, %s", front_stage_name(loops->stage),
                           rows[row].number, rows[row].holds);
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
