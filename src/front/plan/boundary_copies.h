// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_BOUNDARY_COPIES_H
#define FRONT_BOUNDARY_COPIES_H

#include "front/plan/lx_copies.h"

// Which inputs and results get one: those whose accesses are divided alike, or all whatever divides
// them (a copy is then divided like the op beside it or, where that cannot be, whole).
typedef enum { BOUNDARY_AGREED, BOUNDARY_ALL } boundary_kind;

// Finds the candidates; none where the settings rule them out.
SPYRE_MUST_CHECK spyre_status boundary_copies_find(const loop_graph *loops, boundary_kind kind,
                                                   lx_copies *out);

#endif
