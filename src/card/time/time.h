// SPDX-License-Identifier: Apache-2.0
//
// The timing model. Programs do not depend on data, so a kernel is timed by letting its queues walk
// its code with durations instead of bytes. Internal to src/card; the interface is card_time().
//
//     time_instruction.c             what one instruction moves and how long it takes alone:
//     time_memory.c           of the memory's time, by bytes, runs and the distance of cores
//     time_compute.c          in the vector and matrix units
//     time_ring.c             on the ring, whose links messages share
//     time_kernel.c           a kernel as lists of steps, one a queue
//     time_walk.c              the walk: events, tokens, the ring, memory shared by all
//     time_repeated_loops.c           loops that repeat themselves are skipped
//     time_overlap_kernels.c  kernels that do not depend on each other
//     time_program.c          kernel after kernel, loops around them, counters
#ifndef CARD_TIME_H
#define CARD_TIME_H

#include "card/card.h"
#include "isa/constants.h"

typedef enum { TIME_COMPUTE, TIME_READ, TIME_WRITE, TIME_SEND, TIME_RECEIVE } time_kind;

// One execution of an instruction. Bytes, MACs and elements are of all active cores together.
typedef struct {
    time_kind kind;
    // COMPUTE, SEND, RECEIVE: of one core. READ, WRITE: a core's share of the memory's time; the
    // shares of all cores add up to what the memory takes.
    double us;
    double bytes_us;            // READ, WRITE: of it, for the bytes alone
    double spread;              // READ: what its cores' distance adds, as a share of bytes_us
    double read_bytes, written_bytes, lx_bytes, macs, elements;
    double message_bytes;       // of one core
} time_cost;

void time_cost_of(const isa_kernel *kernel, const isa_instruction *i, time_cost *out_cost);

// Its parts, by resource: what operand `o` moves in memory, what `cores` cores compute, a message.
void time_cost_transfer(const isa_kernel *kernel, const isa_instruction *i, uint32_t o,
                        time_cost *out);
void time_cost_vector(const isa_instruction *i, double cores, time_cost *out);
void time_cost_matmul(const isa_instruction *i, double cores, time_cost *out);
void time_cost_message(const isa_instruction *i, time_cost *out);

// Elements of an instruction's iteration space on one core.
static inline double time_elements(const isa_instruction *i)
{
    double elements = 1;
    for (uint32_t d = 0; d < i->dim_count; d++) elements *= i->extent[d];
    return elements;
}

// us that the links of the ring take for what the messages of a kernel carry: bytes times hops.
double time_ring_links_us(double carried_bytes);

// Turnaround of the memory for the instructions [begin, end) of a kernel, as a share of the time
// that the bytes of the rarer direction take alone.
double time_turnaround(const isa_program *program, uint32_t begin, uint32_t end);

enum { TIME_QUEUES = 5 };
#define TIME_NO_LOOP UINT32_MAX

typedef struct {
    uint32_t parent, depth, count;      // depth 0: outermost inside the kernel
    uint32_t leader;                    // first queue that walks it
    uint32_t begin;                     // instruction
} time_loop;

typedef enum {
    TIME_EXECUTE,
    TIME_WAIT,
    TIME_SIGNAL,
    TIME_LOOP,
    TIME_END_LOOP,
    TIME_END,
} time_step_kind;

typedef struct {
    time_step_kind kind;
    uint32_t loop;              // enclosing; LOOP, END_LOOP: its own
    uint32_t token;             // WAIT, SIGNAL; SEND, RECEIVE: slot of the peer
    uint32_t body;              // END_LOOP: first step of the body
    uint32_t instruction;
    double times;               // how often the loops around it execute it; 0: not EXECUTE
    time_cost cost;             // EXECUTE
} time_step;

typedef struct {
    const isa_kernel *source;
    bool receives;                      // from the ring
    uint32_t core_count;                // that are walked: one for all when all do the same
    double weight;                      // cores that one of them stands for
    VEC(time_loop) loops;
    VEC(time_step) steps[TIME_QUEUES];
} time_kernel;

// The queues in the order of TIME_QUEUES.
isa_queue time_queue_of(uint32_t number);

// Steps from core to core, the short way round.
uint32_t time_hops(uint32_t a, uint32_t b);

// The kernel whose code begins at instruction `begin` (its KERNEL) and ends at `end`.
SPYRE_MUST_CHECK spyre_status time_kernel_build(arena *memory, const isa_program *program,
                                                uint32_t begin, uint32_t end, time_kernel *out);

// Messages [sender][receiver] that were sent and not yet received.
typedef int64_t time_messages[ISA_CORES][ISA_CORES];

typedef struct {
    double us;                          // of one run
    double memory_us;                   // of it, with the memory busy
    double compute_us;                  // of it, with the PT or SFP of a core busy, on average
    bool estimated;                     // no steady state: the busiest resource instead
} time_result;

// Options for tests.
typedef struct {
    bool every_iteration;               // no loop is skipped
} time_options;

// Walks the kernel once. When it receives, `messages` has what earlier kernels left, and afterwards
// what it leaves itself. SPYRE_DEVICE_FAULT when its queues wait for each other for ever.
SPYRE_MUST_CHECK spyre_status time_kernel_run(arena *memory, const time_kernel *kernel,
                                              const time_options *options,
                                              time_messages messages, time_result *out_result);

// Which kernels overlap; kernels are added in the order of the code.
typedef struct time_overlap time_overlap;
SPYRE_MUST_CHECK spyre_status time_overlap_create(arena *memory, const isa_program *program,
                                                  time_overlap **out);

// The time that the next kernel adds, which takes `us` alone.
double time_overlap_add(time_overlap *overlap, double us, const double busy_us[CARD_RESOURCES]);

// What follows waits for all kernels so far.
void time_overlap_end(time_overlap *overlap);

// As card_time(), with options.
SPYRE_MUST_CHECK spyre_status time_program(const isa_program *program,
                                           const time_options *options,
                                           card_counters *out_kernels);

// --- The state of the walk, for time_walk.c and time_repeated_loops.c

typedef struct {
    uint32_t at;                        // step
    bool active, waited;                // waited: a RECEIVE that was there before its message
    double remaining_us;
    uint32_t index[ISA_MAX_LOOPS];      // of the loops inside the kernel
} time_queue;

typedef struct {
    uint32_t number;
    uint32_t token[ISA_MAX_TOKENS];
    time_queue queue[TIME_QUEUES];
} time_core;

typedef struct time_steady time_steady;

typedef struct {
    const time_kernel *kernel;
    time_core *cores;
    int64_t (*messages)[ISA_CORES];
    double us, memory_us, compute_us;
    time_steady *steady;                // null: walk every iteration
} time_walk;

SPYRE_MUST_CHECK spyre_status time_steady_create(arena *memory, const time_kernel *kernel,
                                                 time_steady **out_steady);

// The leader entered the loop.
void time_steady_enter(time_steady *steady, uint32_t loop);

// The leader began another iteration of the loop.
void time_steady_mark(time_steady *steady, uint32_t loop);

// All queues rest: skips the iterations that would repeat what has been seen.
void time_steady_skip(time_walk *walk);

#endif
