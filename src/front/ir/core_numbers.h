// SPDX-License-Identifier: Apache-2.0
//
// Which core gets which slice of a division.
#ifndef FRONT_CORE_NUMBERS_H
#define FRONT_CORE_NUMBERS_H

#include "front/ir/division.h"

// Numbers cores through the slices: reduced variables fastest, so that cores which share an output
// are neighbours on the ring ("cores that collaborate on K", work_division_planning.md), then the
// others in the order of the loops. Sets core_stride.
void core_numbers_as_published(const loop_op *op, division *d);

// The same, or with settings.core_id_k_fast_emission off simply in the order of the loops.
void core_numbers_choose(const loop_graph *loops, const loop_op *op, division *d);

#endif
