// SPDX-License-Identifier: Apache-2.0
//
// Streams and their scheduler. All of a device's state is behind its one lock, which is never held
// while a task runs. Whoever ends a task wakes the others: the worker looks for the next task,
// synchronising threads look again at what they wait for.
#include <string.h>

#include "runtime/profile.h"
#include "runtime/metrics.h"

// A host that is more than MOST_QUEUED tasks of a stream ahead waits until half of them are done.
enum { FIRST_HIGH = 1 + SPYRE_LOW_STREAMS, MOST_QUEUED = 1024 };

static bool idle(const device_stream *s)
{
    return !s->first && !s->busy;
}

// --- Running one task

static bool cancelled(const device *d, const task *t)
{
    return t->sequence <= d->cancelled;
}

static bool may_start(const device *d, const task *t)
{
    if (t->sequence && cancelled(d, t)) return true;
    if (t->resource == CLOCK_COMPUTE && d->computing) return false;
    return !t->ready || t->ready(t);
}

static void advance(double *clock_us, double to_us)
{
    if (*clock_us < to_us) *clock_us = to_us;
}

static void start_clock(device *d, device_stream *s, task *t)
{
    if (!t->placed) {
        t->card_begin_us = s->card_us;
        advance(&t->card_begin_us, t->submitted_us);
        if (t->resource != CLOCK_NONE) advance(&t->card_begin_us, d->clock_us[t->resource]);
    }
    t->card_end_us = t->card_begin_us + t->card_us;
    advance(&s->card_us, t->card_end_us);
    if (t->resource != CLOCK_NONE) advance(&d->clock_us[t->resource], t->card_end_us);
}

// The host waited until the stream's work was done: what it submits from now on comes later.
static void host_waited(device *d, const device_stream *s)
{
    advance(&d->host_us, s->card_us);
}

static void set_error(device_stream *s, spyre_status error)
{
    if (s->error) {
        spyre_status_free(error);
        return;
    }
    s->error = error;
    s->error_reported = false;
}

// Error of a task that is not to run; *out_skip is false for one that is.
static spyre_status skip_task(const device *d, const task *t, bool *out_skip)
{
    const device_stream *s = &d->streams[t->stream];
    *out_skip = !t->survives_errors && (s->error || cancelled(d, t));
    if (!*out_skip || !t->waits) return NULL;
    return s->error ? device_copy_error(s->error)
                    : status_new(SPYRE_CANCELLED, "the work queued before was cancelled");
}

// Without the lock.
static void note_cancelled(device *d, task *t)
{
    if (!t->cancelled) return;
    pthread_mutex_lock(&d->lock);
    if (cancelled(d, t)) t->cancelled(d, t);
    pthread_mutex_unlock(&d->lock);
}

// Runs a task of a stream that is marked busy. Called and returns with the lock held.
static void run_task(device *d, task *t)
{
    device_stream *s = &d->streams[t->stream];
    bool skip;
    spyre_status result = skip_task(d, t, &skip);
    if (!skip && t->resource == CLOCK_COMPUTE) d->computing = true;
    if (!skip) start_clock(d, s, t);
    pthread_mutex_unlock(&d->lock);

    if (!skip) {
        double host_begin_us = t->correlation ? profile_now_us() : 0;
        if (d->metrics) metrics_begin(d->metrics, t);
        result = t->run(d, t);
        if (d->metrics) metrics_end(d->metrics, t);
        if (t->correlation) profile_of_task(d, t, host_begin_us);
    }
    bool stopped = result && spyre_status_code(result) == SPYRE_CANCELLED;
    if (skip || stopped) note_cancelled(d, t);
    void (*release)(task *) = t->release;
    bool waits = t->waits, computed = !skip && t->resource == CLOCK_COMPUTE;
    if (release) release(t);

    pthread_mutex_lock(&d->lock);
    if (computed) {
        d->computing = false;
        card_set_stop(d->machine, false);
    }
    s->busy = false;
    if (waits) {
        t->result = result;
        t->finished = true;
    } else if (stopped) {
        spyre_status_free(result);
    } else if (result) {
        set_error(s, result);
    }
    device_wake(d);
}

// --- The worker

static bool higher_priority(const task *a, const task *b)
{
    bool a_high = a->stream >= FIRST_HIGH, b_high = b->stream >= FIRST_HIGH;
    return a_high != b_high ? a_high : a->sequence < b->sequence;
}

static task *take_next(device *d)
{
    task *best = NULL;
    for (uint32_t n = 0; n < d->stream_count; n++) {
        task *t = d->streams[n].first;
        if (!t || d->streams[n].busy || !may_start(d, t)) continue;
        if (!best || higher_priority(t, best)) best = t;
    }
    if (!best) return NULL;
    device_stream *s = &d->streams[best->stream];
    s->first = best->next;
    if (!s->first) s->last = NULL;
    if (--s->queued == MOST_QUEUED / 2) pthread_cond_broadcast(&d->room);
    s->busy = true;
    s->busy_sequence = best->sequence;
    return best;
}

static void *worker_main(void *argument)
{
    device *d = argument;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        task *t = take_next(d);
        if (t) run_task(d, t);
        else if (d->closing) break;
        else device_sleep(d);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static spyre_status start_worker(device *d)
{
    if (d->worker_runs) return NULL;
    int refused = pthread_create(&d->worker, NULL, worker_main, d);
    if (refused)
        return status_new(SPYRE_IO, "card %u: cannot start its worker thread: %s (is `ulimit -u` "
                          "set, or a container's limit of processes?)", d->index,
                          strerror(refused));
    d->worker_runs = true;
    return NULL;
}

// --- Submitting

static void enqueue(device_stream *s, task *t)
{
    if (s->last) s->last->next = t;
    else s->first = t;
    s->last = t;
    s->queued++;
}

// The sticky error for the caller. The default stream is usable again once it is reported.
static spyre_status report_error(device *d, uint32_t number)
{
    device_stream *s = &d->streams[number];
    if (!s->error) return NULL;
    if (number != SPYRE_DEFAULT_STREAM) {
        s->error_reported = true;
        return device_copy_error(s->error);
    }
    spyre_status error = s->error;
    s->error = NULL;
    return error;
}

static spyre_status wait_for_task(device *d, task *t)
{
    device_wait w = {0};
    while (!t->finished) device_sleep_asking(d, &d->changed, &w);
    host_waited(d, &d->streams[t->stream]);
    if (w.interrupted) {
        spyre_status_free(t->result);
        return device_interruption(&w);
    }
    spyre_status sticky = report_error(d, t->stream);
    if (!sticky) return t->result;
    spyre_status_free(t->result);
    return sticky;
}

static spyre_status await_room(device *d, const device_stream *s)
{
    if (s->queued < MOST_QUEUED) return NULL;
    device_wait w = {0};
    while (s->queued > MOST_QUEUED / 2 && !w.interrupted) device_sleep_asking(d, &d->room, &w);
    return device_interruption(&w);
}

static spyre_status submit_locked(device *d, task *t, bool may_run_here, bool *out_taken)
{
    device_stream *s = &d->streams[t->stream];
    if (t->stream >= d->stream_count) d->stream_count = t->stream + 1;
    if (s->error && !t->survives_errors && idle(s)) return report_error(d, t->stream);
    TRY(await_room(d, s));
    if (t->prepare) TRY(t->prepare(d, t));
    bool here = may_run_here && idle(s) && may_start(d, t);
    if (!here) TRY(start_worker(d));
    *out_taken = true;
    bool waits = t->waits;
    t->sequence = s->sequence = ++d->sequence;
    t->submitted_us = d->host_us;
    if (here) {
        s->busy = true;
        s->busy_sequence = t->sequence;
        run_task(d, t);
    } else {
        enqueue(s, t);
        device_wake(d);
    }
    return waits ? wait_for_task(d, t) : NULL;
}

spyre_status device_submit(device *d, uint32_t number, task *t, bool may_run_here)
{
    t->stream = number;
    bool taken = false;
    spyre_activity submission;
    bool recorded = profile_begin(d, t, &submission);
    pthread_mutex_lock(&d->lock);
    spyre_status status = submit_locked(d, t, may_run_here, &taken);
    pthread_mutex_unlock(&d->lock);
    if (recorded && taken) profile_submitted(d, &submission);
    if (!taken && t->release) t->release(t);
    return status;
}

// --- The public side

uint32_t spyre_stream_from_pool(spyre_context *context, uint32_t card_id, bool high)
{
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return SPYRE_DEFAULT_STREAM;
    uint32_t number = high ? FIRST_HIGH + d->next_high++ % SPYRE_HIGH_STREAMS
                           : 1 + d->next_low++ % SPYRE_LOW_STREAMS;
    // Handed out anew: what failed on it before is its former user's.
    device_stream *s = &d->streams[number];
    if (idle(s)) {
        spyre_status_free(s->error);
        s->error = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    return number;
}

// Whether the stream is so; one that does not exist is idle and has failed.
static bool stream_is(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                      bool (*so)(const device_stream *))
{
    device *d = device_lock(context, card_id, stream_id);
    if (!d) return true;
    bool answer = so(&d->streams[stream_id]);
    pthread_mutex_unlock(&d->lock);
    return answer;
}

static bool has_error(const device_stream *s)
{
    return s->error != NULL;
}

bool spyre_stream_query(spyre_context *context, uint32_t card_id, uint32_t stream_id)
{
    return stream_is(context, card_id, stream_id, idle);
}

double spyre_stream_clock_us(spyre_context *context, uint32_t card_id, uint32_t stream_id)
{
    device *d = device_lock(context, card_id, stream_id);
    if (!d) return 0;
    double us = d->streams[stream_id].card_us;
    pthread_mutex_unlock(&d->lock);
    return us;
}

double spyre_host_clock_us(spyre_context *context, uint32_t card_id)
{
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return 0;
    double us = d->host_us;
    pthread_mutex_unlock(&d->lock);
    return us;
}

bool spyre_stream_failed(spyre_context *context, uint32_t card_id, uint32_t stream_id)
{
    return stream_is(context, card_id, stream_id, has_error);
}

spyre_status spyre_stream_synchronize(spyre_context *context, uint32_t card_id, uint32_t stream_id)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    pthread_mutex_lock(&d->lock);
    device_wait w = {0};
    while (!idle(&d->streams[stream_id]) && !w.interrupted)
        device_sleep_asking(d, &d->changed, &w);
    host_waited(d, &d->streams[stream_id]);
    spyre_status status = device_interruption(&w);
    if (!status) status = report_error(d, stream_id);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static bool all_idle(const device *d)
{
    for (uint32_t n = 0; n < d->stream_count; n++)
        if (!idle(&d->streams[n])) return false;
    return true;
}

spyre_status spyre_card_synchronize(spyre_context *context, uint32_t card_id)
{
    device *d;
    TRY(device_of(context, card_id, 0, &d));
    pthread_mutex_lock(&d->lock);
    device_wait w = {0};
    while (!all_idle(d) && !w.interrupted) device_sleep_asking(d, &d->changed, &w);
    for (uint32_t n = 0; n < d->stream_count; n++) host_waited(d, &d->streams[n]);
    spyre_status first = device_interruption(&w);
    for (uint32_t n = 0; n < d->stream_count && !w.interrupted; n++) {
        // A failed stream stays failed, but the card complains about it only once.
        if (d->streams[n].error_reported) continue;
        spyre_status error = report_error(d, n);
        if (!first) first = error;
        else spyre_status_free(error);
    }
    pthread_mutex_unlock(&d->lock);
    return first;
}

void spyre_card_cancel(spyre_context *context, uint32_t card_id)
{
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return;
    device_cancel(d);
    pthread_mutex_unlock(&d->lock);
}
