// SPDX-License-Identifier: Apache-2.0
//
// Operations from their start to their end. Collectives have one turn: that of the calling thread
// when nothing else has it or waits for it, else of the worker, in the order of their start.
// Messages are driven by whoever waits for one, and by the courier while nobody may be waiting.
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/request.h"

enum { ASK_NS = 50000000 };

static bool is_message(const spyre_request *r)
{
    return r->call.kind == SPYRE_COMM_SEND || r->call.kind == SPYRE_COMM_RECEIVE;
}

static spyre_status check(spyre_comm *c, const spyre_comm_call *call)
{
    if (c->process != getpid())
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "communicator %s: belongs to the parent process", c->name);
    return status_at(header_check_call(call, c->shared.rank, c->shared.size), "rank %u (of %u)",
                     c->shared.rank, c->shared.size);
}

static spyre_status make(spyre_comm *c, const spyre_comm_call *call, spyre_request **out)
{
    TRY(check(c, call));
    spyre_request *r = calloc(1, sizeof *r);
    TRY_ALLOC(r);
    r->comm = c;
    r->call = *call;
    header_of_call(call, c->shared.size, &r->header, &r->lists);
    r->call.send_counts = r->call.receive_counts = NULL;
    r->call.detail = NULL;
    *out = r;
    return NULL;
}

// Ends a request, without the lock. What was given up is freed.
static void end(spyre_comm *c, spyre_request *r, spyre_status error)
{
    r->error = error;
    if (r->call.done) r->call.done(r->call.context, error);
    pthread_mutex_lock(&c->lock);
    r->ended = true;
    if (!is_message(r)) c->executing = false;   // at once: who waited may destroy the communicator
    bool freed = r->freed;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (!freed) return;
    spyre_status_free(r->error);
    free(r);
}

static spyre_status prepare(spyre_comm *c, spyre_request *r)
{
    pthread_mutex_lock(&c->lock);
    spyre_status status = comm_copy_error(c->broken);
    pthread_mutex_unlock(&c->lock);
    const char *why = status ? "the communicator is broken" : "input";
    if (!status && r->call.before) status = r->call.before(r->call.context);
    if (!status && r->call.clock_us) status = header_set_clock(&r->header, *r->call.clock_us);
    if (!status) return NULL;
    char place[COMM_PLACE_BYTES];
    comm_place(c, &r->header, place);
    return status_at(status, "%s: %s", place, why);
}

static void execute(spyre_comm *c, spyre_request *r)
{
    spyre_status error = prepare(c, r);
    if (!error) error = collective_execute(c, r);
    if (error) comm_break(c, error);
    end(c, r, error);
}

// --- The turn of collectives

static spyre_request *pop(spyre_comm *c)
{
    spyre_request *r = c->first;
    c->first = r->next;
    if (!c->first) c->last = NULL;
    r->next = NULL;
    return r;
}

static void *work(void *context)
{
    spyre_comm *c = context;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->closing && (!c->first || c->executing))
            pthread_cond_wait(&c->changed, &c->lock);
        if (c->closing && !c->first) break;
        spyre_request *r = pop(c);
        c->executing = true;
        pthread_mutex_unlock(&c->lock);
        execute(c, r);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static spyre_status start_thread(pthread_t *thread, bool *runs, void *(*body)(void *), void *c)
{
    if (*runs) return NULL;
    if (pthread_create(thread, NULL, body, c))
        return status_new(SPYRE_OUT_OF_MEMORY, "no thread for a communicator");
    *runs = true;
    return NULL;
}

static spyre_status enqueue(spyre_comm *c, spyre_request *r)
{
    TRY(start_thread(&c->worker, &c->worker_runs, work, c));
    r->header.number = ++c->calls;
    if (c->last) c->last->next = r;
    else c->first = r;
    c->last = r;
    pthread_cond_broadcast(&c->changed);
    return NULL;
}

// --- Messages

static bool drive(spyre_comm *c)
{
    spyre_request *ended;
    bool moved = send_receive_drive(c, &ended);
    if (!ended) return moved;
    pthread_mutex_unlock(&c->lock);
    while (ended) {
        spyre_request *r = ended;
        ended = r->next;
        if (r->error) comm_break(c, r->error);
        end(c, r, r->error);
    }
    pthread_mutex_lock(&c->lock);
    return true;
}

// Drives until something moved or a while has passed; lock held, and given up meanwhile.
static void drive_or_sleep(spyre_comm *c, int64_t *idle_since)
{
    uint32_t rings = comm_rings(c, COMM_BELL_MESSAGES);
    int64_t now = clock_now_ns();
    bool moved = drive(c);
    if (moved) *idle_since = now;
    if (moved) return;
    pthread_mutex_unlock(&c->lock);
    if (now - *idle_since < COMM_SPIN_NS) sched_yield();
    else comm_sleep(c, COMM_BELL_MESSAGES, rings);
    pthread_mutex_lock(&c->lock);
}

static void *carry(void *context)
{
    spyre_comm *c = context;
    int64_t idle_since = 0;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->closing && !c->messages) pthread_cond_wait(&c->changed, &c->lock);
        if (!c->messages) break;
        drive_or_sleep(c, &idle_since);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static spyre_status start_message(spyre_comm *c, spyre_request *r, bool alone)
{
    spyre_status error = prepare(c, r);
    if (error) {
        comm_break(c, error);
        return error;
    }
    pthread_mutex_lock(&c->lock);
    if (!alone) error = start_thread(&c->courier, &c->courier_runs, carry, c);
    if (!error) {
        send_receive_add(c, r);
        pthread_cond_broadcast(&c->changed);
        drive(c);
    }
    pthread_mutex_unlock(&c->lock);
    return error;
}

// --- Waiting

static struct timespec later(int64_t nanoseconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += nanoseconds;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

// Sleeps a while or, for a message, works on it. Lock held.
static void pass_time(spyre_comm *c, const spyre_request *r, int64_t *idle_since)
{
    if (is_message(r) && c->messages) {
        drive_or_sleep(c, idle_since);
        return;
    }
    struct timespec at = later(ASK_NS);
    pthread_cond_timedwait(&c->changed, &c->lock, &at);
}

static bool is_interrupted(spyre_comm *c, int64_t *asked_ns)
{
    int64_t now = clock_now_ns();
    if (!c->interrupted || now - *asked_ns < ASK_NS) return false;
    *asked_ns = now;
    pthread_mutex_unlock(&c->lock);
    bool yes = c->interrupted();
    pthread_mutex_lock(&c->lock);
    return yes;
}

spyre_status spyre_request_wait(spyre_request *r, int64_t timeout_ms)
{
    spyre_comm *c = r->comm;
    int64_t begin = clock_now_ns(), asked = begin, idle_since = begin;
    spyre_status status = NULL;
    pthread_mutex_lock(&c->lock);
    while (!r->ended && !status) {
        pass_time(c, r, &idle_since);
        if (r->ended) break;
        if (is_interrupted(c, &asked)) status = status_new(SPYRE_CANCELLED, "interrupted");
        else if (timeout_ms > 0 && clock_now_ns() - begin >= timeout_ms * 1000000)
            status = status_new(SPYRE_CANCELLED, "%s has not ended after %lld ms",
                                spyre_comm_kind_name(r->call.kind), (long long)timeout_ms);
    }
    pthread_mutex_unlock(&c->lock);
    return status ? status : comm_copy_error(r->error);
}

bool spyre_request_test(spyre_request *r)
{
    pthread_mutex_lock(&r->comm->lock);
    if (!r->ended && is_message(r)) drive(r->comm);
    bool ended = r->ended;
    pthread_mutex_unlock(&r->comm->lock);
    return ended;
}

uint32_t spyre_request_source(const spyre_request *r)
{
    return r->peer;
}

void spyre_request_free(spyre_request *r)
{
    if (!r) return;
    spyre_comm *c = r->comm;
    pthread_mutex_lock(&c->lock);
    bool ended = r->ended;
    r->freed = true;
    pthread_mutex_unlock(&c->lock);
    if (!ended) return;
    spyre_status_free(r->error);
    free(r);
}

// --- Starting

spyre_status spyre_comm_start(spyre_comm *c, const spyre_comm_call *call,
                              spyre_request **out_request)
{
    spyre_request *r = NULL;
    TRY(make(c, call, &r));
    spyre_status status;
    if (is_message(r)) {
        status = start_message(c, r, false);
    } else {
        pthread_mutex_lock(&c->lock);
        status = enqueue(c, r);
        pthread_mutex_unlock(&c->lock);
    }
    if (status) free(r);
    else *out_request = r;
    return status;
}

// Takes the turn if it is free; else the worker gets the request.
static spyre_status run_collective(spyre_comm *c, spyre_request *r)
{
    pthread_mutex_lock(&c->lock);
    bool here = !c->first && !c->executing;
    spyre_status status = NULL;
    if (here) {
        c->executing = true;
        r->interruptible = true;
        r->header.number = ++c->calls;
    } else {
        status = enqueue(c, r);
    }
    pthread_mutex_unlock(&c->lock);
    if (!here) return status;
    execute(c, r);
    return NULL;
}

spyre_status spyre_comm_run(spyre_comm *c, const spyre_comm_call *call)
{
    spyre_request *r = NULL;
    TRY(make(c, call, &r));
    spyre_status status = is_message(r) ? start_message(c, r, true) : run_collective(c, r);
    if (status) {
        free(r);
        return status;
    }
    status = spyre_request_wait(r, 0);
    while (!spyre_request_test(r)) {        // interrupted: the buffers are the caller's again
        spyre_comm_abort(c, "interrupted");
        spyre_status_free(spyre_request_wait(r, 0));
    }
    spyre_request_free(r);
    return status;
}

void request_end_all(spyre_comm *c)
{
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    bool pending = c->first || c->executing || c->messages;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (pending) spyre_comm_abort(c, "destroyed with operations under way");
    if (c->worker_runs) pthread_join(c->worker, NULL);
    if (c->courier_runs) pthread_join(c->courier, NULL);
}
