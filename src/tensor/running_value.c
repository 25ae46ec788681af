// SPDX-License-Identifier: Apache-2.0
#include "tensor/running_value.h"

#include <assert.h>

#include "tensor/format.h"

opfunc running_joins(opfunc op)
{
    switch ((int)op) {
#define OPFUNC_SCANS(id, pairwise) \
    case OPFUNC_##id: return OPFUNC_##pairwise;
#include "tensor/opfunc.def"
    default: return OPFUNC_NONE;
    }
}

static bool is_integer(spyre_format format)
{
    return format == SPYRE_FORMAT_IEEE_INT32;
}

bool running_takes(opfunc op, spyre_format from, spyre_format to)
{
    bool keeps = opfunc_gives_positions(op) || is_integer(from) == is_integer(to);
    bool joins = !is_integer(from) || op != OPFUNC_LOGCUMSUMEXP;
    return ranking_takes(from) && ranking_takes(to) && keeps && joins;
}

// As numbers the bits of 1.0 and -infinity are few powers of two, which fp32 has.
float running_start(opfunc op, spyre_format format)
{
    switch ((int)running_joins(op)) {
    case OPFUNC_ADD: return 0.0f;
    case OPFUNC_MUL: return is_integer(format) ? 1.0f : 0x3FFp52f;
    case OPFUNC_LOGADDEXP: return -0x1p52f;
    default: return -INFINITY;
    }
}

static int64_t next_integer(opfunc joins, int64_t state, int32_t element)
{
    uint32_t running = (uint32_t)state, next = (uint32_t)element;
    return (int32_t)(joins == OPFUNC_ADD ? running + next : running * next);
}

int64_t running_next(opfunc op, int64_t state, const void *element, spyre_format format,
                  int32_t position)
{
    double value = element_load(element, format);
    if (running_ranks(op)) {
        int32_t half = is_integer(format) ? ranking_turned(op, (int32_t)value)
                                          : running_half_of_float(op, (float)value);
        int64_t entry = running_entry(half, position);
        return entry > state ? entry : state;
    }
    if (is_integer(format)) return next_integer(running_joins(op), state, (int32_t)value);
    const double inputs[] = {running_real(state), value};
    return running_of_real(opfunc_apply(running_joins(op), inputs, 2, NULL));
}

void running_store(opfunc op, int64_t state, void *element, spyre_format format)
{
    double result;
    if (opfunc_gives_positions(op)) result = (double)running_position(state);
    else if (!running_ranks(op) && is_integer(format)) result = (double)(int32_t)state;
    else if (!running_ranks(op)) result = (double)(float)running_real(state);
    else if (is_integer(format)) result = (double)ranking_turned(op, ranking_value(state));
    else result = (double)running_half_to_float(op, ranking_value(state));
    element_store(element, format, result);
}
