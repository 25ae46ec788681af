// SPDX-License-Identifier: Apache-2.0
//
// Loops over the tiles of a box. A dim that its tile does not divide is peeled: the loop runs over
// the whole tiles, the rest is a box of its own behind it, first in whole sticks, then the lanes of
// a last part of a stick. So the code depends on which remainders there are, never on how many
// tiles. The innermost loop may use two buffers in turn, to overlap load, compute and store:
//
//     open                        one FREE token for the second buffer
//     loop n / 2
//         loop 2                  its index chooses the buffer
//             body
//     body                        when n is odd
//     close                       takes the token back, so that all tokens end at zero
//
// A body ends with its producer's wait for a FREE token; with the additional one the producer is
// one tile ahead. Internal.
#ifndef BACK_SCHEDULE_H
#define BACK_SCHEDULE_H

#include "back/emit.h"

typedef struct {
    uint32_t count;
    uint8_t dim[BUNDLE_MAX_DIMS];           // outermost first
    int64_t tile[BUNDLE_MAX_DIMS];
} schedule_levels;

typedef spyre_status schedule_body(void *context, const box *b);
typedef spyre_status schedule_edge(void *context);

typedef struct {
    emitter *e;
    const nest *n;
    schedule_levels levels;
    schedule_body *body;
    schedule_edge *open, *close;            // null: one buffer
    void *context;
} schedule;

// Appends a dim, unless one tile holds all of it in every class.
void schedule_add(schedule *s, uint32_t dim, int64_t tile);

SPYRE_MUST_CHECK spyre_status schedule_run(const schedule *s, const box *whole);

#endif
