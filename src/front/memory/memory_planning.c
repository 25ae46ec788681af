// SPDX-License-Identifier: Apache-2.0
//
// memory_planning: gives local buffers that neither leave the segment nor live in LX a place in one
// pool, whose size the solver keeps small, and constants a stick each.
#include "front/front.h"
#include "front/memory/solver.h"

#include <inttypes.h>

static void size_buffers(loop_graph *loops)
{
    int64_t constants = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->first_op == LOOP_UNUSED && buffer->kind != LOOP_INPUT && buffer->output < 0)
            continue;
        buffer->bytes = loop_device_bytes(buffer);
        if (buffer->kind != LOOP_CONSTANT) continue;
        buffer->memory_offset = constants;
        constants += SPYRE_STICK_BYTES;
    }
}

// The writer of the largest is to run elsewhere: its result is then no intermediate.
static spyre_status refuse(const loop_graph *loops, int64_t total)
{
    const loop_buffer *largest = NULL;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (loop_in_pool(buffer) && (!largest || buffer->bytes > largest->bytes)) largest = buffer;
    }
    *loops->at_node = loops->ops.items[largest->first_op].node;
    return status_new(SPYRE_UNSUPPORTED,
                      "intermediates of %" PRId64 " bytes, the largest %" PRId64
                      ", do not fit the pool: a segment of memory holds %llu",
                      total, largest->bytes, (unsigned long long)BUNDLE_SEGMENT_BYTES);
}

// A result never takes the place of an operand here: a load that runs ahead of a store to the same
// bytes could not be told from one that must wait for it.
static spyre_status plan_pool(loop_graph *loops)
{
    arena *memory = loop_scratch(loops);
    solver_problem problem = {.memory = memory,
                              .items = ARENA_NEW(memory, solver_item, loops->buffers.count),
                              .capacity = (int64_t)BUNDLE_SEGMENT_BYTES};
    bool shares = loops->settings.memory_plan;
    uint32_t at = 0, end = loops->ops.count;
    int64_t total = 0;
    TRY_ALLOC(problem.items);
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (!loop_in_pool(buffer)) continue;
        total += buffer->bytes;
        problem.items[problem.count++] = (solver_item){.bytes = buffer->bytes,
                                                       .first = shares ? buffer->first_op : 0,
                                                       .last = shares ? buffer->last_op : end,
                                                       .worth = buffer->bytes};
    }
    TRY(solver_run(&problem, 0));
    TRY(status_at(solver_check(&problem), "pool"));
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        if (!loop_in_pool(&loops->buffers.items[b])) continue;
        loops->buffers.items[b].memory_offset = problem.items[at++].address;
        if (problem.items[at - 1].address != SOLVER_UNPLACED) continue;
        return refuse(loops, total);
    }
    loops->pool_bytes = problem.top;
    return NULL;
}

spyre_status pass_memory_planning(loop_graph *loops, bool *out_changed)
{
    loop_find_live_ranges(loops);
    size_buffers(loops);
    *out_changed = true;
    return plan_pool(loops);
}
