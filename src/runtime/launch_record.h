// SPDX-License-Identifier: Apache-2.0
//
// One launch in one file: the program, the memory and LX that it found, and the memory that it
// left. A card on any host gives the same bytes from it. Numbers are little-endian, 8 bytes each:
//
//     "SPYRLNCH", version, XXH3-64 of all behind it
//     name length, name; image length, image (docs/isa.md)
//     flags: 1 = LX has no reader behind the launch, 2 = it ended in a fault
//     windows; for each: card address, bytes, 1 = its contents behind the launch mean something,
//         chunks before, chunks that the launch changed
//     32 times, a core each: chunks of LX before
//
// All windows together are at most the card's memory.
//
// chunks: their number, then for each its number and CHUNK_BYTES bytes (fewer at the end of a
// window); those that are not there are zeros, or unchanged.
#ifndef RUNTIME_LAUNCH_RECORD_H
#define RUNTIME_LAUNCH_RECORD_H

#include "card/card.h"

enum { LAUNCH_RECORD_CHUNK_BYTES = 4096 };

typedef struct {
    uint64_t number;
    const uint8_t *bytes;
} launch_chunk;

typedef VEC(launch_chunk) launch_chunks;

typedef struct {
    uint64_t base, bytes;
    bool kept;                              // false: scratch, undefined afterwards
    launch_chunks before, changed;
} launch_window;

typedef struct {
    arena *memory;
    const char *name;
    const uint8_t *image;
    size_t image_bytes;
    bool forgets_lx, faulted;
    VEC(launch_window) windows;             // by argument
    launch_chunks lx[ISA_CORES];
} launch_record;

// What a launch finds, before it runs. The windows' bases, sizes and `kept` are set already.
SPYRE_MUST_CHECK spyre_status launch_record_take(launch_record *record, card *c);

// What it leaves.
SPYRE_MUST_CHECK spyre_status launch_record_finish(launch_record *record, card *c, bool faulted);

// Appends a file of what is behind the header.
void launch_record_seal(text *file, const void *body, size_t count);

SPYRE_MUST_CHECK spyre_status launch_record_write(const launch_record *record, const char *path);

// Reads a file's bytes, which `out` points into. SPYRE_INVALID_FORMAT names place, value and rule.
SPYRE_MUST_CHECK spyre_status launch_record_parse(arena *memory, const uint8_t *bytes, size_t count,
                                                  launch_record *out);

// Puts what the launch found into a card whose memory and LX are zeros.
SPYRE_MUST_CHECK spyre_status launch_record_restore(const launch_record *record, card *c);

// The first byte of window `window` that differs from what the launch left, or -1.
SPYRE_MUST_CHECK spyre_status launch_record_compare(const launch_record *record, uint32_t window,
                                                    card *c, int64_t *out_first);

#endif
