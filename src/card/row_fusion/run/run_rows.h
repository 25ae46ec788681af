// SPDX-License-Identifier: Apache-2.0
//
// Execution of row fusions by a host thread.
#ifndef CARD_RUN_ROWS_H
#define CARD_RUN_ROWS_H

#include "card/row_fusion/row_fusion.h"

// What rows_run() keeps for a host thread; freed by free(). NULL without memory.
rows_thread *rows_thread_create(void);

// Takes a core through all kernels of a row fusion, for rows from `begin`, where a block begins, to
// `end`, where one or the row fusion ends; `first` is the phase of the first kernel.
void rows_run(core_run *run, const row_fusion *c, const plan_phase *first, row_range rows);

#endif
