// SPDX-License-Identifier: Apache-2.0
//
// Iterations are divided into as many ranges as there are threads. A thread claims chunks of its
// own range, the same of every run, and then of the others': so its caches have what it made in the
// run before, which on some hosts no other thread's caches share. A run is published by a new
// generation number, and ends when every worker that joined it has left, so that the job
// description may live on the caller's stack. Who waits stays awake for a while before it sleeps on
// a condition: to wake a thread takes longer than many a run.
#define _GNU_SOURCE             // sched_getaffinity
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/variable.h"

enum {
    CHUNKS_A_RANGE = 8,
    MOST_RANGES = 16,               // more threads share them
    AWAKE_NANOSECONDS = 50000,      // about what it takes a host to wake a thread
    TEAM_AWAKE_NANOSECONDS = 1000000,   // the threads of OpenMP spin for 3 ms and more
    LOOKS_A_CLOCK = 64,             // clocks take longer than looks
};

// On a line of the host's caches of its own.
typedef struct {
    _Alignas(64) atomic_size_t next;
    size_t end, chunk;
} range;

typedef struct {
    pool_fn *fn;
    void *context;
    uint32_t ranges;
    range range[MOST_RANGES];
    atomic_uint joined;             // threads of a team
    atomic_llong ended_ns;          // when a thread of the team did the last of it
} job;

typedef struct {
    pool *owner;
    uint32_t index;
} worker;

struct pool {
    uint32_t threads;
    uint32_t started;               // threads of our own that run
    pthread_t *handles;
    worker *workers;
    pthread_mutex_t turn;           // held by the thread whose run is under way
    pthread_mutex_t lock;           // held to sleep, to wake, and to read or set `current`
    pthread_cond_t wake;
    pthread_cond_t finished;
    job *current;                   // null between runs
    atomic_uint generation;
    atomic_uint busy;               // workers inside the current job
    atomic_uint looking;            // workers that wait awake
    atomic_uint asleep;             // workers
    atomic_bool caller_sleeps;
    atomic_bool closing;
};

// How many runs this thread is inside of; a thread inside one must not wait for a pool's turn.
static _Thread_local uint32_t depth;

uint32_t thread_cores(void)
{
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    if (count < 1) count = 1;
    return count > THREAD_LARGEST_COUNT ? THREAD_LARGEST_COUNT : (uint32_t)count;
}

spyre_status thread_default_count(uint32_t *out_count)
{
    const char *wanted = variable_text("SPYRE_THREADS");
    if (wanted) {
        char *end;
        unsigned long count = strtoul(wanted, &end, 10);
        bool digits = *wanted >= '0' && *wanted <= '9' && *end == '\0';
        if (!digits || count < 1 || count > THREAD_LARGEST_COUNT) {
            return status_new(SPYRE_INVALID_ARGUMENT, "SPYRE_THREADS=%s: expected a number 1..%d",
                              wanted, THREAD_LARGEST_COUNT);
        }
        *out_count = (uint32_t)count;
        return NULL;
    }
    *out_count = thread_cores();
    return NULL;
}

static void divide(job *j, size_t count, uint32_t threads)
{
    j->ranges = threads < MOST_RANGES ? threads : MOST_RANGES;
    for (uint32_t n = 0; n < j->ranges; n++) {
        range *r = &j->range[n];
        atomic_init(&r->next, count * n / j->ranges);
        r->end = count * (n + 1) / j->ranges;
        r->chunk = (r->end - count * n / j->ranges + CHUNKS_A_RANGE - 1) / CHUNKS_A_RANGE;
    }
}

// Whether there was any of it left.
static bool work_in(job *j, range *r, uint32_t index)
{
    bool any = false;
    for (;;) {
        if (atomic_load_explicit(&r->next, memory_order_relaxed) >= r->end) return any;
        size_t begin = atomic_fetch_add_explicit(&r->next, r->chunk, memory_order_relaxed);
        if (begin >= r->end) return any;
        size_t end = r->end - begin < r->chunk ? r->end : begin + r->chunk;
        for (size_t i = begin; i < end; i++) j->fn(j->context, i, index);
        any = true;
    }
}

// Whether the thread had a part in it. `own` says which range it begins with.
static bool work(job *j, uint32_t index, uint32_t own)
{
    bool any = false;
    depth++;
    for (uint32_t n = 0; n < j->ranges; n++)
        any |= work_in(j, &j->range[(own + n) % j->ranges], index);
    depth--;
    return any;
}

// --- Teams
//
// A team's run ends when each of its threads has come and gone. On a host with other work one of
// them may have no core for milliseconds, even if there was nothing left to do for it. A team
// that was so late rests, longer each time, and the pool does its work: a run of the pool
// waits only for threads that have begun.

enum {
    LATE_NANOSECONDS = 500000,      // to wake a thread takes a tenth of that
    FIRST_REST_NANOSECONDS = 20000000,
    DOUBLED_RESTS = 8,              // 5 s at most
};

typedef struct {
    spyre_thread_team run;          // null: there is none
    int64_t ran_ns, rests_until_ns;
    uint32_t late;                  // times; one less after as long a time as it last rested
} own_team;

static _Thread_local own_team team;

void thread_use_team(spyre_thread_team run)
{
    team = (own_team){.run = run};
}

bool thread_has_team(void)
{
    return team.run != NULL;
}

// Which range a thread of a team begins with. The calling one has the first.
static uint32_t own_range(const job *j)
{
    static atomic_uint threads;
    static _Thread_local uint32_t number;
    if (thread_has_team()) return 0;
    if (!number) number = atomic_fetch_add(&threads, 1) + 1;
    return 1 + (number - 1) % (j->ranges - 1);
}

static void join_team(void *context)
{
    job *j = context;
    const uint32_t index = atomic_fetch_add(&j->joined, 1);
    if (work(j, index, own_range(j))) atomic_store(&j->ended_ns, clock_now_ns());
}

static bool team_is_ready(void)
{
    return team.run && clock_now_ns() >= team.rests_until_ns;
}

// Its threads still look for work.
static bool team_is_awake(void)
{
    if (!team.run) return false;
    int64_t now = clock_now_ns();
    return now >= team.rests_until_ns && now - team.ran_ns < TEAM_AWAKE_NANOSECONDS;
}

static void note_end(int64_t now, bool late)
{
    int64_t rest = (int64_t)FIRST_REST_NANOSECONDS << team.late;
    team.ran_ns = now;
    if (late) team.rests_until_ns = now + rest;
    if (late && team.late < DOUBLED_RESTS) team.late++;
    if (!late && team.late && now - team.rests_until_ns > rest) team.late--;
}

// False when the team rests, or has not enough threads.
static bool run_by_team(job *j, uint32_t threads)
{
    if (!team_is_ready() || !team.run(join_team, j, threads)) return false;
    int64_t now = clock_now_ns();
    note_end(now, now - atomic_load(&j->ended_ns) > LATE_NANOSECONDS);
    return true;
}

// --- Waiting

// Looks until a value is or is not `expected`; false when it is time to sleep instead.
static bool look(atomic_uint *value, bool is, uint32_t expected)
{
    int64_t end = 0;
    for (uint32_t n = 1;; n++) {
        if ((atomic_load_explicit(value, memory_order_acquire) == expected) == is) return true;
#if defined __x86_64__
        __builtin_ia32_pause();
#endif
        if (n % LOOKS_A_CLOCK) continue;
        int64_t now = clock_now_ns();
        if (end && now >= end) return false;
        if (!end) end = now + AWAKE_NANOSECONDS;
    }
}

// Until there is a run that the worker has not seen, or the pool closes.
static void await_run(pool *p, uint32_t seen)
{
    atomic_fetch_add(&p->looking, 1);
    bool found = look(&p->generation, false, seen);
    atomic_fetch_sub(&p->looking, 1);
    if (found) return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);    // before it looks a last time: see publish
    while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

// A new generation, before it looks who sleeps.
static void publish(pool *p)
{
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->asleep) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void await_workers(pool *p)
{
    if (look(&p->busy, true, 0)) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, true);
    while (atomic_load(&p->busy)) pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

static void leave(pool *p)
{
    if (atomic_fetch_sub(&p->busy, 1) != 1 || !atomic_load(&p->caller_sleeps)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
}

// The run under way, which then waits for the worker to leave; null when it is over.
static job *join(pool *p)
{
    pthread_mutex_lock(&p->lock);
    job *j = p->current;
    if (j) atomic_fetch_add(&p->busy, 1);
    pthread_mutex_unlock(&p->lock);
    return j;
}

static void *worker_main(void *argument)
{
    const worker *self = argument;
    pool *p = self->owner;
    for (uint32_t seen = 0;;) {
        await_run(p, seen);
        if (atomic_load(&p->closing)) return NULL;
        seen = atomic_load(&p->generation);
        job *j = join(p);
        if (!j) continue;
        work(j, self->index, self->index);
        leave(p);
    }
}

// --- Pools

// A host that allows fewer threads (`ulimit -u`, a container's limit of processes) makes a pool of
// these: results do not depend on their number.
static void start_threads(pool *p)
{
    static atomic_bool warned;
    for (uint32_t i = 1; i < p->threads; i++) {
        p->workers[i] = (worker){.owner = p, .index = i};
        int refused = pthread_create(&p->handles[i], NULL, worker_main, &p->workers[i]);
        if (refused) {
            if (!atomic_exchange(&warned, true))
                log_warn("the host starts %u of %u threads: %s (is `ulimit -u` set, or a "
                         "container's limit of processes?)", i, p->threads, strerror(refused));
            p->threads = i;
            return;
        }
        p->started++;
    }
}

spyre_status pool_create(uint32_t threads, pool **out_pool)
{
    if (threads < 1 || threads > THREAD_LARGEST_COUNT) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%u threads: expected 1..%d", threads,
                          THREAD_LARGEST_COUNT);
    }
    pool *p = calloc(1, sizeof *p);
    TRY_ALLOC(p);
    p->threads = threads;
    pthread_mutex_init(&p->turn, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->finished, NULL);
    p->handles = calloc(threads, sizeof *p->handles);
    p->workers = calloc(threads, sizeof *p->workers);
    if (!p->handles || !p->workers) {
        pool_destroy(p);
        return status_no_memory();
    }
    start_threads(p);
    *out_pool = p;
    return NULL;
}

void pool_destroy(pool *workers)
{
    if (!workers) return;
    atomic_store(&workers->closing, true);
    publish(workers);
    for (uint32_t i = 1; i <= workers->started; i++) pthread_join(workers->handles[i], NULL);
    pthread_cond_destroy(&workers->finished);
    pthread_cond_destroy(&workers->wake);
    pthread_mutex_destroy(&workers->lock);
    pthread_mutex_destroy(&workers->turn);
    free(workers->handles);
    free(workers->workers);
    free(workers);
}

uint32_t pool_threads(const pool *workers)
{
    return workers->threads;
}

static void set_current(pool *p, job *j)
{
    pthread_mutex_lock(&p->lock);
    p->current = j;
    pthread_mutex_unlock(&p->lock);
}

bool pool_awake(const pool *workers)
{
    if (team_is_awake()) return true;
    return atomic_load_explicit(&workers->looking, memory_order_relaxed) != 0;
}

// Hands the job to the workers, takes part, and waits until no worker holds it any more.
static void run_shared(pool *p, job *j)
{
    set_current(p, j);
    publish(p);
    work(j, 0, 0);
    set_current(p, NULL);
    await_workers(p);
}

void pool_run(pool *workers, size_t count, pool_fn *fn, void *context)
{
    job j = {.fn = fn, .context = context};
    divide(&j, count, workers->threads);
    bool alone = workers->threads == 1 || count <= 1 || (depth && team.run);
    if (!alone && depth == 0) pthread_mutex_lock(&workers->turn);
    else if (!alone) alone = pthread_mutex_trylock(&workers->turn) != 0;
    if (alone) {
        work(&j, 0, 0);
        return;
    }
    if (!run_by_team(&j, workers->threads)) run_shared(workers, &j);
    pthread_mutex_unlock(&workers->turn);
}
