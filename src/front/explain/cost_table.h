// SPDX-License-Identifier: Apache-2.0
//
// The divisions and predicted times of a graph as text.
#ifndef FRONT_COST_TABLE_H
#define FRONT_COST_TABLE_H

#include "front/ir/loop.h"

// One line an op: microseconds by front/cost/cost.h with the buffers where they are, their parts,
// the published cost model's microseconds of a matmul's division, cores, the division ("+" behind a
// reduced loop) and what chose it. At the end the sum, and how many reads of a buffer see it
// divided as its writer does.
SPYRE_MUST_CHECK spyre_status cost_table_print(const loop_graph *loops, text *out);

#endif
