// SPDX-License-Identifier: Apache-2.0
//
// What the makers of loop ops share: a node of the graph in work, its iteration space, its
// operands.
#ifndef FRONT_BUILD_H
#define FRONT_BUILD_H

#include "front/ir/loop.h"

typedef struct {
    loop_graph *loops;
    const spyre_graph *graph;
    uint32_t *buffer_of; // by value id; SPYRE_NO_ID before its node
    struct build_count **counts; // by value id: the numbers that the buffer stands for, or null
    uint32_t node;
} builder;

// The dims of an iteration space, outermost first, before those of extent 1 are dropped.
typedef struct {
    uint32_t rank;
    int64_t size[LOOP_MAX_VARS + 2];
} space;

// SPYRE_UNSUPPORTED with the node's place.
SPYRE_MUST_CHECK spyre_status build_refuse(const builder *b, const char *why);

const graph_node *build_node_of(const builder *b);
SPYRE_MUST_CHECK spyre_status build_view(const builder *b, uint32_t value, spyre_view *out);
SPYRE_MUST_CHECK spyre_status build_space(const builder *b, uint32_t value, space *out);

// Argument `index` of the node, which must be a tensor.
SPYRE_MUST_CHECK spyre_status build_tensor_arg(const builder *b, uint32_t index, uint32_t *out);

// An op over `dims` without operands. They follow in the order of the opfunc, the result last; then
// the op is finished, which appends it.
SPYRE_MUST_CHECK spyre_status build_begin_op(const builder *b, opfunc func, const space *dims,
                                             loop_op *op);
SPYRE_MUST_CHECK spyre_status build_finish_op(const builder *b, loop_op *op);

// Adds an operand that moves by strides[d] host elements along dim d of the iteration space.
void build_add_access(loop_op *op, const space *dims, uint32_t buffer, int64_t offset,
                      const int64_t *strides);

// Adds a value whose dim i is dim map[i] of the iteration space (right-aligned when map is null);
// dims of size 1 broadcast.
SPYRE_MUST_CHECK spyre_status build_add_value(builder *b, loop_op *op, const space *dims,
                                              uint32_t value, const uint32_t *map);

// Finishes an op with a fresh buffer for result 0 of the node, and the operand that covers it.
SPYRE_MUST_CHECK spyre_status build_finish_result(builder *b, loop_op *op, const space *dims,
                                                  const uint32_t *map);

// A new constant buffer.
SPYRE_MUST_CHECK spyre_status build_add_number(const builder *b, const graph_number *number,
                                               spyre_dtype dtype, uint32_t *out);
SPYRE_MUST_CHECK spyre_status build_add_constant(const builder *b, double value, spyre_dtype dtype,
                                                 uint32_t *out);

// Appends the ops of the node; a view's results lie in its operand's buffer.
SPYRE_MUST_CHECK spyre_status build_node(builder *b);
SPYRE_MUST_CHECK spyre_status build_layer_norm(builder *b);

// --- Numbers, which ops take in the place of an operand

// The node's result as numbers first, first + step, ..
SPYRE_MUST_CHECK spyre_status build_counts(builder *b);

// Sums, differences, products and copies of numbers are numbers; which of two are larger is a sign.
// *out_is_count: then no op is needed, and the result is known.
SPYRE_MUST_CHECK spyre_status build_count_result(builder *b, opfunc func, bool *out_is_count);

// Gives the operand of an op the numbers of a value; *out_taken: it has some, and the op takes
// them.
SPYRE_MUST_CHECK spyre_status build_take_count(const builder *b, const loop_op *op,
                                               const space *dims, uint32_t value,
                                               loop_access *access, bool *out_taken);

// Writes down the numbers of a value, if it has some: from now on it lies in a buffer.
SPYRE_MUST_CHECK spyre_status build_settle_count(builder *b, uint32_t value);

#endif
