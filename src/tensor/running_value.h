// SPDX-License-Identifier: Apache-2.0
//
// Running values of a SCAN opfunc, one after the other along the scanned dims: in 64 bits, so that
// long sums round as one addition does and a running extreme keeps its position.
//   cumsum, cumprod, logcumsumexp of floats: the bits of an fp64, state = f(state, element) with
//     the BINARY opfunc of its row SCANS; of integers: an int32, which wraps.
//   cummax.., cummin..: value half and position as in an entry of a ranking (tensor/ranking.h), so
//     that the greatest is the extreme. NaN wins, of equal values (the two zeros are equal) the
//     last.
// A result is the running value, of floats rounded to fp32 first, or the position of the extreme.
#ifndef TENSOR_RUNNING_VALUE_H
#define TENSOR_RUNNING_VALUE_H

#include "tensor/ranking.h"

// The BINARY opfunc that joins the running value and the next element.
opfunc running_joins(opfunc op);

// Whether the running value is an extreme and its position.
static inline bool running_ranks(opfunc op)
{
    return running_joins(op) == OPFUNC_MAXIMUM || running_joins(op) == OPFUNC_MINIMUM;
}

// Whether the opfunc takes elements of one format and gives results in the other.
bool running_takes(opfunc op, spyre_format from, spyre_format to);

// What is in front of the first element of a format, as the number that IEEE_INT64 has of it.
float running_start(opfunc op, spyre_format format);

// The running value from the next element on, whose position counts for extremes only.
int64_t running_next(opfunc op, int64_t state, const void *element, spyre_format format,
                  int32_t position);

// Stores the result of a running value.
void running_store(opfunc op, int64_t state, void *element, spyre_format format);

static inline double running_real(int64_t state)
{
    double value;
    memcpy(&value, &state, sizeof value);
    return value;
}

static inline int64_t running_of_real(double value)
{
    int64_t state;
    memcpy(&state, &value, sizeof state);
    return state;
}

// Extremes: entries whose order is that of the running values.
static inline int64_t running_entry(int32_t half, int32_t position)
{
    return (int64_t)((uint64_t)(uint32_t)half << 32 | (uint32_t)position);
}

static inline int32_t running_half_of_float(opfunc op, float value)
{
    return isnan(value) ? RANKING_NAN : ranking_turned(op, ranking_of_float(value));
}

static inline float running_half_to_float(opfunc op, int32_t half)
{
    return ranking_to_float(ranking_turned(op, half));
}

static inline int32_t running_position(int64_t state)
{
    return (int32_t)(uint32_t)state;
}

#endif
