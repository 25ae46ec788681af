// SPDX-License-Identifier: Apache-2.0
//
// The names of the operations that have a row in aten.def, for the builders of graphs.
#include "graph/aten.h"

const char *spyre_op_name(uint32_t index)
{
    uint32_t row = index + (uint32_t)ATEN_NATIVE_COUNT;
    if (index >= (uint32_t)ATEN_COUNT - (uint32_t)ATEN_NATIVE_COUNT) return NULL;
    return aten_describe((aten_op)row)->name;
}
