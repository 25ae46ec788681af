// SPDX-License-Identifier: Apache-2.0
#include "card/simd/vector_program.h"

const vector_op_info *vector_describe(uint32_t op)
{
    static const vector_op_info ops[] = {
#define VECTOR_ROW(name, wants, gives, at, meaning) \
    {#name, VECTOR_##wants, VECTOR_##gives, VECTOR_##at},
#include "card/simd/vector_op.def"
#undef VECTOR_ROW
        [VECTOR_APPLY] = {NULL, VECTOR_ROUND, VECTOR_X, VECTOR_NOWHERE},
    };
    return &ops[op < VECTOR_APPLY ? op : VECTOR_APPLY];
}
