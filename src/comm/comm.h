// SPDX-License-Identifier: Apache-2.0
//
// A communicator from inside. Internal to src/comm.
//
// Collectives are executed one after the other by blocking code (collective.c): by the thread that
// calls, when nothing is queued, else by the communicator's own. Sends and receives are small state
// machines that every thread which waits for one of them drives (send_receive.c).
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <pthread.h>
#include <sys/types.h>

#include "comm/shared_memory.h"

struct spyre_request {
    spyre_comm *comm;
    spyre_comm_call call;
    comm_header header;
    comm_lists lists;
    spyre_request *next;
    spyre_status error;             // once it has ended
    bool ended, freed;
    bool interruptible;             // executed by a thread of the caller

    // Of messages.
    bool begun;                     // it has a slot
    uint32_t peer, slot;
    uint64_t moved;                 // bytes
    int64_t deadline_ns, looked_ns; // when the other rank was looked after
};

struct spyre_comm {
    shared_memory shared;
    pid_t process;
    char name[128];
    spyre_comm_store store;
    int64_t timeout_ms;
    bool (*interrupted)(void);

    pthread_mutex_t lock;           // of everything below
    pthread_cond_t changed;         // a request came or ended
    spyre_status broken;            // why nothing works any more
    bool closing;
    uint64_t calls;                 // collectives begun: the number of the last one

    spyre_request *first, *last;    // collectives that wait for their turn
    bool executing;                 // one is under way
    pthread_t worker;
    bool worker_runs;

    spyre_request *messages, **messages_end;    // under way, in the order of their start
    uint64_t sent;                  // the number of the last message
    pthread_t courier;              // drives messages that nobody waits for
    bool courier_runs;

    uint64_t phase;                 // of the collectives; of the thread that executes
    comm_header headers[SPYRE_COMM_MOST_RANKS];     // of all ranks, copied
    comm_lists lists[SPYRE_COMM_MOST_RANKS];
};

// --- wait.c

// What a wait is about, for its messages.
typedef struct {
    const comm_header *header;      // null: the ranks' meeting
    int64_t deadline_ns;
    bool interruptible;
} comm_wait;

// Comes to the next phase and waits until every rank has. The error names who has not come, has
// failed, left or died, and what this rank was doing.
SPYRE_MUST_CHECK spyre_status comm_meet(spyre_comm *c, const comm_wait *w);

// Sleeps until the bell rings, rings having been read before the caller looked for changes, for at
// most 50 ms.
void comm_sleep(const spyre_comm *c, uint32_t bell, uint32_t rings);
uint32_t comm_rings(const spyre_comm *c, uint32_t bell);

// Nanoseconds to spin before sleeping.
enum { COMM_SPIN_NS = 50000 };

// --- lost_ranks.c

// Fails when the rank has failed, left or died while this one needs it for the operation of
// `header`, null for a meeting; `look`: asks the kernel.
SPYRE_MUST_CHECK spyre_status comm_check_rank(const spyre_comm *c, uint32_t rank,
                                              const comm_header *header, bool look);

bool comm_has_come(const spyre_comm *c, uint32_t rank);     // to this rank's phase

// The error of a wait that has ended: who has not come, and what it did last.
SPYRE_MUST_CHECK spyre_status comm_late_ranks(const spyre_comm *c, const comm_header *h,
                                              int64_t waited_ms);

// "rank 1 (of 4), operation 7 all_reduce(..)".
enum { COMM_PLACE_BYTES = HEADER_TEXT_BYTES + 64 };
void comm_place(const spyre_comm *c, const comm_header *h, char out_text[COMM_PLACE_BYTES]);

// A copy of an error; null stays null.
spyre_status comm_copy_error(spyre_status error);

// Nothing works any more, for this reason, unless there is an earlier one; tells the others.
void comm_break(spyre_comm *c, spyre_status reason);

// --- collective.c: executes a collective; the caller has its turn.
SPYRE_MUST_CHECK spyre_status collective_execute(spyre_comm *c, spyre_request *r);

// --- send_receive.c

// Adds a send or receive to those under way; lock held.
void send_receive_add(spyre_comm *c, spyre_request *r);

// Lets all of them go on as far as they can; lock held. Those that have ended, with their errors,
// leave the list for *out_ended, which is linked by `next`. True when something moved.
bool send_receive_drive(spyre_comm *c, spyre_request **out_ended);


#endif
