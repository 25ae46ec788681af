// SPDX-License-Identifier: Apache-2.0
//
// What the compiler knows about operations: the rows of aten.def. After graph_prepare a graph holds
// three kinds of nodes only: natives (ops of the namespace "spyre", the front's input), views, and
// nodes of the host. docs/graph.md says what each native computes.
#ifndef GRAPH_ATEN_H
#define GRAPH_ATEN_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/graph.h"
#include "tensor/opfunc.h"

// Row ids: natives first, so that `op < ATEN_NATIVE_COUNT` tells them apart.
typedef enum {
#define ATEN_NATIVE(id, name, kind, opfunc, dtypes, result, doc) ATEN_##id,
#include "graph/aten.def"
    ATEN_NATIVE_COUNT,
    ATEN_LAST_NATIVE = ATEN_NATIVE_COUNT - 1,
#define ATEN_VIEW(id, name, doc)                     ATEN_##id,
#define ATEN_REWRITE(id, name, handler, opfunc, doc) ATEN_##id,
#define ATEN_HOST(id, name, doc)                     ATEN_##id,
#include "graph/aten.def"
    ATEN_COUNT
} aten_op;

// How the front lowers a native. `x`, `y`, ... are tensors, all on the card with constant sizes.
typedef enum {
    ATEN_KIND_POINTWISE,  // (x) (x, y) (c, x, y): one opfunc, broadcast as PyTorch does (right
                          // aligned). clip and softplus: (x, REAL, REAL), the opfunc's parameters,
                          // or a rank-0 F32 tensor for each.
                          // Operands have one dtype; where3's first is BOOL
    ATEN_KIND_CONSTANT,   // (REAL value, DTYPE) -> rank 0
    ATEN_KIND_FULL,       // (REAL value) -> every element of the result
    ATEN_KIND_COUNTS,     // (INT first, INT step) -> a vector of first, first + step, ..
    ATEN_KIND_REDUCTION,  // (x, INT LIST dims ascending and not empty, BOOL keepdim): one opfunc
    ATEN_KIND_RANK,       // (x, INT k, INT dim of size 2 or more): the dim has size k in the
                          // result; values, or positions as integers
    ATEN_KIND_SCAN,       // (x, INT dim): running values along dim, or where they stand
    ATEN_KIND_MATMUL,     // (x [batch.., M, K], y [batch.., K, N]), or y [K, N] for all batches; no
                          // other broadcast of batch dims
    ATEN_KIND_WINDOWS,    // (x [batch.., extent.., K], y [batch.., taps.., K, N], INT LIST
                          // strides, INT LIST dilations of 1 to 3 extents) -> [batch..,
                          // windows.., N]: window i has at tap t what x has at i * stride +
                          // t * dilation, all of it inside of x. y has the last batch dims of x.
                          // Channel by channel: y [taps.., K] -> [batch.., windows.., K]; some
                          // extent has several windows of several taps
    ATEN_KIND_LAYER_NORM, // (x, weight or NONE, bias or NONE, REAL eps), over the last dim; weight
                          // and bias have rank 1. Behind them maybe what part each element is of
                          // the mean, float32 of rank 0, else 1 / the last size
    ATEN_KIND_GATHER,     // (table [R, C > 1], index of integers) -> index sizes + [C]
    ATEN_KIND_TAKE,       // (x, index of integers, INT dim): the index has x's sizes but for dim,
                          // or 1 in their place -> x's sizes with the index's along dim. Of a
                          // vector any sizes, which the result has
    ATEN_KIND_SCATTER,    // (x, index of integers, rows, INT dim) -> x's sizes. The index has rank
                          // 1, [K], or x's sizes with K along dim, or 1 in the place of others;
                          // rows have x's sizes with K along dim, or broadcast to them
    ATEN_KIND_IDENTITY,   // (x): a copy, broadcast to the result's sizes
    ATEN_KIND_CAST,       // (x): same sizes, the result's dtype. Float to int truncates. Never to
                          // bool: that is notequal(x, 0)
    ATEN_KIND_CAT,        // (LIST of x, INT dim): dim is not negative
} aten_kind;

// Sets of operand dtypes that a native takes.
typedef enum {
    ATEN_DTYPES_HALF = 1, // float16, bfloat16: SEN169_FP16
    ATEN_DTYPES_BOOL = 2, // bool: SEN169_FP16 of 0 and 1
    ATEN_DTYPES_F32 = 4,  // float32: IEEE_FP32
    ATEN_DTYPES_INT = 8,  // int32, int64: IEEE_INT32
    ATEN_DTYPES_FP8 = 16, // float8_e4m3fn: SEN143_FP8
    ATEN_DTYPES_I8 = 32,  // int8: SENINT8
    ATEN_DTYPES_NARROW = 64, // int16: SENINT16; uint8: SENUINT32
} aten_dtypes;

// Dtype of a native's result.
typedef enum {
    ATEN_RESULT_SAME, // that of the operands (of x for gather and layer_norm)
    ATEN_RESULT_BOOL,
    ATEN_RESULT_GIVEN, // the node's own, any that the card has
} aten_result;

typedef struct {
    const char *name; // "spyre.add", "aten.addmm.default"
    graph_layer layer;
    const char *doc; // one line; of a HOST row the reason
    // Natives:
    aten_kind kind;
    uint32_t dtypes; // aten_dtypes of the operands, or-ed, of the card's own profile
    aten_result result;
    // Natives and decompositions: the opfunc, or OPFUNC_NONE.
    opfunc opfunc;
} aten_row;

const aten_row *aten_describe(aten_op op);

// Integers of 8 and 16 bits, which the card stores and converts but does not compute with.
bool aten_is_narrow(spyre_dtype dtype);

// Whether a native has operands of a dtype. `extended`: with the profile of that name every native
// that computes in 16 bits what it gives in 16 bits does so in float32.
bool aten_takes(aten_op native, spyre_dtype dtype, bool extended);

// The row of an op name; false when the table has none.
bool aten_named(const char *name, aten_op *out_op);

// The value whose storage `value` lies in: `value` itself unless a VIEW node produced it. Time is
// that of the views in between.
uint32_t graph_value_base(const spyre_graph *graph, uint32_t value);

// The same for every value.
void graph_find_bases(const spyre_graph *graph, uint32_t *out_base);

#endif
