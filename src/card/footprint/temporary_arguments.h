// SPDX-License-Identifier: Apache-2.0
//
// Temporary arguments: memory of the program alone, undefined when it begins and of no use when it
// has ended. What is stored there and never read need not be stored.
#ifndef CARD_TEMPORARY_ARGUMENTS_H
#define CARD_TEMPORARY_ARGUMENTS_H

#include "card/footprint/range.h"
#include "card/plan.h"

typedef struct {
    uint32_t kernel;                        // order of the kernel that reads
    uint16_t arg;
    byte_range bytes;                       // over all its cores and iterations
} temporary_read;

typedef struct {
    uint32_t arguments;                     // bit k: argument k is temporary
    VEC(temporary_read) reads;
} temporaries;

// Adds what a kernel reads of temporary arguments.
SPYRE_MUST_CHECK spyre_status temporary_collect(arena *memory, const isa_program *program,
                                                const plan_kernel *kernel, temporaries *out);

bool temporary_has(const temporaries *t, uint16_t arg);

// True when a kernel behind the given one may read these bytes.
bool temporary_read_after(const temporaries *t, uint32_t kernel, uint16_t arg, byte_range bytes);

#endif
