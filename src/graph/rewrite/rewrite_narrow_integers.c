// SPDX-License-Identifier: Apache-2.0
//
// Integers of 8 and 16 bits. The card stores and converts them; it computes in 32 bits. A node
// whose handler has no form for them is rewritten again with `r->widens`: its operands are int32
// tensors then, its results int32 tensors that rewrite_narrow_results() casts, modulo 2^bits as
// PyTorch does:
//
//     %sum: i8 = add(%x: i8, %y: i8)   ->   %a = cast %x to i32;  %b = cast %y to i32
//                                           %c = add(%a, %b);     %sum = cast %c to i8
#include "graph/rewrite/rewrite.h"

spyre_dtype rewrite_computed(const rewriter *r, spyre_dtype dtype)
{
    return r->widens && aten_is_narrow(dtype) ? SPYRE_DTYPE_I32 : dtype;
}

static bool value_is_narrow(const rewriter *r, uint32_t value)
{
    return aten_is_narrow(r->target->values.items[value].dtype);
}

bool rewrite_has_narrow(const rewriter *r)
{
    for (uint32_t i = 0; i < r->from->result_count; i++)
        if (value_is_narrow(r, r->from->results[i])) return true;
    for (uint32_t i = 0; i < r->from->read_count; i++)
        if (value_is_narrow(r, r->from->reads[i])) return true;
    return false;
}

spyre_status rewrite_wide_result(rewriter *r, uint32_t value, tensor *into)
{
    for (uint32_t i = 0; i < r->wide_results.count; i++) {
        const rewrite_wide *known = &r->wide_results.items[i];
        if (known->narrow.value != value) continue;
        *into = known->wide;
        return NULL;
    }
    rewrite_wide result = {.narrow = *into};
    TRY(make_fresh(r, SPYRE_DTYPE_I32, &into->view, &result.wide));
    *into = result.wide;
    return VEC_PUSH(r->target->memory, &r->wide_results, result);
}

spyre_status rewrite_narrow_results(rewriter *r)
{
    for (uint32_t i = 0; i < r->wide_results.count; i++) {
        const rewrite_wide *result = &r->wide_results.items[i];
        if (r->target->values.items[result->wide.value].node == SPYRE_NO_ID) continue;
        TRY(make_cast(r, &result->wide, result->narrow.dtype, &result->narrow, NULL));
    }
    return NULL;
}
