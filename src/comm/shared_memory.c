// SPDX-License-Identifier: Apache-2.0
//
// The parts of the file: one segment_rank a rank, then the slots of messages by sender, receiver
// and number, then staging by rank and part, then the windows of the slots.
#define _GNU_SOURCE             // memfd_create, fallocate
#include "comm/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
    return staging_at(size) + (uint64_t)size * SEGMENT_PARTS * SEGMENT_PART_BYTES;
}

uint64_t segment_bytes(uint32_t size)
{
    return windows_at(size) + window_bytes(size) * SEGMENT_SLOTS * size * size;
}

uint8_t *segment_staging(const segment *s, uint32_t rank, uint32_t part)
{
    return s->base + staging_at(s->size) +
           ((uint64_t)rank * SEGMENT_PARTS + part) * SEGMENT_PART_BYTES;
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
                     .window_bytes = window_bytes(size), .transport = &transport_shared,
                     .topology = {.size = size, .hosts = 1, .cores = 1,
                                  .forced = ALGORITHM_COUNT}};
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
    s->transport->close(s);
    munmap(s->base, s->bytes);
    close(s->file);
    s->base = NULL;
}

// --- Whose is what

typedef struct {
    uint64_t at, bytes;
} part;

static bool lies_in(uint64_t at, uint64_t bytes, part p)
{
    return at >= p.at && bytes <= p.bytes && at - p.at <= p.bytes - bytes;
}

static uint64_t offset_of(const segment *s, const void *at)
{
    return (uint64_t)((const uint8_t *)at - s->base);
}

// A rank's bells are its own process's.
static part described_by(const segment *s, uint32_t rank)
{
    segment_rank *r = segment_rank_of(s, rank);
    return (part){offset_of(s, &r->state), sizeof *r - offsetof(segment_rank, state)};
}

// What goes on between two ranks: either of them changes all of a slot, the sender its window.
static bool passes_between(const segment *s, uint32_t from, uint32_t to, uint64_t at,
                           uint64_t bytes)
{
    uint64_t slots = SEGMENT_SLOTS * sizeof(segment_slot);
    part sent = {offset_of(s, segment_slot_of(s, from, to, 0)), slots};
    part received = {offset_of(s, segment_slot_of(s, to, from, 0)), slots};
    part windows = {offset_of(s, segment_window(s, from, to, 0)),
                    SEGMENT_SLOTS * s->window_bytes};
    return lies_in(at, bytes, sent) || lies_in(at, bytes, received) || lies_in(at, bytes, windows);
}

bool segment_is_written_by(const segment *s, uint32_t from, uint64_t at, uint64_t bytes)
{
    if (lies_in(at, bytes, described_by(s, from))) return true;
    part staging = {offset_of(s, segment_staging(s, from, 0)),
                    (uint64_t)SEGMENT_PARTS * SEGMENT_PART_BYTES};
    if (lies_in(at, bytes, staging)) return true;
    for (uint32_t to = 0; to < s->size; to++)
        if (segment_is_here(s, to) && passes_between(s, from, to, at, bytes)) return true;
    return false;
}

bool segment_is_of_message(const segment *s, const void *at)
{
    uint64_t offset = offset_of(s, at);
    return offset >= windows_at(s->size) ||
           (offset >= slots_at(s->size) && offset < staging_at(s->size));
}

// --- Changes that others see

void segment_push(const segment *s, uint32_t to, const void *at, uint64_t bytes)
{
    if (bytes) s->transport->push(s, to, at, bytes, false);
}

void segment_store32(const segment *s, uint32_t to, _Atomic uint32_t *target, uint32_t value)
{
    atomic_store(target, value);
    s->transport->push(s, to, target, sizeof value, true);
}

void segment_store64(const segment *s, uint32_t to, _Atomic uint64_t *target, uint64_t value)
{
    atomic_store_explicit(target, value, memory_order_release);
    s->transport->push(s, to, target, sizeof value, true);
}

void segment_ring(const segment *s, uint32_t rank, uint32_t bell)
{
    s->transport->ring(s, rank, bell);
}

void segment_ring_all(const segment *s, uint32_t bell)
{
    s->transport->ring(s, SEGMENT_ALL, bell);
}

// --- Who is there

spyre_status segment_join(const segment *s)
{
    struct flock mine = segment_lock_of(s->rank);
    if (fcntl(s->file, F_SETLK, &mine))
        return status_new(SPYRE_INVALID_ARGUMENT, "rank %u is taken by another process", s->rank);
    segment_store32(s, SEGMENT_ALL, &segment_rank_of(s, s->rank)->state, SEGMENT_JOINED);
    return NULL;
}

bool segment_is_alive(const segment *s, uint32_t rank)
{
    return s->transport->is_alive(s, rank);
}

uint32_t segment_gateway(const segment *s, uint32_t from, uint32_t host)
{
    return topology_member(&s->topology, host, from);
}

static void end_as(const segment *s, segment_state state)
{
    segment_store32(s, SEGMENT_ALL, &segment_rank_of(s, s->rank)->state, state);
    for (uint32_t bell = 0; bell < SEGMENT_BELLS; bell++) segment_ring_all(s, bell);
    s->transport->end(s);
}

bool segment_has_left(const segment *s, uint32_t rank)
{
    return s->transport->has_left(s, rank);
}

void segment_fail(const segment *s, spyre_status reason)
{
    segment_rank *mine = segment_rank_of(s, s->rank);
    uint32_t state = atomic_load(&mine->state);
    if (state == SEGMENT_FAILED || state == SEGMENT_LEFT) return;
    mine->reason.code = spyre_status_code(reason);
    snprintf(mine->reason.text, sizeof mine->reason.text, "%s", spyre_status_message(reason));
    segment_push(s, SEGMENT_ALL, &mine->reason, sizeof mine->reason);
    end_as(s, SEGMENT_FAILED);
}

void segment_leave(const segment *s)
{
    if (atomic_load(&segment_rank_of(s, s->rank)->state) == SEGMENT_JOINED)
        end_as(s, SEGMENT_LEFT);
}
