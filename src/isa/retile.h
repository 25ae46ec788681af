// SPDX-License-Identifier: Apache-2.0
//
// A program on one tile of larger arguments: where what an argument consists of has become longer,
// what lies behind each piece is further away.
#ifndef ISA_RETILE_H
#define ISA_RETILE_H

#include "isa/isa.h"

// Byte x of the argument that the program was made for lies at
//     x / tile_bytes * pitch_bytes + x % tile_bytes
// tile_bytes divides the argument's size and is 0 where it stays as it is.
typedef struct {
    int64_t tile_bytes, pitch_bytes;
} isa_tiling;

// A program without corrections on arguments that lie so, one tiling an argument. SPYRE_UNSUPPORTED
// names kernel, instruction and operand of an access that would go from one tile into the next
// inside of a row, or in a loop.
SPYRE_MUST_CHECK spyre_status isa_retile(arena *memory, const isa_program *program,
                                         const isa_tiling *tilings, isa_program **out_program);

#endif
