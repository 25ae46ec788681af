// SPDX-License-Identifier: Apache-2.0
//
// Entries of a ranking: a value and its position in 64 bits whose order as a signed integer is the
// order of the ranking, so that the greatest entries are the first. Values descend, of bottomkvalue
// and bottomkindex ascend, equal ones (the two zeros are equal) by ascending position; NaN is the
// greatest value, as in PyTorch. High half: the value, an integer itself, a float as the bits of
// its fp32 value, ordered, and complemented where values ascend; low half: the position,
// complemented.
#ifndef TENSOR_RANKING_H
#define TENSOR_RANKING_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tensor/numeric.h"
#include "tensor/opfunc.h"

// Behind every entry: the value is NaN (the least integer), position -1.
#define RANKING_NONE INT64_MIN

enum {
    RANKING_NAN = 0x7FC00000,       // fp32 bits, and the value half, of every NaN
    RANKING_MAGNITUDE = 0x7FFFFFFF, // fp32 bits without the sign
};

// The value half of an fp32 value: of negative ones, the bits below the sign turned around.
static inline int32_t ranking_of_float(float value)
{
    int32_t bits = (int32_t)float_bits(value);
    int32_t ordered = bits < 0 ? (int32_t)(0U - ((uint32_t)bits & RANKING_MAGNITUDE)) : bits;
    return isnan(value) ? RANKING_NAN : ordered;
}

// The value half from an ordered value, and the other way round.
static inline int32_t ranking_turned(opfunc op, int32_t value)
{
    return opfunc_ascends(op) ? ~value : value;
}

static inline int64_t ranking_entry(int32_t value, uint32_t position)
{
    return (int64_t)((uint64_t)(uint32_t)value << 32 | (uint32_t)~position);
}

// No entry with the value is less.
static inline int64_t ranking_least(int32_t value)
{
    return (int64_t)((uint64_t)(uint32_t)value << 32);
}

static inline uint32_t ranking_position(int64_t entry)
{
    return ~(uint32_t)entry;
}

static inline int32_t ranking_value(int64_t entry)
{
    return (int32_t)(uint32_t)((uint64_t)entry >> 32);
}

static inline float ranking_to_float(int32_t value)
{
    uint32_t bits = value < 0 ? (0U - (uint32_t)value) | 0x80000000U : (uint32_t)value;
    bool is_nan = value == INT32_MIN || (bits & RANKING_MAGNITUDE) > 0x7F800000U;
    return float_from_bits(is_nan ? RANKING_NAN : bits);
}

// Entries in memory, of any alignment.
static inline int64_t ranking_at(const uint8_t *address)
{
    int64_t entry;
    memcpy(&entry, address, sizeof entry);
    return entry;
}

// Inserts an entry into `ranks` of them, the greatest first, `stride` bytes apart; the least goes.
static inline void ranking_insert(uint8_t *first, int64_t stride, uint32_t ranks, int64_t entry)
{
    uint8_t *at = first + (int64_t)(ranks - 1) * stride;
    if (entry <= ranking_at(at)) return;
    for (; at != first && ranking_at(at - stride) < entry; at -= stride)
        memcpy(at, at - stride, sizeof entry);
    memcpy(at, &entry, sizeof entry);
}

// True for the formats that can be ranked: integers of 32 bits, and those whose values are all fp32
// values.
bool ranking_takes(spyre_format format);

// The value half of an element of such a format.
int32_t ranking_load(opfunc op, const void *element, spyre_format format);

// Stores what a RANK opfunc gives for an entry, with one rounding. A value that was an
// integer must be stored as IEEE_INT32, one that was a float as a float.
void ranking_store(opfunc op, int64_t entry, void *element, spyre_format format);

#endif
