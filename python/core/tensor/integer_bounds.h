// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest of the integers of a tensor.
#ifndef CORE_INTEGER_BOUNDS_H
#define CORE_INTEGER_BOUNDS_H

#include "core.h"

// Of a tensor of the card, integers or bool, once what is queued has run: from 0 to 0, with it, of
// one without elements. That of a tensor that is all of its storage is kept until the storage is
// written. SPYRE_UNSUPPORTED for other dtypes.
bool range_of(const tensor_info *t, spyre_integer_range *out);
bool range_is_in(const spyre_integer_range *inner, const spyre_integer_range *outer);

bool range_register(PyObject *module);

#endif
