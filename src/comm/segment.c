// SPDX-License-Identifier: Apache-2.0
//
// The parts of the file: one segment_rank a rank, then the slots of messages by sender, receiver
// and number, then staging by rank and half, then the windows of the slots.
#define _GNU_SOURCE             // memfd_create, fallocate
#include "comm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"

// Windows of a communicator take this much at most, however many ranks it has.
enum { MOST_WINDOW_BYTES = 64 << 10, MOST_WINDOWS_BYTES = 16 << 20, PAGE_BYTES = 4096 };

static uint64_t window_bytes(uint32_t size)
{
    uint64_t each = MOST_WINDOWS_BYTES / ((uint64_t)size * size * SEGMENT_SLOTS);
    if (each > MOST_WINDOW_BYTES) return MOST_WINDOW_BYTES;
    return each < 512 ? 512 : each & ~UINT64_C(63);
}

static uint64_t slots_at(uint32_t size)
{
    return (uint64_t)size * sizeof(segment_rank);
}

static uint64_t staging_at(uint32_t size)
{
    uint64_t end = slots_at(size) + (uint64_t)size * size * SEGMENT_SLOTS * sizeof(segment_slot);
    return (end + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

static uint64_t windows_at(uint32_t size)
{
    return staging_at(size) + (uint64_t)size * 2 * SEGMENT_HALF_BYTES;
}

uint64_t segment_bytes(uint32_t size)
{
    return windows_at(size) + window_bytes(size) * SEGMENT_SLOTS * size * size;
}

segment_rank *segment_rank_of(const segment *s, uint32_t rank)
{
    return (segment_rank *)(void *)s->base + rank;
}

uint8_t *segment_staging(const segment *s, uint32_t rank, uint32_t half)
{
    return s->base + staging_at(s->size) + ((uint64_t)rank * 2 + half) * SEGMENT_HALF_BYTES;
}

static uint64_t slot_index(const segment *s, uint32_t from, uint32_t to, uint32_t slot)
{
    return ((uint64_t)from * s->size + to) * SEGMENT_SLOTS + slot;
}

segment_slot *segment_slot_of(const segment *s, uint32_t from, uint32_t to, uint32_t slot)
{
    return (segment_slot *)(void *)(s->base + slots_at(s->size)) + slot_index(s, from, to, slot);
}

uint8_t *segment_window(const segment *s, uint32_t from, uint32_t to, uint32_t slot)
{
    return s->base + windows_at(s->size) + slot_index(s, from, to, slot) * s->window_bytes;
}

static spyre_status map(int file, uint32_t rank, uint32_t size, segment *out)
{
    *out = (segment){.bytes = segment_bytes(size), .file = file, .rank = rank, .size = size,
                     .window_bytes = window_bytes(size)};
    void *base = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (base == MAP_FAILED) {
        close(file);
        return status_new(SPYRE_OUT_OF_MEMORY, "no room to map %llu bytes of shared memory: %s",
                          (unsigned long long)out->bytes, strerror(errno));
    }
    out->base = base;
    return NULL;
}

spyre_status segment_create(uint32_t rank, uint32_t size, segment *out_segment)
{
    int file = memfd_create("openspyre-comm", MFD_CLOEXEC);
    if (file < 0) return status_new(SPYRE_IO, "memfd_create: %s", strerror(errno));
    uint64_t bytes = segment_bytes(size);
    // Takes the pages now: a host without room is an error here and not a signal later.
    int refused = posix_fallocate(file, 0, (off_t)bytes);
    if (refused) {
        close(file);
        return status_new(SPYRE_OUT_OF_MEMORY,
                          "%llu bytes of shared memory for %u ranks: %s",
                          (unsigned long long)bytes, size, strerror(refused));
    }
    return map(file, rank, size, out_segment);
}

spyre_status segment_attach(int file, uint32_t rank, uint32_t size, segment *out_segment)
{
    struct stat found;
    if (fstat(file, &found) || (uint64_t)found.st_size != segment_bytes(size)) {
        close(file);
        return status_new(SPYRE_INVALID_FORMAT,
                          "shared memory of %u ranks must have %llu bytes: another version of the "
                          "library?", size, (unsigned long long)segment_bytes(size));
    }
    return map(file, rank, size, out_segment);
}

void segment_detach(segment *s)
{
    if (!s->base) return;
    munmap(s->base, s->bytes);
    close(s->file);
    s->base = NULL;
}

static struct flock byte_of(uint32_t rank)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

spyre_status segment_join(const segment *s)
{
    struct flock mine = byte_of(s->rank);
    if (fcntl(s->file, F_SETLK, &mine))
        return status_new(SPYRE_INVALID_ARGUMENT, "rank %u is taken by another process", s->rank);
    atomic_store(&segment_rank_of(s, s->rank)->state, SEGMENT_JOINED);
    return NULL;
}

bool segment_is_alive(const segment *s, uint32_t rank)
{
    struct flock other = byte_of(rank);
    return fcntl(s->file, F_GETLK, &other) || other.l_type != F_UNLCK;
}

void segment_fail(const segment *s, const char *reason)
{
    segment_rank *mine = segment_rank_of(s, s->rank);
    uint32_t state = atomic_load(&mine->state);
    if (state == SEGMENT_FAILED || state == SEGMENT_LEFT) return;
    snprintf(mine->reason, sizeof mine->reason, "%s", reason);
    atomic_store(&mine->state, SEGMENT_FAILED);
    segment_ring_all(s, 0);
    segment_ring_all(s, 1);
}

void segment_ring(const segment *s, uint32_t rank, uint32_t bell)
{
    segment_bell *b = &segment_rank_of(s, rank)->bells[bell];
    atomic_fetch_add(&b->rings, 1);
    if (atomic_load(&b->sleepers))
        syscall(SYS_futex, &b->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void segment_ring_all(const segment *s, uint32_t bell)
{
    for (uint32_t r = 0; r < s->size; r++)
        if (r != s->rank) segment_ring(s, r, bell);
}
