// SPDX-License-Identifier: Apache-2.0
//
// One core inside a kernel: five queues that walk the program each for itself, or, as tiles,
// one list of steps. Only tokens, the ring and the kernel's end order queues. Both modes share this
// walk. They differ in who executes a tile and in the order of queues: FAST goes round the queues,
// each as far as it gets; EXACT lets
// one queue, another one for each core and kernel, run ahead of all the others as far as tokens
// allow, so that a missing WAIT shows as a wrong result.
#include <stdlib.h>

#include "card/machine/messages.h"
#include "card/machine.h"
#include "card/machine/check.h"

enum { QUEUES = 5 };
static const isa_queue order[QUEUES] = {ISA_QUEUE_LOAD, ISA_QUEUE_RING, ISA_QUEUE_PT,
                                        ISA_QUEUE_SFP, ISA_QUEUE_STORE};

// --- Ring

// The core that a SEND or RECEIVE names; verified when the program was loaded.
static uint32_t peer_of(const core_run *run, const plan_step *step)
{
    return (uint32_t)run->parameters[step->tile->instruction->token];
}

static advance send_tile(core_run *run, const plan_step *step, uint8_t *lx)
{
    uint32_t peer = peer_of(run, step);
    ring_message *message = ring_message_create(message_bytes(step->tile));
    if (!message) {
        core_fault(run, step->instruction, 0, "the host has no memory for a ring message");
        run->lacks_memory = true;
        return ADVANCE_FAULT;
    }
    message_copy_bytes(NULL, message->data, step->tile, lx, message->bytes);
    if (run->owner->check && !check_send(run, peer, step)) {
        free(message);
        return ADVANCE_FAULT;
    }
    ring_send(run->owner->messages, run->core, peer, message);
    return ADVANCE_RAN;
}

static advance receive_tile(core_run *run, const plan_step *step, uint8_t *lx)
{
    uint32_t peer = peer_of(run, step);
    ring_message *message = ring_receive(run->owner->messages, peer, run->core);
    if (!message) return ADVANCE_BLOCKED;
    size_t expected = message_bytes(step->tile);
    bool fits = message->bytes == expected;
    if (run->owner->check) {
        check_receive(run, peer);
        if (!check_tile(run, step, &lx)) {
            free(message);
            return ADVANCE_FAULT;
        }
    }
    if (fits) {
        message_copy_bytes(step->tile, lx, NULL, message->data, expected);
    } else {
        core_fault(run, step->instruction, 0, "core %u sent %zu bytes, the receiver expects %zu",
                   peer, message->bytes, expected);
    }
    free(message);
    return fits ? ADVANCE_RAN : ADVANCE_FAULT;
}

// --- Steps

static advance execute(core_run *run, const plan_step *step, const queue_state *queue,
                       card_mode mode)
{
    const plan_tile *tile = step->tile;
    if (run->gathers_matmuls && tile->instruction->opcode == ISA_MATMUL) {
        run->matmul = step;
        return ADVANCE_BLOCKED;
    }
    uint8_t *address[ISA_MAX_OPERANDS];
    if (!core_resolve(run, step, queue, address)) return ADVANCE_FAULT;
    if (tile->instruction->opcode == ISA_RECEIVE) return receive_tile(run, step, address[0]);
    if (run->owner->check && !check_tile(run, step, address)) return ADVANCE_FAULT;
    if (tile->instruction->opcode == ISA_SEND) return send_tile(run, step, address[0]);
    (mode == CARD_EXACT ? exact_run : tile_run)(tile, address, run->scratch);
    return ADVANCE_RAN;
}

static advance advance_queue(core_run *run, isa_queue which, card_mode mode)
{
    queue_state *queue = &run->queue[which];
    const plan_step *step = &run->kernel->steps[which][queue->next];
    advance result = ADVANCE_RAN;
    uint32_t next = queue->next + 1;
    switch (step->kind) {
    case STEP_END: return ADVANCE_DONE;
    case STEP_EXECUTE: result = execute(run, step, queue, mode); break;
    case STEP_WAIT:
        if (run->token[step->count] == 0) return ADVANCE_BLOCKED;
        run->token[step->count]--;
        if (run->owner->check) check_wait(run, which, step->count);
        break;
    case STEP_SIGNAL:
        if (run->owner->check && !check_signal(run, which, step)) return ADVANCE_FAULT;
        run->token[step->count]++;
        break;
    case STEP_LOOP: queue->index[step->depth] = 0; break;
    case STEP_END_LOOP:
        if (++queue->index[step->depth] < step->count) next = step->body;
        break;
    }
    if (result != ADVANCE_RAN) return result;
    queue->next = next;
    run->executed++;
    return ADVANCE_RAN;
}

// Runs a queue up to `limit` steps; true when it took at least one.
static bool run_queue(core_run *run, isa_queue which, card_mode mode, uint64_t limit)
{
    uint64_t before = run->executed;
    while (run->executed - before < limit && !card_stops(run->owner)) {
        advance result = advance_queue(run, which, mode);
        if (result == ADVANCE_FAULT) run->state = ADVANCE_FAULT;
        if (result != ADVANCE_RAN) break;
    }
    return run->executed != before;
}

static bool is_done(const core_run *run, isa_queue which)
{
    return run->kernel->steps[which][run->queue[which].next].kind == STEP_END;
}

static bool all_done(const core_run *run)
{
    if (run->by_tiles) return is_done(run, ISA_QUEUE_SEQ);
    for (uint32_t i = 0; i < QUEUES; i++)
        if (!is_done(run, order[i])) return false;
    return true;
}

// Every queue as far as it gets, until none moves.
static void run_round(core_run *run)
{
    bool progress = true;
    while (progress && run->state != ADVANCE_FAULT) {
        progress = false;
        for (uint32_t i = 0; i < QUEUES && run->state != ADVANCE_FAULT; i++)
            progress = run_queue(run, order[i], CARD_FAST, UINT64_MAX) || progress;
    }
}

// The favourite as far as it gets; then one step of another queue, in turn; and again.
static void run_ahead(core_run *run)
{
    uint32_t kernel = (uint32_t)(run->kernel->source - run->program->program->kernels.items);
    uint32_t favourite = (run->core + kernel) % QUEUES, turn = 0, idle = 0;
    while (idle < QUEUES && run->state != ADVANCE_FAULT) {
        bool moved = run_queue(run, order[favourite], CARD_EXACT, UINT64_MAX);
        if (run->state == ADVANCE_FAULT) return;
        uint32_t other = favourite + 1 + turn++ % (QUEUES - 1);
        moved = run_queue(run, order[other % QUEUES], CARD_EXACT, 1) || moved;
        idle = moved ? 0 : idle + 1;
    }
}

void core_execute(core_run *run, card_mode mode)
{
    if (mode == CARD_EXACT) run_ahead(run);
    else if (run->by_tiles) run_queue(run, ISA_QUEUE_SEQ, mode, UINT64_MAX);
    else run_round(run);
    if (run->state != ADVANCE_FAULT) run->state = all_done(run) ? ADVANCE_DONE : ADVANCE_BLOCKED;
}

void core_describe_wait(core_run *run)
{
    for (uint32_t i = 0; i < QUEUES; i++) {
        isa_queue q = order[i];
        const plan_step *step = &run->kernel->steps[q][run->queue[q].next];
        if (step->kind == STEP_WAIT) {
            core_fault(run, step->instruction, 0, "deadlock: queue %s waits for token %u",
                       isa_queue_name(q), step->count);
            return;
        }
        if (step->kind == STEP_EXECUTE) {
            core_fault(run, step->instruction, 0, "deadlock: nothing arrives from core %u",
                       peer_of(run, step));
            return;
        }
    }
}
