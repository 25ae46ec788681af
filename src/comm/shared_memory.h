// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of a communicator share: one memfd, which the kernel frees with the
// last process that has it, so a killed rank leaves nothing behind. Each rank writes its own part
// and reads those of the others; nothing that is read is trusted. Each host has a segment, in which
// the parts of other hosts' ranks are copies (transport.h).
#ifndef COMM_SHARED_MEMORY_H
#define COMM_SHARED_MEMORY_H

#include <fcntl.h>
#include <stdatomic.h>

#include "comm/algorithm.h"
#include "comm/call_agreement.h"
#include "comm/transport.h"

enum {
    SEGMENT_SMALL_BYTES = 4096,         // of an operation that need no staging
    SEGMENT_PARTS = 3,                  // of a rank's staging, which are used in turns
    SEGMENT_PART_BYTES = 512 << 10,
    SEGMENT_SLOTS = 4,                  // messages under way from one rank to another
    SEGMENT_REASON_BYTES = 384,
};

enum { COMM_BELL_COLLECTIVES, COMM_BELL_MESSAGES, SEGMENT_BELLS };

typedef enum { SEGMENT_ABSENT, SEGMENT_JOINED, SEGMENT_FAILED, SEGMENT_LEFT } segment_state;

// Rung by others when they have changed what its owner may wait for.
typedef struct {
    _Alignas(64) _Atomic uint32_t rings;
    _Atomic uint32_t sleepers;
} segment_bell;

// One message from a rank to another. The sender writes the header, then the data into a window
// that both count bytes of; the receiver frees the slot.
typedef enum { SLOT_FREE, SLOT_POSTED, SLOT_TAKEN, SLOT_REFUSED } slot_state;

typedef struct {
    _Alignas(64) _Atomic uint32_t state;
    _Atomic uint64_t written, read;
    comm_header header, answer;         // answer: of a receiver that refuses
} segment_slot;

// Why a rank works no more.
typedef struct {
    uint32_t code;                      // a spyre_code
    char text[SEGMENT_REASON_BYTES];
} segment_reason;

typedef struct {
    segment_bell bells[SEGMENT_BELLS];
    _Alignas(64) _Atomic uint32_t state;
    _Atomic uint64_t phase;             // steps of collectives that the rank has come to
    segment_reason reason;              // written before the state FAILED
    comm_header headers[2];             // of collectives by turns
    comm_lists lists[2];
    _Alignas(64) uint8_t small[2][SEGMENT_SMALL_BYTES];
} segment_rank;

struct segment {
    uint8_t *base;
    uint64_t bytes;
    int file;
    uint32_t rank, size;
    uint64_t window_bytes;              // of a slot
    comm_topology topology;             // of all ranks; their rendezvous sets it
    const comm_transport *transport;
    struct network *network;            // of transport_network
};

// Bytes of a segment for that many ranks.
uint64_t segment_bytes(uint32_t size);

// A new one. OUT_OF_MEMORY when the host has no room: all of it is taken at once.
SPYRE_MUST_CHECK spyre_status segment_create(uint32_t rank, uint32_t size, segment *out_segment);

// The one of a file, which it takes over also on failure; INVALID_FORMAT for another one.
SPYRE_MUST_CHECK spyre_status segment_attach(int file, uint32_t rank, uint32_t size,
                                             segment *out_segment);
void segment_detach(segment *s);

static inline segment_rank *segment_rank_of(const segment *s, uint32_t rank)
{
    return (segment_rank *)(void *)s->base + rank;
}

uint8_t *segment_staging(const segment *s, uint32_t rank, uint32_t part);   // SEGMENT_PART_BYTES
segment_slot *segment_slot_of(const segment *s, uint32_t from, uint32_t to, uint32_t slot);
uint8_t *segment_window(const segment *s, uint32_t from, uint32_t to, uint32_t slot);

// The range of the file that a rank locks while it lives.
static inline struct flock segment_lock_of(uint32_t rank)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

// Whether the rank is one of this host, so that both share the segment.
static inline bool segment_is_here(const segment *s, uint32_t rank)
{
    return s->topology.host_of[rank] == s->topology.host_of[s->rank];
}

// Whether [at, at + bytes) of the segment is what rank `from` of another host writes, for ranks of
// this one.
bool segment_is_written_by(const segment *s, uint32_t from, uint64_t at, uint64_t bytes);

// Whether it is a slot or a window, which only two ranks use.
bool segment_is_of_message(const segment *s, const void *at);

// Says of this rank that it is there, for as long as the process lives.
SPYRE_MUST_CHECK spyre_status segment_join(const segment *s);
bool segment_is_alive(const segment *s, uint32_t rank);

// The rank of `host` that takes what `from`, a rank of another one, writes of collectives.
uint32_t segment_gateway(const segment *s, uint32_t from, uint32_t host);
void segment_leave(const segment *s);

// Whether the rank has left, and all messages that it sent before have come.
bool segment_has_left(const segment *s, uint32_t rank);

// What this rank has written at `at`, for a rank or, with SEGMENT_ALL, all others.
#define SEGMENT_ALL UINT32_MAX
void segment_push(const segment *s, uint32_t to, const void *at, uint64_t bytes);
// Stores an atomic of the segment, behind what was pushed before.
void segment_store32(const segment *s, uint32_t to, _Atomic uint32_t *target, uint32_t value);
void segment_store64(const segment *s, uint32_t to, _Atomic uint64_t *target, uint64_t value);

// Why this rank works no more, for the others.
void segment_fail(const segment *s, spyre_status reason);

// Rings the bell of a rank, of all others.
void segment_ring(const segment *s, uint32_t rank, uint32_t bell);
void segment_ring_all(const segment *s, uint32_t bell);

#endif
