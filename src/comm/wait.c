// SPDX-License-Identifier: Apache-2.0
//
// Waiting for other ranks: some 50 us awake, because to wake a process takes about as long, then
// asleep on this rank's bell. Ranks may outnumber cores, so nobody spins for longer. A sleeper
// wakes every 50 ms to see whether the others are alive and its time is up.
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

enum { LOOKS_A_CLOCK = 64, ALONE_NS = 3000, SLEEP_NS = 50000000 };

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

uint32_t comm_rings(const spyre_comm *c, uint32_t bell)
{
    return atomic_load(&shared_memory_rank_of(&c->shared, c->shared.rank)->bells[bell].rings);
}

void comm_sleep(const spyre_comm *c, uint32_t bell, uint32_t rings)
{
    shared_memory_bell *b = &shared_memory_rank_of(&c->shared, c->shared.rank)->bells[bell];
    struct timespec most = {.tv_nsec = SLEEP_NS};
    atomic_fetch_add(&b->sleepers, 1);
    if (atomic_load(&b->rings) == rings)
        syscall(SYS_futex, &b->rings, FUTEX_WAIT, rings, &most, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
}

// Fails when the wait is past its deadline, was interrupted, or the communicator is broken.
static spyre_status check_wait(spyre_comm *c, const comm_wait *w)
{
    pthread_mutex_lock(&c->lock);
    spyre_status broken = comm_copy_error(c->broken);
    pthread_mutex_unlock(&c->lock);
    if (broken) return broken;
    if (w->interruptible && c->interrupted && c->interrupted())
        return status_new(SPYRE_CANCELLED, "interrupted");
    return NULL;
}

static bool all_have_come(const spyre_comm *c, uint32_t *from)
{
    while (*from < c->shared.size && comm_has_come(c, *from)) ++*from;
    return *from == c->shared.size;
}

// The error of a wait for those that have not come; null to go on. One that came, saw all others
// there and failed afterwards spoils the next meeting only.
static spyre_status check_absent(spyre_comm *c, const comm_wait *w, bool look)
{
    spyre_status error = NULL;
    uint32_t from = 0;
    for (uint32_t r = 0; r < c->shared.size && !error; r++) {
        bool failed =
            atomic_load(&shared_memory_rank_of(&c->shared, r)->state) == SHARED_MEMORY_FAILED;
        if (r != c->shared.rank && (failed || !comm_has_come(c, r)))
            error = comm_check_rank(c, r, w->header, look);
    }
    if (error && !all_have_come(c, &from)) return error;
    spyre_status_free(error);
    return check_wait(c, w);
}

spyre_status comm_meet(spyre_comm *c, const comm_wait *w)
{
    shared_memory_rank *mine = shared_memory_rank_of(&c->shared, c->shared.rank);
    shared_memory_store64(&c->shared, SHARED_MEMORY_ALL, &mine->phase, ++c->phase);
    shared_memory_ring_all(&c->shared, COMM_BELL_COLLECTIVES);
    uint32_t from = 0;
    if (all_have_come(c, &from)) return NULL;
    int64_t begin = clock_now_ns(), now = begin;
    while (now - begin < COMM_SPIN_NS) {
        for (uint32_t i = 0; i < LOOKS_A_CLOCK; i++) {
            if (all_have_come(c, &from)) return NULL;
            relax();
        }
        now = clock_now_ns();
        if (now - begin > ALONE_NS) sched_yield();  // who is waited for may want this core
    }
    for (;;) {
        uint32_t rings = comm_rings(c, COMM_BELL_COLLECTIVES);
        if (all_have_come(c, &from)) return NULL;
        int64_t before = clock_now_ns();
        comm_sleep(c, COMM_BELL_COLLECTIVES, rings);
        now = clock_now_ns();
        if (all_have_come(c, &from)) return NULL;
        TRY(check_absent(c, w, now - before >= SLEEP_NS));
        if (now >= w->deadline_ns) return comm_late_ranks(c, w->header, (now - begin) / 1000000);
    }
}
