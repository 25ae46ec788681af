// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest of the integers of a tensor.
#ifndef CORE_RANGE_H
#define CORE_RANGE_H

#include "core.h"

typedef struct {
    int64_t least, most;
    bool has_zero;
} integer_range;

// Of a tensor of the card, integers or bool, once what is queued has run: from 0 to 0, with it, of
// one without elements. SPYRE_UNSUPPORTED for other dtypes.
bool range_of(const tensor_info *t, integer_range *out);
bool range_is_in(const integer_range *inner, const integer_range *outer);

bool range_register(PyObject *module);

#endif
