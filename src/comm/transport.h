// SPDX-License-Identifier: Apache-2.0
//
// How what a rank writes into its part of the shared memory comes to the others. The ranks of a
// host map one shared memory, so for them it is there already. The shared memory of another host
// has a copy of the part: what a rank has written it pushes there, in order, to one of the host's
// ranks, its gateway, which stores it for all of them and wakes those who wait. Messages go to
// their receivers themselves: a gateway may have ended its work by then.
//
// The algorithms write, push, store atomics and ring bells, and do not know which one it is.
#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct shared_memory shared_memory;

typedef struct {
    const char *name;
    // Bytes of the shared memory that this rank has written, to another rank or to
    // SHARED_MEMORY_ALL: once to each host. `whole`: a value of 4 or 8 bytes that is atomic there,
    // too.
    void (*push)(const shared_memory *s, uint32_t to, const void *at, uint64_t bytes, bool whole);
    // Wakes those of a rank, of all others, or of this one who wait for a bell, behind what was
    // pushed to it.
    void (*ring)(const shared_memory *s, uint32_t to, uint32_t bell);
    // This rank has failed or leaves, and all it had to say is said.
    void (*end)(const shared_memory *s);
    bool (*is_alive)(const shared_memory *s, uint32_t rank);
    // All that the rank has sent to this one is there, and no more comes.
    bool (*has_left)(const shared_memory *s, uint32_t rank);
    // Of a rank that is not: "its process is gone".
    const char *(*death)(const shared_memory *s, uint32_t rank);
    void (*close)(shared_memory *s);
} comm_transport;

// local_transport.c; network.c has that of other hosts.
extern const comm_transport transport_shared;

#endif
