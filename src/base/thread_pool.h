// SPDX-License-Identifier: Apache-2.0
//
// A fixed pool of threads for loops whose iterations do not depend on one another. The caller works
// too, so a pool of one has no threads of its own and runs the loop as written.
#ifndef BASE_THREAD_POOL_H
#define BASE_THREAD_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "spyre/runtime.h"

enum { THREAD_LARGEST_COUNT = 256 };

typedef struct pool pool;

// One iteration. `worker` is 0..pool_threads()-1 and unique among the iterations of one pool_run
// that run at the same time, so it may index scratch memory.
typedef void pool_fn(void *context, size_t index, uint32_t worker);

// The cores that this process may run on, 1..256.
uint32_t thread_cores(void);

// The number of threads to use: SPYRE_THREADS (1..256, an error otherwise), by default the cores
// that this process may run on.
SPYRE_MUST_CHECK spyre_status thread_default_count(uint32_t *out_count);

// A pool of `threads` (1..256) threads, the caller's own included; of fewer, with a warning, where
// the host starts no more.
SPYRE_MUST_CHECK spyre_status pool_create(uint32_t threads, pool **out_pool);

// Ends the threads; no run may be under way. Null is allowed.
void pool_destroy(pool *workers);

uint32_t pool_threads(const pool *workers);

// True while another thread than the caller's would take part in a run at once. For some 50 us
// after a run it would, a team's for a millisecond; later it must be woken first, which takes about
// 50 us.
bool pool_awake(const pool *workers);

// From now on the team, threads of the program around the library, does the runs of the calling
// thread, where it has as many threads as the pool.
void thread_use_team(spyre_thread_team team);

bool thread_has_team(void);

// Calls fn(context, i, worker) for every i in 0..count-1, in no order, and returns when all are
// done; what they wrote is visible to the caller. Iterations must not wait for one another: several
// may share a thread. Threads that call at the same time take turns. Inside an iteration (of this
// pool or another) a run never waits for a busy pool: it executes inline, as worker 0.
void pool_run(pool *workers, size_t count, pool_fn *fn, void *context);

#endif
