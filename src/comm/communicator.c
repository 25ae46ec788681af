// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/rendezvous.h"
#include "comm/request.h"

enum { GRACE_MS = 1000 };

static spyre_status check_options(const spyre_comm_options *o)
{
    if (o->size < 1 || o->size > SPYRE_COMM_MOST_RANKS)
        return status_new(SPYRE_INVALID_ARGUMENT, "size %u of a communicator: must be 1..%d",
                          o->size, SPYRE_COMM_MOST_RANKS);
    if (o->rank >= o->size)
        return status_new(SPYRE_INVALID_ARGUMENT, "rank %u: must be below the size, %u", o->rank,
                          o->size);
    if (!o->name || strlen(o->name) >= sizeof((spyre_comm *)0)->name)
        return status_new(SPYRE_INVALID_ARGUMENT, "name of a communicator: must have at most %zu "
                          "bytes", sizeof((spyre_comm *)0)->name - 1);
    if (o->timeout_ms <= 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "timeout of %lld ms: must be above 0",
                          (long long)o->timeout_ms);
    return NULL;
}

static void free_comm(spyre_comm *c)
{
    shared_memory_detach(&c->shared);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    spyre_status_free(c->broken);
    free(c);
}

static void prepare_locks(spyre_comm *c)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&c->lock, NULL);
}

// The others give rank 0, which knows who has not come, the time to say so.
static spyre_status meet(spyre_comm *c)
{
    int64_t most_ms = c->timeout_ms + (c->shared.rank ? GRACE_MS : 0);
    comm_wait w = {NULL, clock_now_ns() + most_ms * 1000000, true};
    TRY(shared_memory_join(&c->shared));
    return comm_meet(c, &w);
}

spyre_status spyre_comm_create(const spyre_comm_options *options, const spyre_comm_store *store,
                               spyre_comm **out_comm)
{
    TRY(check_options(options));
    spyre_comm *c = calloc(1, sizeof *c);
    TRY_ALLOC(c);
    prepare_locks(c);
    c->process = getpid();
    c->store = *store;
    c->timeout_ms = options->timeout_ms;
    c->interrupted = options->interrupted;
    c->messages_end = &c->messages;
    snprintf(c->name, sizeof c->name, "%s", options->name);
    spyre_status status = rendezvous(options, store, &c->shared);
    if (!status) {
        status = meet(c);
        if (status) shared_memory_fail(&c->shared, status);
    }
    if (status) {
        free_comm(c);
        return status_at(status, "communicator %s, rank %u (of %u)", options->name, options->rank,
                         options->size);
    }
    *out_comm = c;
    return NULL;
}

// Color and key of every rank, to each.
static spyre_status exchange(spyre_comm *c, uint32_t color, uint32_t key, uint32_t *all)
{
    uint32_t own[2] = {color, key};
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_GATHER, .format = SPYRE_FORMAT_IEEE_INT32,
                            .count = 2, .input = own, .output = all, .detail = "split"};
    return spyre_comm_run(c, &call);
}

spyre_status spyre_comm_split(spyre_comm *c, uint32_t color, uint32_t key, spyre_comm **out_comm)
{
    uint32_t all[SPYRE_COMM_MOST_RANKS][2], rank = 0, size = 0;
    *out_comm = NULL;
    TRY(exchange(c, color, key, all[0]));
    if (color == UINT32_MAX) return NULL;
    for (uint32_t r = 0; r < c->shared.size; r++) {
        if (all[r][0] != color) continue;
        size++;
        if (all[r][1] < key || (all[r][1] == key && r < c->shared.rank)) rank++;
    }
    char name[2 * sizeof c->name];
    snprintf(name, sizeof name, "%s/%llu.%u", c->name, (unsigned long long)c->calls, color);
    spyre_comm_options options = {rank, size, name, c->timeout_ms, c->interrupted};
    return spyre_comm_create(&options, &c->store, out_comm);
}

void spyre_comm_destroy(spyre_comm *c)
{
    if (!c) return;
    if (c->process == getpid()) {
        request_end_all(c);
        shared_memory_leave(&c->shared);
    }
    free_comm(c);
}

uint32_t spyre_comm_rank(const spyre_comm *c)
{
    return c->shared.rank;
}

uint32_t spyre_comm_size(const spyre_comm *c)
{
    return c->shared.size;
}
