// SPDX-License-Identifier: Apache-2.0
//
// How what a rank writes into its part of the segment comes to the others. Within a host all ranks
// map one segment, so it is there already. Between hosts each rank has a segment of its own and the
// others' parts of it are copies: what a rank has written it pushes to those who read it, in order,
// and they wake those of their threads that wait.
//
// The algorithms write, push, store atomics and ring bells, and do not know which one it is.
#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct segment segment;

typedef struct {
    const char *name;
    // Bytes of the segment that this rank has written, to another rank. `whole`: a value of 4 or 8
    // bytes that is atomic there, too.
    void (*push)(const segment *s, uint32_t to, const void *at, uint64_t bytes, bool whole);
    // Wakes those of a rank who wait for a bell, behind what was pushed to it.
    void (*ring)(const segment *s, uint32_t to, uint32_t bell);
    bool (*is_alive)(const segment *s, uint32_t rank);
    const char *death;          // of a rank that is not: "its process is gone"
    void (*close)(segment *s);
} comm_transport;

extern const comm_transport transport_shared;       // shared.c
extern const comm_transport transport_network;      // network.c

#endif
