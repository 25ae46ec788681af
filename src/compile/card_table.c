// SPDX-License-Identifier: Apache-2.0
//
// The rows of the card's tables behind the public interface.
#include <stddef.h>
#include <string.h>

#include "isa/isa.h"
#include "spyre/device.h"

static const spyre_card_constant constants[] = {
#define GEOMETRY_ROW(name, value, unit, source) {#name, (double)(value), unit, source},
#include "isa/geometry.def"
#undef GEOMETRY_ROW
#define COST_ROW(name, value, unit, source) {#name, value, unit, source},
#include "isa/cost.def"
#undef COST_ROW
};

enum { CONSTANT_COUNT = sizeof constants / sizeof *constants };

const spyre_card_constant *spyre_card_constant_at(uint32_t index)
{
    return index < CONSTANT_COUNT ? &constants[index] : NULL;
}

const spyre_card_constant *spyre_card_constant_named(const char *name)
{
    for (uint32_t i = 0; i < CONSTANT_COUNT; i++)
        if (strcmp(constants[i].name, name) == 0) return &constants[i];
    return NULL;
}
