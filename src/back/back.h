// SPDX-License-Identifier: Apache-2.0
//
// The back-end compiler: from a verified bundle to one SPMD program. Every step becomes a kernel:
// tiles that fit LX, hardware loops over them, queues ordered by tokens.
#ifndef BACK_BACK_H
#define BACK_BACK_H

#include "bundle/model.h"
#include "isa/isa.h"

typedef struct {
    int64_t lx_reserved_bytes;      // the back-end's share of each LX, from the top (20 % of 2 MiB)
    bool lx_borrows;                // rankings may take what no tensor of the bundle has below it
    uint32_t *at_step;              // or null: gets the step in work, UINT32_MAX before the first
} back_options;
#define BACK_OPTIONS_INIT {.lx_reserved_bytes = (2 << 20) / 5, .lx_borrows = true}

// Compiles; the program lives in `memory`. Argument k of the program is argument k of the bundle.
// SPYRE_UNSUPPORTED names step, opfunc and rule (the caller may do without the step and try again).
SPYRE_MUST_CHECK spyre_status back_compile(const bundle *b, const back_options *options,
                                           arena *memory, isa_program **out_program);

#endif
