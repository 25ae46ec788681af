// SPDX-License-Identifier: Apache-2.0
//
// One list of blocks, in use and kept. It is short: who pins memory does so for large buffers that
// live long, or again and again for the same sizes.
#define _GNU_SOURCE             // MAP_ANONYMOUS
#include "spyre/host_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

enum { MOST_KEPT_BYTES = 256 << 20 };

typedef struct host_block {
    struct host_block *next;
    uint8_t *start;
    size_t bytes;                       // whole pages
    bool locked, used;
} host_block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static host_block *blocks;
static size_t kept_bytes, reuse_count;
static bool warned;

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return bytes > SIZE_MAX - page ? 0 : ((bytes ? bytes : 1) + page - 1) / page * page;
}

// The smallest kept block that has the bytes and not half as many more.
static host_block *find_kept(size_t bytes)
{
    host_block *best = NULL;
    for (host_block *b = blocks; b; b = b->next) {
        bool fits = !b->used && b->bytes >= bytes && b->bytes - bytes <= bytes / 2;
        if (fits && (!best || b->bytes < best->bytes)) best = b;
    }
    return best;
}

static host_block *make(size_t bytes)
{
    host_block *b = bytes ? malloc(sizeof *b) : NULL;
    if (!b) return NULL;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        free(b);
        return NULL;
    }
    *b = (host_block){.next = blocks, .start = start, .bytes = bytes,
                      .locked = mlock(start, bytes) == 0};
    if (!b->locked && !warned) {
        warned = true;
        log_warn("%zu bytes of pinned memory are not locked: %s (see `ulimit -l`); transfers "
                 "take them all the same", bytes, strerror(errno));
    }
    blocks = b;
    return b;
}

void *spyre_host_allocate(size_t bytes)
{
    size_t pages = whole_pages(bytes);
    pthread_mutex_lock(&lock);
    host_block *b = find_kept(pages);
    if (b) {
        kept_bytes -= b->bytes;
        reuse_count++;
    } else {
        b = make(pages);
    }
    if (b) b->used = true;
    pthread_mutex_unlock(&lock);
    return b ? b->start : NULL;
}

// Unmapping unlocks, too.
static void give_back(host_block **link)
{
    host_block *b = *link;
    *link = b->next;
    munmap(b->start, b->bytes);
    free(b);
}

void spyre_host_free(void *block)
{
    if (!block) return;
    pthread_mutex_lock(&lock);
    host_block **link = &blocks;
    while (*link && (*link)->start != block) link = &(*link)->next;
    if (*link && (*link)->used) {
        (*link)->used = false;
        if ((*link)->bytes > MOST_KEPT_BYTES - kept_bytes) give_back(link);
        else kept_bytes += (*link)->bytes;
    }
    pthread_mutex_unlock(&lock);
}

bool spyre_host_is_pinned(const void *pointer)
{
    uintptr_t at = (uintptr_t)pointer;
    pthread_mutex_lock(&lock);
    const host_block *b = blocks;
    while (b && at - (uintptr_t)b->start >= b->bytes) b = b->next;
    bool pinned = b && b->used && b->locked;
    pthread_mutex_unlock(&lock);
    return pinned;
}

void spyre_host_empty_cache(void)
{
    pthread_mutex_lock(&lock);
    for (host_block **link = &blocks; *link;) {
        if ((*link)->used) link = &(*link)->next;
        else give_back(link);
    }
    kept_bytes = 0;
    pthread_mutex_unlock(&lock);
}

spyre_host_statistics spyre_host_read_statistics(void)
{
    pthread_mutex_lock(&lock);
    spyre_host_statistics s = {.kept_bytes = kept_bytes, .reused = reuse_count};
    for (const host_block *b = blocks; b; b = b->next) {
        s.kept_blocks += !b->used;
        if (!b->used) continue;
        s.blocks++;
        s.bytes += b->bytes;
        s.locked_bytes += b->locked ? b->bytes : 0;
    }
    pthread_mutex_unlock(&lock);
    return s;
}
