// SPDX-License-Identifier: Apache-2.0
#include "tensor/ranking.h"

#include "tensor/format.h"

bool ranking_takes(spyre_format format)
{
    return format == SPYRE_FORMAT_IEEE_INT32 || format_class_of(format) == FORMAT_FLOAT;
}

int32_t ranking_load(opfunc op, const void *element, spyre_format format)
{
    double value = element_load(element, format);
    bool integer = format == SPYRE_FORMAT_IEEE_INT32;
    return ranking_turned(op, integer ? (int32_t)value : ranking_of_float((float)value));
}

void ranking_store(opfunc op, int64_t entry, void *element, spyre_format format)
{
    double result;
    int32_t value = ranking_turned(op, ranking_value(entry));
    if (opfunc_gives_positions(op)) result = (double)(int32_t)ranking_position(entry);
    else if (format == SPYRE_FORMAT_IEEE_INT32) result = (double)value;
    else result = (double)ranking_to_float(value);
    element_store(element, format, result);
}
