// SPDX-License-Identifier: Apache-2.0
//
// What the numbers of a format are: the class in its row of spyre/dtype.def. What computes with a
// format goes by its class, so that a new row needs its elements' meaning (element.c) and no more.
#ifndef TENSOR_FORMAT_H
#define TENSOR_FORMAT_H

#include <stdbool.h>

#include "spyre/dtype.h"

typedef enum {
    FORMAT_NONE,    // only moved; INVALID and what has no whole bytes an element
    FORMAT_BOOL,    // 0 is false, all else true; ascending: the categories of promotion
    FORMAT_INTEGER,
    FORMAT_FLOAT,   // at most 24 significant bits, in fp32's range: fp32 holds every number
} format_class;

// FORMAT_NONE for a value outside the enumeration.
format_class format_class_of(spyre_format format);

// Whether fp32 holds every number of the format.
static inline bool format_fits_fp32(spyre_format format)
{
    format_class numbers = format_class_of(format);
    return numbers == FORMAT_FLOAT || (numbers != FORMAT_NONE && spyre_format_bits(format) <= 24);
}

#endif
