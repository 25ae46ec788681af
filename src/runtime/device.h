// SPDX-License-Identifier: Apache-2.0
//
// One card of a context: its memory, its streams and the thread that works on them. Internal to
// src/runtime.
//
// A task is one step of a stream. Tasks of a stream run in order, one at a time. A task runs on the
// device's worker thread or, when its stream is idle, on the thread that submits it. Launches are
// exclusive on a card; transfers run beside them.
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include <pthread.h>
#include <sys/types.h>

#include "base/thread_pool.h"
#include "card/card.h"
#include "runtime/allocator.h"
#include "runtime/copy_threads.h"
#include "spyre/placement.h"
#include "spyre/profile.h"

enum {
    DEVICE_STREAMS = 1 + SPYRE_LOW_STREAMS + SPYRE_HIGH_STREAMS,
    DEVICE_MOST_CARDS = 8,
};

typedef struct device device;
typedef struct task task;
typedef struct profile_list profile_list;
typedef struct metrics_file metrics_file;
typedef struct composite composite;

// What a task occupies on the card's virtual clock.
typedef enum {
    CLOCK_NONE,
    CLOCK_COMPUTE,
    CLOCK_TO_CARD,
    CLOCK_TO_HOST,
    CLOCK_EXCHANGE,
    CLOCK_COUNT,
} clock_resource;

struct task {
    // Executes without the device's lock.
    spyre_status (*run)(device *d, task *t);
    // With the lock held, before the task gets its place; null: nothing to do. May fail.
    spyre_status (*prepare)(device *d, task *t);
    bool (*ready)(const task *t);       // null: always; asked with the lock held
    // With the lock held, when the task was cancelled: says what is lost; null: nothing.
    void (*cancelled)(device *d, task *t);
    void (*release)(task *t);           // after the end, without the lock; null: the submitter's
    bool waits;                         // the submitter waits and gets the result
    bool survives_errors;               // runs on a failed stream too (events)
    bool recorded;                      // for profilers (profile.h)
    spyre_activity_kind kind;
    const char *name;
    // Adds records of what happened inside to that of the task; null: nothing to tell.
    void (*tell_inside)(const task *t, const spyre_activity *record, profile_list *records);
    int64_t bytes;
    const card_counters *work;          // of launches, else null
    clock_resource resource;
    double card_us;                     // duration on the virtual clock
    bool placed;                        // card_begin_us is the submitter's

    // The scheduler's.
    task *next;
    uint64_t sequence;
    uint32_t stream;
    bool finished;
    spyre_status result;
    double card_begin_us, card_end_us;
    double submitted_us;                // the host's place on the virtual clock then
    uint64_t correlation;               // 0: no profiler
    uint64_t tag;
    int32_t thread;
    double submitted_host_us;
};

// A freed block that tasks under way may still touch, ordered by sequence.
typedef struct {
    uint64_t address, bytes;
    uint64_t sequence;                  // free once all tasks up to this one are done
} waiting_block;

typedef struct {
    waiting_block *items;
    uint32_t count, capacity;
} waiting_list;

typedef struct {
    task *first, *last;
    uint32_t queued;                    // tasks in that list
    bool busy;                          // a task of it runs
    uint64_t busy_sequence;
    spyre_status error;                 // sticky
    bool error_reported;                // by a synchronisation of the whole card
    double card_us;                     // its place on the virtual clock
    uint64_t sequence;                  // of the last task submitted
    waiting_list freed;                 // blocks that only this stream touches
} device_stream;

struct device {
    spyre_context *context;
    uint32_t index;
    card *machine;
    pthread_mutex_t lock;
    pthread_cond_t changed;             // a task came or ended
    pthread_cond_t room;                // the queue of a stream is half empty again
    uint32_t sleepers;                  // threads that wait for `changed`
    pthread_t worker;
    bool worker_runs, closing;
    bool computing;                     // a launch is under way

    device_stream streams[DEVICE_STREAMS];
    uint32_t stream_count;              // those that have had tasks are among the first so many
    uint64_t sequence;                  // of the last task submitted
    uint64_t cancelled;                 // tasks up to this one do not run
    uint32_t next_low, next_high;
    double clock_us[CLOCK_COUNT];       // when each resource is free again
    double host_us;                     // the virtual clock when the host last waited for the card

    allocator memory;
    composite *composites;              // allocations over several domains
    uint32_t composite_count;
    uint64_t cache_limit_bytes;         // most freed memory whose pages are kept
    spyre_memory_statistics statistics;
    waiting_list freed;                 // blocks that several streams touch
    uint64_t pool_address;              // shared by all launches; 0: none
    int64_t pool_bytes;
    metrics_file *metrics;              // null: none was asked for
};

typedef struct transfer_cache transfer_cache;
typedef struct job_binding job_binding;

struct spyre_context {
    pid_t process;
    uint32_t forks;                     // device_forks() when it was made
    uint32_t card_count;
    device devices[DEVICE_MOST_CARDS];
    profile_list *records;
    transfer_cache *transfers;
    copy_threads copy_threads;
    pthread_mutex_t bindings_lock;
    job_binding *bindings;              // of jobs to this context's cards
};

// Forks from the process that watched first to this one: a context is this process's if it was made
// at the present number. (Asking for the process's number is a system call.) False: no memory.
uint32_t device_forks(void);
SPYRE_MUST_CHECK bool device_watch_forks(void);

// Checks process (a forked child has no worker and must not touch locks), card and stream number.
SPYRE_MUST_CHECK spyre_status device_of(spyre_context *context, uint32_t card_id,
                                        uint32_t stream_id, device **out_device);

// The same with its lock held; null when it fails.
device *device_lock(spyre_context *context, uint32_t card_id, uint32_t stream_id);

// Runs the task at once when `may_run_here` and its stream is idle, else queues it. Takes the task
// over, also on failure; with task.waits returns its result. On a failed stream returns the sticky
// error, which of the default stream is cleared by that.
SPYRE_MUST_CHECK spyre_status device_submit(device *d, uint32_t stream_id, task *t,
                                            bool may_run_here);

// Sequence number below which every task of the stream, of the card, has ended. Lock held.
uint64_t device_stream_oldest(const device_stream *s);
uint64_t device_oldest_sequence(const device *d);

// Waits until a task came or ended. Lock held; given up meanwhile.
void device_sleep(device *d);

// A wait that the user may interrupt (spyre_set_interrupt()), begun as {0}.
typedef struct {
    bool interrupted;
    int64_t poll_ns;                    // when to ask next; 0: not said yet
} device_wait;

// Sleeps until `condition`, made by device_condition_init(), is signalled or it is time to ask;
// after an interruption without asking again. `lock` is held, and given up meanwhile.
void device_sleep_on(pthread_cond_t *condition, pthread_mutex_t *lock, device_wait *w);
void device_condition_init(pthread_cond_t *condition);

// The same with a condition and the lock of the device; an interruption cancels its tasks.
void device_sleep_asking(device *d, pthread_cond_t *condition, device_wait *w);

// Error of a wait that was interrupted; null otherwise.
SPYRE_MUST_CHECK spyre_status device_interruption(const device_wait *w);

// No task submitted so far begins any more and the launch under way stops; waits until all of them
// have ended. Lock held; given up meanwhile.
void device_cancel(device *d);
void device_wake(device *d);            // those that wait; lock held

// A copy of an error, to give it away and keep it. Null stays null.
spyre_status device_copy_error(spyre_status error);

// --- memory.c, all with the lock held

// Card memory that statistics of tensors do not count, for tasks of `stream`; MEMORY_NO_STREAM
// asks for a block that no task under way touches. `placement` may be null: anywhere.
#define MEMORY_NO_STREAM UINT32_MAX
SPYRE_MUST_CHECK spyre_status memory_take(device *d, uint32_t stream, int64_t bytes,
                                          const spyre_placement *placement, uint64_t *out_address);

// Gives it back. Tasks of the one stream that uses the block may take it over at once, others when
// what that stream does so far is done.
void memory_give(device *d, uint64_t address);
void memory_forget(device *d);          // frees the lists, at the end

// Fails unless [address, address + bytes) lies in one allocation; bytes from address to its end.
// When it is read, its contents must not be lost.
SPYRE_MUST_CHECK spyre_status memory_window(const device *d, uint64_t address, int64_t bytes,
                                            bool reads, uint64_t *out_limit);

// A task that would have written the block was cancelled; all of the block is written.
void memory_lose(device *d, uint64_t address);
void memory_restore(device *d, uint64_t address, int64_t bytes);

// Before the task that is about to be submitted to `stream` touches the block at `address`: waits
// for tasks of another stream that have used it before it was freed and allocated again.
SPYRE_MUST_CHECK spyre_status memory_await(device *d, uint32_t stream, uint64_t address);
void memory_note_use(device *d, uint32_t stream, uint64_t address);

// All of that for an operand of a task: checks the window and notes the use.
SPYRE_MUST_CHECK spyre_status memory_claim(device *d, const task *t, uint64_t address,
                                           int64_t bytes, bool reads);

// --- copy.c

SPYRE_MUST_CHECK spyre_status transfer_cache_create(transfer_cache **out_cache);
void transfer_cache_destroy(transfer_cache *cache);
double transfer_us(int64_t bytes);      // over the link between host and card
// INVALID_ARGUMENT for a view, named `what`, of too many dims; null is none.
SPYRE_MUST_CHECK spyre_status transfer_check_rank(const spyre_view *view, const char *what);

// --- job.c: unloads what jobs keep on this context's cards

void job_forget_context(spyre_context *context);

#endif
