// SPDX-License-Identifier: Apache-2.0
#include "tensor/accumulate.h"

#include <string.h>

#include "tensor/format.h"

bool accumulate_takes(opfunc op, spyre_format to, spyre_format from)
{
    if (!opfunc_accumulates(op)) return false;
    if (from == SPYRE_FORMAT_IEEE_INT32) return to == from && op != OPFUNC_ABSMAX;
    return format_class_of(from) == FORMAT_FLOAT && format_class_of(to) == FORMAT_FLOAT;
}

void accumulate_element(opfunc op, void *to, spyre_format to_format, const void *element,
                        spyre_format format)
{
    if (format == SPYRE_FORMAT_IEEE_INT32) {
        int32_t joined, next;
        memcpy(&joined, to, sizeof joined);
        memcpy(&next, element, sizeof next);
        joined = accumulate_integer(op, joined, next);
        memcpy(to, &joined, sizeof joined);
        return;
    }
    float joined = (float)element_load(to, to_format), next = (float)element_load(element, format);
    element_store(to, to_format, (double)opfunc_combine(op, joined, next));
}

bool accumulate_in_integers(opfunc op, spyre_format to, spyre_format from)
{
    return opfunc_describe(op)->kind == OPFUNC_KIND_REDUCTION &&
           from == SPYRE_FORMAT_IEEE_INT32 && accumulate_takes(op, to, from);
}

accumulator_cell accumulator_of_value(double value, bool integers)
{
    accumulator_cell cell = {.real = (float)value};
    if (integers) element_store(&cell.integer, SPYRE_FORMAT_IEEE_INT32, value);
    return cell;
}

double accumulator_value(accumulator_cell cell, bool integers)
{
    return integers ? (double)cell.integer : (double)cell.real;
}

accumulator_cell accumulator_neutral(opfunc op, bool integers)
{
    return accumulator_of_value((double)opfunc_reduction_identity(op), integers);
}

accumulator_cell accumulator_join(opfunc op, bool integers, accumulator_cell a,
                                  accumulator_cell b)
{
    if (integers) a.integer = accumulate_integer(op, a.integer, b.integer);
    else a.real = opfunc_combine(op, a.real, b.real);
    return a;
}
