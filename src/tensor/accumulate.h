// SPDX-License-Identifier: Apache-2.0
//
// One element joined to what is there, by an accumulator of opfunc.def: of floats
// opfunc_combine() in fp32 and one rounding to the format of what is there; of int32 the low bits
// of a sum or product, or the larger or smaller.
#ifndef TENSOR_ACCUMULATE_H
#define TENSOR_ACCUMULATE_H

#include "tensor/opfunc.h"

// Whether elements of a format may be joined to those of another by an opfunc: floats to floats,
// IEEE_INT32 to IEEE_INT32.
bool accumulate_takes(opfunc op, spyre_format to, spyre_format from);

// *to = combine(*to, *element)
void accumulate_element(opfunc op, void *to, spyre_format to_format, const void *element,
                        spyre_format format);

// What a reduction grows in: fp32, or int32 where the formats say so.
typedef union {
    float real;
    int32_t integer;
} accumulator_cell;

// Whether a REDUCTION keeps int32: sums, products, maxima and minima of IEEE_INT32 that are
// IEEE_INT32.
bool accumulate_in_integers(opfunc op, spyre_format to, spyre_format from);

// A value as a cell, which an int32 saturates, and back.
accumulator_cell accumulator_of_value(double value, bool integers);
double accumulator_value(accumulator_cell cell, bool integers);
accumulator_cell accumulator_neutral(opfunc op, bool integers);
accumulator_cell accumulator_join(opfunc op, bool integers, accumulator_cell a,
                                  accumulator_cell b);

static inline int32_t accumulate_integer(opfunc op, int32_t a, int32_t b)
{
    if (op == OPFUNC_SUM) return (int32_t)((uint32_t)a + (uint32_t)b);
    if (op == OPFUNC_PROD) return (int32_t)((uint32_t)a * (uint32_t)b);
    if (op == OPFUNC_MAX) return a > b ? a : b;
    return a < b ? a : b;
}

#endif
