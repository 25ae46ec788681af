// SPDX-License-Identifier: Apache-2.0
//
// The parts of the file: one shared_memory_rank a rank, then the slots of messages by sender,
// receiver and number, then staging by rank and part, then the windows of the slots.
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
    uint64_t each = MOST_WINDOWS_BYTES / ((uint64_t)size * size * SHARED_MEMORY_SLOTS);
    if (each > MOST_WINDOW_BYTES) return MOST_WINDOW_BYTES;
    return each < 512 ? 512 : each & ~UINT64_C(63);
}

static uint64_t slots_at(uint32_t size)
{
    return (uint64_t)size * sizeof(shared_memory_rank);
}

static uint64_t staging_at(uint32_t size)
{
    uint64_t end =
        slots_at(size) + (uint64_t)size * size * SHARED_MEMORY_SLOTS * sizeof(shared_memory_slot);
    return (end + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

static uint64_t windows_at(uint32_t size)
{
    return staging_at(size) + (uint64_t)size * SHARED_MEMORY_PARTS * CHUNK_BYTES;
}

static uint64_t shared_memory_bytes(uint32_t size)
{
    return windows_at(size) + window_bytes(size) * SHARED_MEMORY_SLOTS * size * size;
}

uint8_t *shared_memory_staging(const shared_memory *s, uint32_t rank, uint32_t part)
{
    return s->base + staging_at(s->size) +
           ((uint64_t)rank * SHARED_MEMORY_PARTS + part) * CHUNK_BYTES;
}

static uint64_t slot_index(const shared_memory *s, uint32_t from, uint32_t to, uint32_t slot)
{
    return ((uint64_t)from * s->size + to) * SHARED_MEMORY_SLOTS + slot;
}

shared_memory_slot *shared_memory_slot_of(const shared_memory *s, uint32_t from, uint32_t to,
                                          uint32_t slot)
{
    return (shared_memory_slot *)(void *)(s->base + slots_at(s->size)) +
           slot_index(s, from, to, slot);
}

uint8_t *shared_memory_window(const shared_memory *s, uint32_t from, uint32_t to, uint32_t slot)
{
    return s->base + windows_at(s->size) + slot_index(s, from, to, slot) * s->window_bytes;
}

static spyre_status map(int file, uint32_t rank, uint32_t size, shared_memory *out)
{
    *out = (shared_memory){
        .bytes = shared_memory_bytes(size),
        .file = file,
        .rank = rank,
        .size = size,
        .window_bytes = window_bytes(size),
        .transport = &transport_shared,
        .topology = {.size = size, .hosts = 1, .cores = 1, .forced = ALGORITHM_COUNT}};
    void *base = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (base == MAP_FAILED) {
        close(file);
        return status_new(SPYRE_OUT_OF_MEMORY, "no room to map %llu bytes of shared memory: %s",
                          (unsigned long long)out->bytes, strerror(errno));
    }
    out->base = base;
    return NULL;
}

spyre_status shared_memory_create(uint32_t rank, uint32_t size, shared_memory *out_shared)
{
    int file = memfd_create("openspyre-comm", MFD_CLOEXEC);
    if (file < 0) return status_new(SPYRE_IO, "memfd_create: %s", strerror(errno));
    uint64_t bytes = shared_memory_bytes(size);
    // Takes the pages now: a host without room is an error here and not a signal later.
    int refused = posix_fallocate(file, 0, (off_t)bytes);
    if (refused) {
        close(file);
        return status_new(SPYRE_OUT_OF_MEMORY,
                          "%llu bytes of shared memory for %u ranks: %s",
                          (unsigned long long)bytes, size, strerror(refused));
    }
    return map(file, rank, size, out_shared);
}

spyre_status shared_memory_attach(int file, uint32_t rank, uint32_t size, shared_memory *out_shared)
{
    struct stat found;
    if (fstat(file, &found) || (uint64_t)found.st_size != shared_memory_bytes(size)) {
        close(file);
        return status_new(SPYRE_INVALID_FORMAT,
                          "shared memory of %u ranks must have %llu bytes: another version of the "
                          "library?", size, (unsigned long long)shared_memory_bytes(size));
    }
    return map(file, rank, size, out_shared);
}

void shared_memory_detach(shared_memory *s)
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

static uint64_t offset_of(const shared_memory *s, const void *at)
{
    return (uint64_t)((const uint8_t *)at - s->base);
}

// A rank's bells are its own process's.
static part described_by(const shared_memory *s, uint32_t rank)
{
    shared_memory_rank *r = shared_memory_rank_of(s, rank);
    return (part){offset_of(s, &r->state), sizeof *r - offsetof(shared_memory_rank, state)};
}

// What goes on between two ranks: either of them changes all of a slot, the sender its window.
static bool passes_between(const shared_memory *s, uint32_t from, uint32_t to, uint64_t at,
                           uint64_t bytes)
{
    uint64_t slots = SHARED_MEMORY_SLOTS * sizeof(shared_memory_slot);
    part sent = {offset_of(s, shared_memory_slot_of(s, from, to, 0)), slots};
    part received = {offset_of(s, shared_memory_slot_of(s, to, from, 0)), slots};
    part windows = {offset_of(s, shared_memory_window(s, from, to, 0)),
                    SHARED_MEMORY_SLOTS * s->window_bytes};
    return lies_in(at, bytes, sent) || lies_in(at, bytes, received) || lies_in(at, bytes, windows);
}

bool shared_memory_is_written_by(const shared_memory *s, uint32_t from, uint64_t at, uint64_t bytes)
{
    if (lies_in(at, bytes, described_by(s, from))) return true;
    part staging = {offset_of(s, shared_memory_staging(s, from, 0)),
                    (uint64_t)SHARED_MEMORY_PARTS * CHUNK_BYTES};
    if (lies_in(at, bytes, staging)) return true;
    for (uint32_t to = 0; to < s->size; to++)
        if (shared_memory_is_here(s, to) && passes_between(s, from, to, at, bytes)) return true;
    return false;
}

bool shared_memory_is_of_message(const shared_memory *s, const void *at)
{
    uint64_t offset = offset_of(s, at);
    return offset >= windows_at(s->size) ||
           (offset >= slots_at(s->size) && offset < staging_at(s->size));
}

// --- Changes that others see

void shared_memory_push(const shared_memory *s, uint32_t to, const void *at, uint64_t bytes)
{
    if (bytes) s->transport->push(s, to, at, bytes, false);
}

void shared_memory_store32(const shared_memory *s, uint32_t to, _Atomic uint32_t *target,
                           uint32_t value)
{
    atomic_store(target, value);
    s->transport->push(s, to, target, sizeof value, true);
}

void shared_memory_store64(const shared_memory *s, uint32_t to, _Atomic uint64_t *target,
                           uint64_t value)
{
    atomic_store_explicit(target, value, memory_order_release);
    s->transport->push(s, to, target, sizeof value, true);
}

void shared_memory_ring(const shared_memory *s, uint32_t rank, uint32_t bell)
{
    s->transport->ring(s, rank, bell);
}

void shared_memory_ring_all(const shared_memory *s, uint32_t bell)
{
    s->transport->ring(s, SHARED_MEMORY_ALL, bell);
}

// --- Who is there

spyre_status shared_memory_join(const shared_memory *s)
{
    struct flock mine = shared_memory_lock_of(s->rank);
    if (fcntl(s->file, F_SETLK, &mine))
        return status_new(SPYRE_INVALID_ARGUMENT, "rank %u is taken by another process", s->rank);
    shared_memory_store32(s, SHARED_MEMORY_ALL, &shared_memory_rank_of(s, s->rank)->state,
                          SHARED_MEMORY_JOINED);
    return NULL;
}

bool shared_memory_is_alive(const shared_memory *s, uint32_t rank)
{
    return s->transport->is_alive(s, rank);
}

uint32_t shared_memory_gateway(const shared_memory *s, uint32_t from, uint32_t host)
{
    return topology_member(&s->topology, host, from);
}

static void end_as(const shared_memory *s, shared_memory_state state)
{
    shared_memory_store32(s, SHARED_MEMORY_ALL, &shared_memory_rank_of(s, s->rank)->state, state);
    for (uint32_t bell = 0; bell < SHARED_MEMORY_BELLS; bell++) shared_memory_ring_all(s, bell);
    s->transport->end(s);
}

bool shared_memory_has_left(const shared_memory *s, uint32_t rank)
{
    return s->transport->has_left(s, rank);
}

void shared_memory_fail(const shared_memory *s, spyre_status reason)
{
    shared_memory_rank *mine = shared_memory_rank_of(s, s->rank);
    uint32_t state = atomic_load(&mine->state);
    if (state == SHARED_MEMORY_FAILED || state == SHARED_MEMORY_LEFT) return;
    mine->reason.code = spyre_status_code(reason);
    snprintf(mine->reason.text, sizeof mine->reason.text, "%s", spyre_status_message(reason));
    shared_memory_push(s, SHARED_MEMORY_ALL, &mine->reason, sizeof mine->reason);
    end_as(s, SHARED_MEMORY_FAILED);
}

void shared_memory_leave(const shared_memory *s)
{
    if (atomic_load(&shared_memory_rank_of(s, s->rank)->state) == SHARED_MEMORY_JOINED)
        end_as(s, SHARED_MEMORY_LEFT);
}
