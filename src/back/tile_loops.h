// SPDX-License-Identifier: Apache-2.0
//
// Loops over the tiles of a box. A dim that its tile does not divide is peeled: the loop runs over
// the whole tiles, the rest is a box of its own behind it, first in whole sticks, then the lanes of
// a last part of a stick. So the code depends on which remainders there are, never on how many
// tiles. The innermost loop may use double buffers, to overlap load, compute and store:
//
//     signal                      one FREE token for the second half of each buffer
//     loop n / 2
//         loop 2                  its index chooses the half
//             body
//     body                        when n is odd
//     wait                        takes the token back, so that all tokens end at zero
//
// A body ends with its producer's wait for a FREE token; with the additional one the producer is
// one tile ahead. When n is even and the loops around are of the same kernel, the token is given
// once a kernel, so that the producer is ahead from one run of the innermost loop to the next.
// Where a launch chooses how many tiles there are, there are loops even over one, and two buffers
// if the number is even whatever it is.
// Internal.
#ifndef BACK_TILE_LOOPS_H
#define BACK_TILE_LOOPS_H

#include "back/emit.h"

typedef struct {
    uint32_t count;
    uint8_t dim[BUNDLE_MAX_DIMS];           // outermost first
    int64_t tile[BUNDLE_MAX_DIMS];
} tile_loops_levels;

typedef spyre_status tile_loops_body(void *context, const box *b);

// A double buffer: its consumer hands the halves back to the producer with a token.
typedef struct {
    isa_queue producer, consumer;
    uint32_t free_token;
} tile_loops_buffer;

enum { TILE_LOOPS_MOST_BUFFERS = 2 };

typedef struct tile_loops {
    emitter *e;
    const nest *n;
    tile_loops_levels levels;
    tile_loops_body *body;
    uint32_t buffer_count;
    tile_loops_buffer buffers[TILE_LOOPS_MOST_BUFFERS];
    void *context;
    const nest_class **present;             // tile_loops_kernels: told the piece's; may be null
    bool stays_open;                        // the buffers have their tokens for a whole kernel
    const struct tile_loops *inner;         // tile_loops_kernels: gives those of it, or null
    bool rests_apart;                       // tile_loops_kernels: what whole tiles leave of dims
                                            // without sticks has kernels of its own
} tile_loops;

// Appends a dim, unless one tile holds all of it in every class.
void tile_loops_add(tile_loops *s, uint32_t dim, int64_t tile);

// Adds a buffer to the innermost loop, if there is one.
void tile_loops_add_buffer(tile_loops *s, bool there_is_one, isa_queue producer, isa_queue consumer,
                           uint32_t free_token);

// True when every run of the innermost loop, inside of `depth` loops besides its own,
// leaves its buffers as it found them.
bool tile_loops_may_stay_open(const tile_loops *s, uint32_t depth);

SPYRE_MUST_CHECK spyre_status tile_loops_run(const tile_loops *s, const box *whole);

// The same in a kernel for every piece (place.h).
SPYRE_MUST_CHECK spyre_status tile_loops_kernels(const tile_loops *s);

#endif
