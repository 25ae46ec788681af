// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of a communicator share: one memfd, which the kernel frees with the
// last process that has it, so a killed rank leaves nothing behind. Each rank writes its own part
// and reads those of the others; nothing that is read is trusted. Each host has one, in which
// the parts of other hosts' ranks are copies (transport.h).
#ifndef COMM_SHARED_MEMORY_H
#define COMM_SHARED_MEMORY_H

#include <fcntl.h>
#include <stdatomic.h>

#include "comm/choose_algorithm.h"
#include "comm/call_agreement.h"
#include "comm/chunk_size.h"
#include "comm/transport.h"

enum {
    SHARED_MEMORY_SMALL_BYTES = 4096, // of an operation that need no staging
    SHARED_MEMORY_PARTS = 3,          // of a rank's staging, a chunk each, used in turns
    SHARED_MEMORY_SLOTS = 4,          // messages under way from one rank to another
    SHARED_MEMORY_REASON_BYTES = 384,
};

enum { COMM_BELL_COLLECTIVES, COMM_BELL_MESSAGES, SHARED_MEMORY_BELLS };

typedef enum {
    SHARED_MEMORY_ABSENT,
    SHARED_MEMORY_JOINED,
    SHARED_MEMORY_FAILED,
    SHARED_MEMORY_LEFT
} shared_memory_state;

// Rung by others when they have changed what its owner may wait for.
typedef struct {
    _Alignas(64) _Atomic uint32_t rings;
    _Atomic uint32_t sleepers;
} shared_memory_bell;

// One message from a rank to another. The sender writes the header, then the data into a window
// that both count bytes of; the receiver frees the slot.
typedef enum { SLOT_FREE, SLOT_POSTED, SLOT_TAKEN, SLOT_REFUSED } slot_state;

typedef struct {
    _Alignas(64) _Atomic uint32_t state;
    _Atomic uint64_t written, read;
    comm_header header, answer;         // answer: of a receiver that refuses
} shared_memory_slot;

// Why a rank works no more.
typedef struct {
    uint32_t code;                      // a spyre_code
    char text[SHARED_MEMORY_REASON_BYTES];
} shared_memory_reason;

typedef struct {
    shared_memory_bell bells[SHARED_MEMORY_BELLS];
    _Alignas(64) _Atomic uint32_t state;
    _Atomic uint64_t phase;             // steps of collectives that the rank has come to
    shared_memory_reason reason;        // written before the state FAILED
    comm_header headers[2];             // of collectives by turns
    comm_lists lists[2];
    _Alignas(64) uint8_t small[2][SHARED_MEMORY_SMALL_BYTES];
} shared_memory_rank;

struct shared_memory {
    uint8_t *base;
    uint64_t bytes;
    int file;
    uint32_t rank, size;
    uint64_t window_bytes;              // of a slot
    comm_topology topology;             // of all ranks; their rendezvous sets it
    const comm_transport *transport;
    struct network *network;            // of transport_network
};

// A new one. OUT_OF_MEMORY when the host has no room: all of it is taken at once.
SPYRE_MUST_CHECK spyre_status shared_memory_create(uint32_t rank, uint32_t size,
                                                   shared_memory *out_shared);

// The one of a file, which it takes over also on failure; INVALID_FORMAT for another one.
SPYRE_MUST_CHECK spyre_status shared_memory_attach(int file, uint32_t rank, uint32_t size,
                                                   shared_memory *out_shared);
void shared_memory_detach(shared_memory *s);

static inline shared_memory_rank *shared_memory_rank_of(const shared_memory *s, uint32_t rank)
{
    return (shared_memory_rank *)(void *)s->base + rank;
}

uint8_t *shared_memory_staging(const shared_memory *s, uint32_t rank, uint32_t part); // CHUNK_BYTES
shared_memory_slot *shared_memory_slot_of(const shared_memory *s, uint32_t from, uint32_t to,
                                          uint32_t slot);
uint8_t *shared_memory_window(const shared_memory *s, uint32_t from, uint32_t to, uint32_t slot);

// The range of the file that a rank locks while it lives.
static inline struct flock shared_memory_lock_of(uint32_t rank)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

// Whether the rank is one of this host, so that both have the same one.
static inline bool shared_memory_is_here(const shared_memory *s, uint32_t rank)
{
    return s->topology.host_of[rank] == s->topology.host_of[s->rank];
}

// Whether [at, at + bytes) of the shared memory is what rank `from` of another host writes, for
// ranks of this one.
bool shared_memory_is_written_by(const shared_memory *s, uint32_t from, uint64_t at,
                                 uint64_t bytes);

// Whether it is a slot or a window, which only two ranks use.
bool shared_memory_is_of_message(const shared_memory *s, const void *at);

// Says of this rank that it is there, for as long as the process lives.
SPYRE_MUST_CHECK spyre_status shared_memory_join(const shared_memory *s);
bool shared_memory_is_alive(const shared_memory *s, uint32_t rank);

// The rank of `host` that takes what `from`, a rank of another one, writes of collectives.
uint32_t shared_memory_gateway(const shared_memory *s, uint32_t from, uint32_t host);
void shared_memory_leave(const shared_memory *s);

// Whether the rank has left, and all messages that it sent before have come.
bool shared_memory_has_left(const shared_memory *s, uint32_t rank);

// What this rank has written at `at`, for a rank or, with SHARED_MEMORY_ALL, all others.
#define SHARED_MEMORY_ALL UINT32_MAX
void shared_memory_push(const shared_memory *s, uint32_t to, const void *at, uint64_t bytes);
// Stores an atomic of the shared memory, behind what was pushed before.
void shared_memory_store32(const shared_memory *s, uint32_t to, _Atomic uint32_t *target,
                           uint32_t value);
void shared_memory_store64(const shared_memory *s, uint32_t to, _Atomic uint64_t *target,
                           uint64_t value);

// Why this rank works no more, for the others.
void shared_memory_fail(const shared_memory *s, spyre_status reason);

// Rings the bell of a rank, of all others.
void shared_memory_ring(const shared_memory *s, uint32_t rank, uint32_t bell);
void shared_memory_ring_all(const shared_memory *s, uint32_t bell);

#endif
