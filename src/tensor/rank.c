// SPDX-License-Identifier: Apache-2.0
#include "tensor/rank.h"

#include "tensor/format.h"

bool rank_takes(spyre_format format)
{
    return format == SPYRE_FORMAT_IEEE_INT32 || format_class_of(format) == FORMAT_FLOAT;
}

int32_t rank_load(opfunc op, const void *element, spyre_format format)
{
    double value = element_load(element, format);
    bool integer = format == SPYRE_FORMAT_IEEE_INT32;
    return rank_turned(op, integer ? (int32_t)value : rank_of_float((float)value));
}

void rank_store(opfunc op, int64_t entry, void *element, spyre_format format)
{
    double result;
    int32_t value = rank_turned(op, rank_value(entry));
    if (opfunc_gives_positions(op)) result = (double)(int32_t)rank_position(entry);
    else if (format == SPYRE_FORMAT_IEEE_INT32) result = (double)value;
    else result = (double)rank_to_float(value);
    element_store(element, format, result);
}
