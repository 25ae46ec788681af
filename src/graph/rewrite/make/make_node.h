// SPDX-License-Identifier: Apache-2.0
//
// What makers of natives and views (rewrite.h) share: arguments of a node, and the node. Internal
// to the files make_*.c.
#ifndef GRAPH_MAKE_NODE_H
#define GRAPH_MAKE_NODE_H

#include "graph/rewrite/rewrite.h"

// Null is an argument that is left out.
static inline spyre_arg tensor_arg(const tensor *x)
{
    return x ? (spyre_arg){.kind = SPYRE_ARG_VALUE, .of.value = x->value}
             : (spyre_arg){.kind = SPYRE_ARG_NONE};
}

static inline spyre_arg real_arg(double value)
{
    return (spyre_arg){.kind = SPYRE_ARG_FLOAT, .of.real = value};
}

static inline spyre_arg int_arg(int64_t value)
{
    return (spyre_arg){.kind = SPYRE_ARG_INT, .of.integer = value};
}

// Adds the node and checks it, if it is a native: a handler finds out at once that the card cannot
// take it. Without `into` the result is a fresh value of that dtype and view. `out` may be null.
SPYRE_MUST_CHECK spyre_status make_node(rewriter *r, aten_op op, const spyre_arg *args,
                                        uint32_t arg_count, spyre_dtype dtype,
                                        const spyre_view *view, const tensor *into, tensor *out);

// What a cast to float32 reads of 16 bits, dims in the order that x has them in, else x: sums of
// its numbers, comparisons and products of them are the same, and it is half as long.
SPYRE_MUST_CHECK spyre_status before_cast(rewriter *r, const tensor *x, tensor *out);

#endif
