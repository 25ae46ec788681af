// SPDX-License-Identifier: Apache-2.0
//
// Rows that the opfunc joinindex numbers, and the numbers that tell an index which is no row.
#ifndef TENSOR_JOINED_INDEX_H
#define TENSOR_JOINED_INDEX_H

#include <stdint.h>

enum { JOINED_MOST_ROWS = 1 << 29, JOINED_OUTSIDE = 1 << 30 };

// The index that a row out of the table stands for: JOINED_OUTSIDE less is one that was no row.
static inline int64_t joined_index_of(int64_t row)
{
    const int64_t low = -(int64_t)JOINED_OUTSIDE - JOINED_MOST_ROWS;
    return row < -JOINED_MOST_ROWS && row >= low ? row + JOINED_OUTSIDE : row;
}

#endif
