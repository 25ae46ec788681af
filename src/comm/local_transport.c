// SPDX-License-Identifier: Apache-2.0
//
// The transport within a host: the shared memory is mapped by all ranks. A rank holds a lock
// (fcntl) on one byte of the file. The kernel drops the lock with the process, which is how others
// notice its death. Children of fork() inherit no such lock.
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/shared_memory.h"

static void push(const shared_memory *s, uint32_t to, const void *at, uint64_t bytes, bool whole)
{
    (void)s, (void)to, (void)at, (void)bytes, (void)whole;
}

static void ring_one(const shared_memory *s, uint32_t to, uint32_t bell)
{
    shared_memory_bell *b = &shared_memory_rank_of(s, to)->bells[bell];
    atomic_fetch_add(&b->rings, 1);
    if (atomic_load(&b->sleepers))
        syscall(SYS_futex, &b->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void ring(const shared_memory *s, uint32_t to, uint32_t bell)
{
    if (to != SHARED_MEMORY_ALL) ring_one(s, to, bell);
    for (uint32_t r = 0; to == SHARED_MEMORY_ALL && r < s->size; r++)
        if (r != s->rank && shared_memory_is_here(s, r)) ring_one(s, r, bell);
}

static bool is_alive(const shared_memory *s, uint32_t rank)
{
    struct flock other = shared_memory_lock_of(rank);
    return fcntl(s->file, F_GETLK, &other) || other.l_type != F_UNLCK;
}

static bool has_left(const shared_memory *s, uint32_t rank)
{
    return atomic_load(&shared_memory_rank_of(s, rank)->state) == SHARED_MEMORY_LEFT;
}

static void end_nothing(const shared_memory *s)
{
    (void)s;
}

static const char *death(const shared_memory *s, uint32_t rank)
{
    (void)s, (void)rank;
    return "its process is gone";
}

static void close_nothing(shared_memory *s)
{
    (void)s;
}

const comm_transport transport_shared = {"shared memory", push, ring, end_nothing, is_alive,
                                         has_left, death, close_nothing};
