// SPDX-License-Identifier: Apache-2.0
#include "compile/cache/cache_table.h"

#include <string.h>

enum { BUCKETS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static spyre_executable *in_use[BUCKETS];

static spyre_executable **bucket_of(content_key key)
{
    return &in_use[key.low % BUCKETS];
}

// Under the lock.
static spyre_executable *share(content_key key, const char *subject)
{
    for (spyre_executable *e = *bucket_of(key); e; e = e->next)
        if (memcmp(&e->key, &key, sizeof key) == 0 && strcmp(e->subject, subject) == 0) {
            e->references++;
            return e;
        }
    return NULL;
}

spyre_executable *cache_table_find(content_key key, const char *subject)
{
    pthread_mutex_lock(&lock);
    spyre_executable *known = share(key, subject);
    pthread_mutex_unlock(&lock);
    return known;
}

spyre_executable *cache_table_add(spyre_executable *made)
{
    pthread_mutex_lock(&lock);
    spyre_executable *known = share(made->key, made->subject);
    if (!known) {
        made->next = *bucket_of(made->key);
        *bucket_of(made->key) = made;
    }
    pthread_mutex_unlock(&lock);
    return known ? known : made;
}

spyre_executable *cache_table_hold(spyre_executable *executable)
{
    pthread_mutex_lock(&lock);
    executable->references++;
    pthread_mutex_unlock(&lock);
    return executable;
}

bool cache_table_let_go(spyre_executable *executable)
{
    pthread_mutex_lock(&lock);
    bool last = --executable->references == 0;
    spyre_executable **at = bucket_of(executable->key);
    while (last && *at && *at != executable) at = &(*at)->next;
    if (last && *at) *at = executable->next;
    pthread_mutex_unlock(&lock);
    return last;
}
