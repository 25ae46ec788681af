// SPDX-License-Identifier: Apache-2.0
//
// Odometers: the indices of a space in order, the last dim fastest, and the places that they have
// in tensors, which move by strides.
//
//     odometer_place at[] = {{.stride = to}, {.stride = from}};
//     int64_t index[2] = {0};
//     do y[at[0].at] = x[at[1].at];
//     while (odometer_next(2, extent, index, at, 2));
#ifndef BASE_ODOMETER_H
#define BASE_ODOMETER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const int64_t *stride; // by dim
    int64_t at;            // of the index
} odometer_place;

// The next index, and its places; false behind the last index, when all are where they began. No
// extent is 0.
static inline bool odometer_next(uint32_t dims, const int64_t *extent, int64_t *index,
                                 odometer_place *places, uint32_t count)
{
    while (dims-- > 0) {
        int64_t back = ++index[dims] < extent[dims] ? 0 : extent[dims];
        for (uint32_t n = 0; n < count; n++) places[n].at += places[n].stride[dims] * (1 - back);
        if (!back) return true;
        index[dims] = 0;
    }
    return false;
}

// The same over some dims of an index, those in `dims`.
static inline bool odometer_next_of(const uint8_t *dims, uint32_t count, const int64_t *extent,
                                    int64_t *index)
{
    for (uint32_t n = count; n-- > 0;) {
        if (++index[dims[n]] < extent[dims[n]]) return true;
        index[dims[n]] = 0;
    }
    return false;
}

#endif
