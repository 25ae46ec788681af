// SPDX-License-Identifier: Apache-2.0
//
// Footprints: the bytes of memory that every core touches through one operand, over all iterations,
// as nested (stride, extent) levels over a contiguous run. Two footprints conflict when one core
// writes what another core touches (LX is a core's own). Valid when arguments lie apart.
#ifndef CARD_FOOTPRINT_H
#define CARD_FOOTPRINT_H

#include "card/card.h"
#include "card/footprint/byte_set.h"
#include "card/plan.h"

// Levels of runs from base[core] on.
typedef struct {
    uint16_t arg;
    bool stores;
    uint32_t cores;                         // bit c: core c takes part
    int64_t base[ISA_CORES];
    byte_range all;                         // over all cores
    byte_set levels;
    int64_t span[BYTE_SET_LEVELS + 1];          // bytes from first to last of the lower levels
} footprint;
typedef VEC(footprint) footprint_list;

// Adds the footprints of a kernel's code, a kernel without loops around it.
SPYRE_MUST_CHECK spyre_status footprint_collect(arena *memory, const isa_program *program,
                                                plan_tile *const *tiles,
                                                const plan_kernel *kernel, footprint_list *out);

// The same of its list of steps, where that is what it does whatever its code.
SPYRE_MUST_CHECK spyre_status footprint_collect_steps(arena *memory, const plan_kernel *kernel,
                                                      footprint_list *out);

// The bytes of LX, or of an argument, that an operand touches over all cores and iterations, and
// over all rows where an index names them; what lies beyond 2^60 is cut off: it is outside of
// everything.
byte_range footprint_range(const isa_kernel *kernel, const isa_instruction *i, uint32_t operand,
                           const loop_nest *place);

// True when one core of `a` and another of `b` touch the same byte and one of the two writes. Errs
// on the safe side.
bool footprint_conflict(const footprint *a, const footprint *b);

// True when no argument that the program stores to overlaps another one.
bool footprint_arguments_apart(const card_program *program, const card_argument *arguments);

#endif
