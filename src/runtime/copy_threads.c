// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy_threads.h"

// Several threads take part in copies of at least so many bytes: waking them takes as long as
// smaller ones.
enum { DIVIDED_BYTES = 1 << 17 };

void copy_threads_open(copy_threads *t)
{
    pthread_mutex_init(&t->lock, NULL);
}

void copy_threads_close(copy_threads *t)
{
    pool_destroy(t->pool);
    pthread_mutex_destroy(&t->lock);
}

spyre_status copy_threads_for(copy_threads *t, int64_t bytes, pool **out_pool)
{
    uint32_t threads;
    *out_pool = NULL;
    if (bytes < DIVIDED_BYTES) return NULL;
    TRY(thread_default_count(&threads));
    pthread_mutex_lock(&t->lock);
    spyre_status status = NULL;
    if (!t->pool && threads > 1) status = pool_create(threads, &t->pool);
    *out_pool = t->pool;
    pthread_mutex_unlock(&t->lock);
    return status;
}
