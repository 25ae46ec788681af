// SPDX-License-Identifier: Apache-2.0
//
// The rows of cost.def and geometry.def as numbers, for compiler and card. Units are in the tables.
#ifndef ISA_CONSTANTS_H
#define ISA_CONSTANTS_H

#include "isa/isa.h"

#define COST_ROW(name, value, unit, source) static const double name = (value);
#include "isa/cost.def"
#undef COST_ROW

#define GEOMETRY_ROW(name, value, unit, source) static const double GEOMETRY_##name = (value);
#include "isa/geometry.def"
#undef GEOMETRY_ROW

// Bytes per us of a link of the ring, and direction.
#define RING_BANDWIDTH (GEOMETRY_RING_WIDTH * CLOCK)

#endif
