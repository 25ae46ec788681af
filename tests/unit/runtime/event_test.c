// SPDX-License-Identifier: Apache-2.0
//
// Events when a stream refuses them (a worker thread that cannot be started), and on two cards.
#include "unit/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "runtime/device.h"

static bool refuse_threads;

// Takes the place of the C library's, which it calls unless told to refuse.
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (refuse_threads) return EAGAIN;
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    create *real;
    memcpy(&real, &found, sizeof real);
    return real(thread, attributes, run, argument);
}

// A busy stream takes no task on the caller's thread, so the worker must start.
static void set_busy(spyre_context *context, bool busy)
{
    device *d;
    assert_ok(device_of(context, 0, 0, &d));
    pthread_mutex_lock(&d->lock);
    d->streams[0].busy = busy;
    device_wake(d);
    pthread_mutex_unlock(&d->lock);
}

static void event__refused_recordings_leave_nothing_to_wait_for(void **state)
{
    (void)state;
    spyre_context *context;
    spyre_event *event = NULL, *never = NULL;
    setenv("SPYRE_MEMORY_LIMIT_GB", "1", 1);
    assert_ok(spyre_context_create(1, &context));
    assert_ok(spyre_event_record(context, 0, 0, &event));
    set_busy(context, true);
    refuse_threads = true;
    assert_error(spyre_event_record(context, 0, 0, &event), SPYRE_IO, "worker thread");
    assert_error(spyre_event_record(context, 0, 0, &never), SPYRE_IO, "worker thread");
    assert_null(never);
    refuse_threads = false;
    set_busy(context, false);
    // Still that of the first recording.
    assert_true(spyre_event_query(event));
    assert_ok(spyre_event_synchronize(event));
    assert_ok(spyre_event_wait(context, 0, 1, event));
    assert_ok(spyre_stream_synchronize(context, 0, 1));
    assert_ok(spyre_event_record(context, 0, 0, &event));
    assert_ok(spyre_event_synchronize(event));
    assert_true(spyre_event_query(event));
    spyre_event_destroy(event);
    spyre_context_destroy(context);
}

static void event__streams_of_other_cards_wait(void **state)
{
    (void)state;
    spyre_context *context, *other;
    spyre_event *first = NULL, *second = NULL;
    assert_ok(spyre_context_create(2, &context));
    set_busy(context, true);
    assert_ok(spyre_event_record(context, 0, 0, &first));
    assert_ok(spyre_event_wait(context, 1, 5, first));
    assert_ok(spyre_event_record(context, 1, 5, &second));
    assert_false(spyre_event_query(second));
    assert_true(spyre_stream_query(context, 0, 5));
    set_busy(context, false);
    assert_ok(spyre_event_synchronize(second));
    assert_true(spyre_event_query(first));
    assert_ok(spyre_context_create(1, &other));
    assert_error(spyre_event_wait(other, 0, 0, first), SPYRE_INVALID_ARGUMENT, "another context");
    spyre_context_destroy(other);
    spyre_event_destroy(first);
    spyre_event_destroy(second);
    spyre_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event__refused_recordings_leave_nothing_to_wait_for),
        cmocka_unit_test(event__streams_of_other_cards_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
