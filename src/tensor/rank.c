// SPDX-License-Identifier: Apache-2.0
#include "tensor/rank.h"

#include "tensor/format.h"

bool rank_takes(spyre_format format)
{
    return format == SPYRE_FORMAT_IEEE_INT32 || format_class_of(format) == FORMAT_FLOAT;
}

int32_t rank_load(const void *element, spyre_format format)
{
    double value = element_load(element, format);
    return format == SPYRE_FORMAT_IEEE_INT32 ? (int32_t)value : rank_of_float((float)value);
}

static float float_of_rank(int32_t value)
{
    uint32_t bits = value < 0 ? (0U - (uint32_t)value) | 0x80000000U : (uint32_t)value;
    if (value == INT32_MIN) bits = RANK_NAN;
    return float_from_bits(bits);
}

void rank_store(opfunc op, int64_t entry, void *element, spyre_format format)
{
    double result;
    if (op == OPFUNC_TOPKINDEX) result = (double)(int32_t)rank_position(entry);
    else if (format == SPYRE_FORMAT_IEEE_INT32) result = (double)rank_value(entry);
    else result = (double)float_of_rank(rank_value(entry));
    element_store(element, format, result);
}
