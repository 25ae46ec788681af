// SPDX-License-Identifier: Apache-2.0
//
// The tiles of consecutive kernels, from any of them on: a window that moves over kernels in their
// order, so that each is collected once.
#ifndef CARD_KERNEL_WINDOW_H
#define CARD_KERNEL_WINDOW_H

#include "card/footprint/temporary_arguments.h"
#include "card/row_fusion/cores/message_sources.h"

enum { ROWS_MOST_KERNELS = 40 };

typedef struct {
    arena *memory, *scratch;                // of the plan; of the passes
    const lx_summaries *lx;                 // [kernel]
    const temporaries *temporary;
    const plan_phase *phases;               // kernels to move over
    uint32_t count;
    bool joined;                            // tiles are those of all cores (joined_cores.c)
    uint32_t first, end;                    // kernels that are in it
    bool ended;                             // kernel `end` is none for row fusions
    rows_tiles all;                         // of its kernels, behind `gone` that have left it
    uint32_t gone;
    uint32_t tiles[ROWS_MOST_KERNELS];      // of kernel % ROWS_MOST_KERNELS
    rows_messages *map[ROWS_MOST_KERNELS];  // or NULL: it has no messages
    rows_sources sources;                   // of what the kernels read, from `first` on
} rows_window;

// In front of the first of some kernels; keeps memory of an earlier use.
void rows_window_begin(rows_window *w, const plan_phase *phases, uint32_t count, bool joined);

// Moves on to kernel `first`. *out has the tiles of *out_kernels from there on, which are numbered
// from it, until the window moves again.
SPYRE_MUST_CHECK spyre_status rows_window_move(rows_window *w, uint32_t first, rows_tiles *out,
                                               uint32_t *out_kernels);

#endif
