// SPDX-License-Identifier: Apache-2.0
//
// Iterations are claimed in chunks from one atomic counter. Workers sleep on a condition between
// runs; a run is published by a new generation number under the lock, and ends when every worker
// that joined it has left, so that the job description may live on the caller's stack.
#define _GNU_SOURCE             // sched_getaffinity
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { CHUNKS_A_THREAD = 8 };

typedef struct {
    pool_fn *fn;
    void *context;
    size_t count;
    size_t chunk;
    atomic_size_t next;
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
    pthread_mutex_t lock;           // guards what follows
    pthread_cond_t wake;
    pthread_cond_t finished;
    job *current;                   // null between runs
    uint64_t generation;
    uint32_t busy;                  // workers inside the current job
    bool closing;
};

// How many runs this thread is inside of; a thread inside one must not wait for a pool's turn.
static _Thread_local uint32_t depth;

spyre_status thread_default_count(uint32_t *out_count)
{
    const char *wanted = getenv("SPYRE_THREADS");
    if (wanted && *wanted) {
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
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    if (count < 1) count = 1;
    *out_count = count > THREAD_LARGEST_COUNT ? THREAD_LARGEST_COUNT : (uint32_t)count;
    return NULL;
}

static void work(job *j, uint32_t index)
{
    depth++;
    for (;;) {
        size_t begin = atomic_fetch_add_explicit(&j->next, j->chunk, memory_order_relaxed);
        if (begin >= j->count) break;
        size_t end = j->count - begin < j->chunk ? j->count : begin + j->chunk;
        for (size_t i = begin; i < end; i++) j->fn(j->context, i, index);
    }
    depth--;
}

static void *worker_main(void *argument)
{
    const worker *self = argument;
    pool *p = self->owner;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->closing && (!p->current || p->generation == seen))
            pthread_cond_wait(&p->wake, &p->lock);
        if (p->closing) break;
        seen = p->generation;
        job *j = p->current;
        p->busy++;
        pthread_mutex_unlock(&p->lock);
        work(j, self->index);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0) pthread_cond_signal(&p->finished);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static spyre_status start_threads(pool *p)
{
    for (uint32_t i = 1; i < p->threads; i++) {
        p->workers[i] = (worker){.owner = p, .index = i};
        if (pthread_create(&p->handles[i], NULL, worker_main, &p->workers[i]) != 0) {
            return status_new(SPYRE_IO, "cannot start thread %u of %u", i + 1, p->threads);
        }
        p->started++;
    }
    return NULL;
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
    spyre_status status = p->handles && p->workers ? start_threads(p) : status_no_memory();
    if (status) pool_destroy(p);
    else *out_pool = p;
    return status;
}

void pool_destroy(pool *workers)
{
    if (!workers) return;
    pthread_mutex_lock(&workers->lock);
    workers->closing = true;
    pthread_cond_broadcast(&workers->wake);
    pthread_mutex_unlock(&workers->lock);
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

// Hands the job to the workers, takes part, and waits until no worker holds it any more.
static void run_shared(pool *p, job *j)
{
    pthread_mutex_lock(&p->lock);
    p->current = j;
    p->generation++;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    work(j, 0);
    pthread_mutex_lock(&p->lock);
    p->current = NULL;
    while (p->busy) pthread_cond_wait(&p->finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(pool *workers, size_t count, pool_fn *fn, void *context)
{
    job j = {.fn = fn, .context = context, .count = count};
    size_t chunks = (size_t)workers->threads * CHUNKS_A_THREAD;
    j.chunk = count / chunks ? count / chunks : 1;
    bool alone = workers->threads == 1 || count <= 1;
    if (!alone && depth == 0) pthread_mutex_lock(&workers->turn);
    else if (!alone) alone = pthread_mutex_trylock(&workers->turn) != 0;
    if (alone) {
        work(&j, 0);
        return;
    }
    run_shared(workers, &j);
    pthread_mutex_unlock(&workers->turn);
}
