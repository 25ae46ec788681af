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
#ifndef RUNTIME_LAUNCH_RECORD_FILE_H
#define RUNTIME_LAUNCH_RECORD_FILE_H

#include "runtime/launch_record.h"

// Appends a file of what is behind the header.
void launch_record_file_seal(text *file, const void *body, size_t count);

SPYRE_MUST_CHECK spyre_status launch_record_file_write(const launch_record *record,
                                                       const char *path);

// Reads a file's bytes, which `out` points into. SPYRE_INVALID_FORMAT names place, value and rule.
SPYRE_MUST_CHECK spyre_status launch_record_file_parse(arena *memory, const uint8_t *bytes,
                                                       size_t count, launch_record *out);

#endif
