// SPDX-License-Identifier: Apache-2.0
//
// One launch: the program, the memory and LX that it found, and the memory that it left. A card on
// any host gives the same bytes from it. Its file is that of launch_record_file.h;
// compile/debug/replay.c launches it again.
#ifndef RUNTIME_LAUNCH_RECORD_H
#define RUNTIME_LAUNCH_RECORD_H

#include "card/card.h"

enum { LAUNCH_RECORD_CHUNK_BYTES = 4096 };

// Of so many bytes: chunks, and bytes of one of them, of which the last may have fewer.
uint64_t launch_chunk_count(uint64_t bytes);
size_t launch_chunk_bytes(uint64_t bytes, uint64_t number);

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

// Puts what the launch found into a card whose memory and LX are zeros.
SPYRE_MUST_CHECK spyre_status launch_record_restore(const launch_record *record, card *c);

// The first byte of window `window` that differs from what the launch left, or -1.
SPYRE_MUST_CHECK spyre_status launch_record_compare(const launch_record *record, uint32_t window,
                                                    card *c, int64_t *out_first);

#endif
