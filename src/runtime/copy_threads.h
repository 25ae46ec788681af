// SPDX-License-Identifier: Apache-2.0
//
// The host threads of large copies, shared by all cards of a context.
#ifndef RUNTIME_COPY_THREADS_H
#define RUNTIME_COPY_THREADS_H

#include <pthread.h>

#include "base/thread_pool.h"

typedef struct {
    pthread_mutex_t lock;
    pool *pool;                         // null: none was large yet
} copy_threads;

void copy_threads_open(copy_threads *t);
void copy_threads_close(copy_threads *t);

// The threads of a copy of so many bytes; null when the caller's is enough, or the only one.
SPYRE_MUST_CHECK spyre_status copy_threads_for(copy_threads *t, int64_t bytes, pool **out_pool);

#endif
