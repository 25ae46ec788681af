// SPDX-License-Identifier: Apache-2.0
//
// The state of one card and of one core while it runs a kernel. Internal to src/card.
#ifndef CARD_MACHINE_H
#define CARD_MACHINE_H

#include <stdatomic.h>

#include "base/thread_pool.h"
#include "card/card.h"
#include "card/machine/ring.h"
#include "card/matmul/matmul.h"
#include "card/plan.h"

typedef struct checker checker;

typedef enum { ADVANCE_RAN, ADVANCE_BLOCKED, ADVANCE_DONE, ADVANCE_FAULT } advance;

// Where a queue stands in its own walk through the kernel.
typedef struct {
    uint32_t next;                          // step
    uint32_t index[ISA_MAX_LOOPS];          // of the enclosing loops, outermost first
} queue_state;

typedef struct {
    card *owner;
    const card_program *program;
    const plan_kernel *kernel;
    const card_argument *arguments;
    const int64_t *parameters;              // this core's row
    uint8_t *lx;
    plan_scratch *scratch;
    uint32_t core;
    uint32_t token[ISA_MAX_TOKENS];
    queue_state queue[ISA_QUEUE_COUNT];
    bool by_tiles;                          // runs the kernel's list of tiles, not its queues
    bool gathers_matmuls;                   // stops at a MATMUL, see batch.c
    const plan_step *matmul;                // where it stopped, or null
    const remote_operand *remote;           // how the kernel's product reads, or null
    uint64_t executed;                      // steps, to tell progress from deadlock
    advance state;                          // FAULT only while a launch ends by it
    uint32_t reached;                       // how far in the stage: the first kernel of an action
    bool lacks_memory;                      // the fault is the host's
    card_fault fault;
} core_run;

struct card {
    uint8_t *memory;                        // CARD_SEGMENTS * CARD_SEGMENT_BYTES
    // LX of the cores and, behind them, as many of host threads (pass/private_lx.c).
    uint8_t *lx;
    _Atomic uint32_t composed;              // ranges whose memory lies in pieces
    card_mode mode;
    bool wipe_each_launch;
    pool *workers;
    plan_scratch *scratch;                  // one a worker
    ring *messages;
    core_run *runs;                         // ISA_CORES
    uint64_t stages;                        // that have begun, of all launches
    checker *check;                         // null: not wanted (check.h)
    atomic_bool stop;                       // no step begins any more
};

static inline bool card_stops(const card *c)
{
    return atomic_load_explicit(&c->stop, memory_order_relaxed);
}

// Runs as many steps of a core as its tokens and the ring allow; sets run->state.
void core_execute(core_run *run, card_mode mode);

// Executes the matmuls that the cores stopped at, those of one step together. True when there was
// one.
bool batch_execute(core_run *const *runs, uint32_t count, const matmul_host *host);

// Records as a fault what a blocked core waits for.
void core_describe_wait(core_run *run);

// Records the fault of a step; the first one stays.
void core_fault(core_run *run, uint32_t instruction, uint64_t address, const char *format, ...)
    SPYRE_PRINTF(4, 5);

// The error of a fault: SPYRE_DEVICE_FAULT, or SPYRE_INDEX_FAULT of a gather's or scatter's index.
spyre_status core_fault_status(const card_fault *fault);

// Host addresses of element 0 of every operand of a step in the queue's present iteration, checked
// against LX and the argument windows over the whole tile. False after a fault.
bool core_resolve(core_run *run, const plan_step *step, const queue_state *queue,
                  uint8_t **out_address);

#endif
