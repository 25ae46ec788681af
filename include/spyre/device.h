// SPDX-License-Identifier: Apache-2.0
//
// What the emulated card is: its geometry and the constants of its timing model, each with unit and
// source. The rows are those of src/isa/geometry.def and src/isa/cost.def.
#ifndef SPYRE_DEVICE_H
#define SPYRE_DEVICE_H

#include <stdint.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *name;           // "CORES", as in the table
    double value;
    const char *unit;
    const char *source;         // the public document it is from, or what it is assumed by
} spyre_card_constant;

// Constant `index`, geometry first; null behind the last one. Static memory.
SPYRE_API const spyre_card_constant *spyre_card_constant_at(uint32_t index);

// The constant of that name, or null.
SPYRE_API const spyre_card_constant *spyre_card_constant_named(const char *name);

#ifdef __cplusplus
}
#endif
#endif
