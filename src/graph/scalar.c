// SPDX-License-Identifier: Apache-2.0
//
// Which numbers of a call are parameters of its program: the rows ATEN_SCALAR of aten.def.
#include <math.h>

#include "graph/aten.h"

typedef struct {
    aten_op op;
    uint32_t argument;
    spyre_scalar_rule rule;
} scalar_row;

static const scalar_row SCALARS[] = {
#define ATEN_SCALAR(op, argument, rule) {ATEN_##op, argument, SPYRE_SCALAR_##rule},
#include "graph/aten.def"
};

spyre_scalar_rule spyre_op_scalar(const char *op, uint32_t argument)
{
    aten_op row;
    if (!aten_named(op, &row)) return SPYRE_SCALAR_FIXED;
    for (size_t i = 0; i < sizeof SCALARS / sizeof *SCALARS; i++)
        if (SCALARS[i].op == row && SCALARS[i].argument == argument) return SCALARS[i].rule;
    return SPYRE_SCALAR_FIXED;
}

static bool is_plain_exponent(double value)
{
    return value == 0 || fabs(value) == 0.5 || fabs(value) == 1 || value == 2 || value == 4;
}

bool spyre_scalar_like(spyre_scalar_rule rule, double value, bool is_int, spyre_number_range range,
                       double *out_like)
{
    if (!isfinite(value) || value < range.lowest || value > range.largest) return false;
    if (is_int && (value < INT32_MIN || value > INT32_MAX)) return false;
    *out_like = 2;
    switch (rule) {
    case SPYRE_SCALAR_ANY: return true;
    case SPYRE_SCALAR_NOT_ONE: return value != 1;
    case SPYRE_SCALAR_NOT_BIT: return value != 0 && value != 1;
    case SPYRE_SCALAR_SIDE: *out_like = fabs(value) < 0.5 ? 0.25 : 2; return true;
    case SPYRE_SCALAR_DIVISOR: return fabs(value) != 1 && value != 0;
    case SPYRE_SCALAR_FRACTION: *out_like = 0.5; return value > 0 && value < 1;
    case SPYRE_SCALAR_POSITIVE: return value > 0;
    case SPYRE_SCALAR_EXPONENT: *out_like = 3; return !is_plain_exponent(value);
    case SPYRE_SCALAR_BASE: return value >= 0x1p-8 && value <= 0x1p15 && fabs(value - 1) > 0.01;
    case SPYRE_SCALAR_FIXED:
    case SPYRE_SCALAR_RULE_COUNT: break;
    }
    return false;
}
