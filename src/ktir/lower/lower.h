// SPDX-License-Identifier: Apache-2.0
//
// From a KTIR function to a program of the card. Compute tiles are cores, 32 at a time; what they
// compute of indices is evaluated here for all cores at once, as numbers that advance with loops,
// so loops become hardware loops, loads and stores tiles with an offset a core, and tensors parts
// of LX. A loop whose body is not affine in its induction variable is unrolled.
#ifndef KTIR_LOWER_H
#define KTIR_LOWER_H

#include "isa/isa.h"
#include "ktir/interpret/interpreter.h"

enum { LOWER_COUNTED = 1 << 16 };

typedef struct {
    const ktir_function *function;
    uint32_t grid_rank;
    int64_t grid[KTIR_MOST_GRID];
    const ktir_argument *arguments;     // numbers; of memory the size, 0 unknown
    uint32_t placed_count;              // memory at constant addresses; what is an argument of the
                                        // program first, behind the function's own
    const ktir_placed *placed;
} ktir_lowering;

// The operation that an instruction of a program was made for; line 0: none.
typedef struct {
    uint32_t line, column;
    ktir_opcode opcode;
} ktir_place;
typedef VEC(ktir_place) ktir_places;    // [instructions], those behind the last one left out

// The program lives in `memory`, as do *out_places; its argument k is the k-th parameter that is
// memory. When it has one more, that one holds the int32 numbers 0 .. LOWER_COUNTED - 1. What the
// card has no instruction for, or no room, is SPYRE_UNSUPPORTED with file, line, column and
// operation; a kernel that runs off a view is SPYRE_DEVICE_FAULT.
SPYRE_MUST_CHECK spyre_status ktir_lower(const ktir_module *m, const ktir_lowering *lowering,
                                         arena *memory, isa_program **out_program,
                                         ktir_places *out_places);

#endif
