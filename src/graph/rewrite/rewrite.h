// SPDX-License-Identifier: Apache-2.0
//
// Decompositions. A handler looks at one node of the caller's graph and emits natives and views
// into the prepared graph. It returns UNSUPPORTED, with the reason as message, when the node must
// stay on the host; what it has emitted until then is taken back.
#ifndef GRAPH_REWRITE_H
#define GRAPH_REWRITE_H

#include "graph/aten.h"
#include "graph/build.h"
#include "graph/segments/segments.h"
#include "graph/view.h"

// A tensor of the card in the prepared graph.
typedef struct {
    uint32_t value;
    spyre_dtype dtype;
    spyre_view view;
} tensor;

typedef struct {
    graph_number number;
    spyre_dtype dtype;
    tensor made;
} rewrite_constant;

// How windows follow each other along `count` dims, and the elements of one.
typedef struct {
    uint32_t count;
    int64_t stride[SPYRE_MAX_RANK], dilation[SPYRE_MAX_RANK];
} window_steps;

// A result of 8 or 16 bits and the int32 tensor that a handler makes of it.
typedef struct {
    tensor narrow, wide;
} rewrite_wide;

typedef struct rewriter {
    const spyre_graph *source;
    graph_rules rules;
    spyre_graph *target;             // values [0, source->values.count) are the source's
    const uint32_t *uses;            // by value of the source: outputs and needed nodes' reads
    const uint32_t *part_writes;     // of these, what slice_scatter and select_scatter write into
    bool *loose;                     // by value: made by the host, not dense
    VEC(rewrite_constant) constants; // one for each value and dtype
    VEC(tensor) causal_masks;        // one for each size
    uint32_t node;                   // of the source, being rewritten
    // What becomes of its operands as they are read; null: nothing.
    spyre_status (*change_operand)(struct rewriter *r, tensor *x);
    const graph_node *from;
    uint32_t serial; // names the results of this node's natives
    bool widens;     // 8 and 16 bits are int32 to the handler: rewrite_narrow_integers.c
    spyre_dtype common; // while it widens: what all operands and numbers promote to
    VEC(rewrite_wide) wide_results; // of this node
} rewriter;

typedef spyre_status (*rewrite_handler)(rewriter *r);
#define ATEN_REWRITE(id, name, handler, opfunc, doc)                                               \
    SPYRE_MUST_CHECK spyre_status rewrite_##handler(rewriter *r);
#include "graph/aten.def"

// Integers of 8 and 16 bits: whether the node has some, what a handler gets of a dtype.
bool rewrite_has_narrow(const rewriter *r);
spyre_dtype rewrite_computed(const rewriter *r, spyre_dtype dtype);
// From the narrow result `value` to the int32 tensor that the handler makes instead, the same each
// time; casts those that it has made.
SPYRE_MUST_CHECK spyre_status rewrite_wide_result(rewriter *r, uint32_t value, tensor *into);
SPYRE_MUST_CHECK spyre_status rewrite_narrow_results(rewriter *r);

// Whether the node's row has a UNARY opfunc that takes the dtype of its result: rewrite_unary().
bool rewrite_is_unary(const rewriter *r);
// aten_takes() by the rules.
bool rewrite_takes(const rewriter *r, aten_op native, spyre_dtype dtype);
// Whether the rules allow an opfunc; UNSUPPORTED with its name when they do not.
bool rewrite_allows(const rewriter *r, opfunc op);
SPYRE_MUST_CHECK spyre_status rewrite_expect_allowed(const rewriter *r, opfunc op);

// Arguments of the node. A tensor argument is on the card, has constant sizes and elements.
SPYRE_MUST_CHECK spyre_status rewrite_tensor(rewriter *r, uint32_t index, tensor *out);
SPYRE_MUST_CHECK spyre_status rewrite_optional(rewriter *r, uint32_t index, bool *out_present,
                                               tensor *out);
// The host's, whose kernel raises, unless operands [first, first + count) that are there have one
// dtype: products do not promote.
SPYRE_MUST_CHECK spyre_status rewrite_same_dtypes(rewriter *r, uint32_t first, uint32_t count);
// A tensor no two of whose elements are one: windows that overlap are copied.
SPYRE_MUST_CHECK spyre_status make_separate(rewriter *r, const tensor *x, tensor *out);
SPYRE_MUST_CHECK spyre_status rewrite_separate(rewriter *r, uint32_t index, tensor *out);
// The same, or a number as a constant of `dtype`; cast to `dtype`.
SPYRE_MUST_CHECK spyre_status rewrite_operand(rewriter *r, uint32_t index, spyre_dtype dtype,
                                              tensor *out);
// The same; a number is what a tensor of `dtype` holds of it, for ops that compare or store it.
SPYRE_MUST_CHECK spyre_status rewrite_stored(rewriter *r, uint32_t index, spyre_dtype dtype,
                                             tensor *out);
// A number as a tensor of `dtype` holds it, which may be coarser than the card's format; int32
// stands for the narrow integers of a node that is widened.
graph_number number_in(const rewriter *r, graph_number number, spyre_dtype dtype);
// A value of the source as tensor, for list items.
SPYRE_MUST_CHECK spyre_status rewrite_value(rewriter *r, uint32_t value, tensor *out);
// A copy in the place of a view that steps across the dims of its storage or overlaps itself, of no
// other.
SPYRE_MUST_CHECK spyre_status rewrite_gather_across(rewriter *r, tensor *x);
// A dim counted from the end when negative, in [0, rank).
SPYRE_MUST_CHECK spyre_status rewrite_dim(rewriter *r, uint32_t index, int64_t fallback,
                                          uint32_t rank, uint32_t *out_dim);

// What a result of the node must be: pass it as `into` to the last maker, or to rewrite_finish.
SPYRE_MUST_CHECK spyre_status rewrite_result(rewriter *r, uint32_t index, tensor *out);

// True when the node has the result and something needs it.
bool rewrite_uses(const rewriter *r, uint32_t result);

// UNSUPPORTED when a result beyond `index` is used.
SPYRE_MUST_CHECK spyre_status rewrite_only_result(rewriter *r, uint32_t index);

// A tensor that no node has made yet; contiguous or not, as `view` is.
SPYRE_MUST_CHECK spyre_status make_fresh(rewriter *r, spyre_dtype dtype, const spyre_view *view,
                                         tensor *out);

// Of spyre.layer_norm: null for a missing vector, and for a part that follows from the last size.
typedef struct {
    const tensor *weight, *bias, *part;
    double eps;
} norm_parameters;

// Makers. `into` is a result of the node (its dtype, sizes and strides are taken), or null: then
// *out becomes a fresh contiguous tensor. `out` may be null when `into` is not.
SPYRE_MUST_CHECK spyre_status make_constant(rewriter *r, double value, spyre_dtype dtype,
                                            tensor *out);
SPYRE_MUST_CHECK spyre_status make_full(rewriter *r, double value, spyre_dtype dtype,
                                        const spyre_view *sizes, const tensor *into, tensor *out);
// The same of a number that may be a parameter.
SPYRE_MUST_CHECK spyre_status make_number(rewriter *r, const graph_number *number,
                                          spyre_dtype dtype, tensor *out);
SPYRE_MUST_CHECK spyre_status make_full_of(rewriter *r, const graph_number *number,
                                           spyre_dtype dtype, const spyre_view *sizes,
                                           const tensor *into, tensor *out);
SPYRE_MUST_CHECK spyre_status make_unary(rewriter *r, aten_op op, const tensor *x,
                                         const tensor *into, tensor *out);
SPYRE_MUST_CHECK spyre_status make_binary(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                                          const tensor *into, tensor *out);
// x op value, the value as a constant of x's dtype.
SPYRE_MUST_CHECK spyre_status make_with(rewriter *r, aten_op op, const tensor *x, double value,
                                        const tensor *into, tensor *out);
SPYRE_MUST_CHECK spyre_status make_with_number(rewriter *r, aten_op op, const tensor *x,
                                               const graph_number *number, const tensor *into,
                                               tensor *out);
SPYRE_MUST_CHECK spyre_status make_where(rewriter *r, const tensor *condition, const tensor *x,
                                         const tensor *y, const tensor *into, tensor *out);
// An opfunc of x and two parameters.
SPYRE_MUST_CHECK spyre_status make_parametric(rewriter *r, aten_op op, const tensor *x,
                                              double first, double second, const tensor *into,
                                              tensor *out);
// The same of numbers that each launch may give.
SPYRE_MUST_CHECK spyre_status make_parametric_of(rewriter *r, aten_op op, const tensor *x,
                                                 const graph_number *first,
                                                 const graph_number *second, const tensor *into,
                                                 tensor *out);
// `reduced[i]` says whether dim i goes. No dim at all gives x itself (or a copy of it in `into`).
SPYRE_MUST_CHECK spyre_status make_reduction(rewriter *r, aten_op op, const tensor *x,
                                             const bool *reduced, bool keepdim, const tensor *into,
                                             tensor *out);
// The k largest along `dim`, or where they are, as int64.
SPYRE_MUST_CHECK spyre_status make_rank(rewriter *r, aten_op op, const tensor *x, int64_t k,
                                        uint32_t dim, const tensor *into, tensor *out);
// Running values along a dim, or where they stand, in int64.
SPYRE_MUST_CHECK spyre_status make_scan(rewriter *r, aten_op op, const tensor *x, uint32_t dim,
                                        const tensor *into, tensor *out);
// Of float8_e4m3fn a fresh result is float32.
SPYRE_MUST_CHECK spyre_status make_matmul(rewriter *r, const tensor *x, const tensor *y,
                                          const tensor *into, tensor *out);
// A native of windows, which gives a fresh dense tensor of that view.
SPYRE_MUST_CHECK spyre_status make_windows(rewriter *r, aten_op op, const tensor *x,
                                           const tensor *y, const window_steps *steps,
                                           const spyre_view *result, tensor *out);
SPYRE_MUST_CHECK spyre_status make_gather(rewriter *r, const tensor *table, const tensor *index,
                                          const tensor *into, tensor *out);
// Rows of a table along its first `dims` dims, which index has a number for, or its elements; the
// result has the sizes of the index, then the table's other dims.
SPYRE_MUST_CHECK spyre_status make_gathered_rows(rewriter *r, const tensor *table, uint32_t dims,
                                                 const tensor *index, tensor *out);
// An index a dim of a table.
typedef struct {
    tensor items[SPYRE_MAX_RANK];
    uint32_t count;
    uint32_t dim[SPYRE_MAX_RANK]; // of the table, ascending
} indices;
// The elements of a table whose dims all have an index as a vector, lines end at sticks, and the
// numbers in it of those that the indices choose.
SPYRE_MUST_CHECK spyre_status make_numbered_elements(rewriter *r, const tensor *table,
                                                     const indices *all, tensor *out_elements,
                                                     tensor *out_number);
// The number of a row of the table whose indexed dims are in front and joined.
SPYRE_MUST_CHECK spyre_status make_joined_index(rewriter *r, const indices *all,
                                                const spyre_view *table, tensor *out);
// Single elements of a table whose dims all have an index; the result has the sizes of the indices.
SPYRE_MUST_CHECK spyre_status make_gathered_elements(rewriter *r, const tensor *table,
                                                     const indices *all, tensor *out);
// Whether that takes them.
bool indices_choose_elements(const tensor *table, const indices *all);
// Two indices, one of which counts off its dim of the table.
typedef struct {
    uint32_t counted, chosen; // dims of the table
    tensor index;             // into `chosen`, one for each of `counted`, or a line for each
} index_pair;
bool indices_are_paired(const rewriter *r, const tensor *table, const indices *all,
                        index_pair *out);
// What they choose, its dims where PyTorch has them.
SPYRE_MUST_CHECK spyre_status make_paired_take(rewriter *r, const tensor *table,
                                               const index_pair *pair, tensor *out);
// What comes there, of such dims or broadcast to them, with as many dims as the table, and the
// index for a scatter along `chosen`.
SPYRE_MUST_CHECK spyre_status make_paired_rows(rewriter *r, const tensor *table,
                                               const index_pair *pair, tensor *source,
                                               tensor *out_index);
// Along `dim` what x has at the index of each place; the index has x's other dims, or one place
// instead. Of a vector an index of any sizes.
SPYRE_MUST_CHECK spyre_status make_take(rewriter *r, const tensor *x, const tensor *index,
                                        uint32_t dim, const tensor *into, tensor *out);
// x with `rows` joined by SUM, PROD, MAX or MIN at the indices of `dim`, one after the other; where
// that widens, in float32. An index of rank 1 is of rows, one of x's rank of elements.
SPYRE_MUST_CHECK spyre_status make_accumulated(rewriter *r, opfunc accumulator, const tensor *x,
                                               const tensor *index, const tensor *rows,
                                               uint32_t dim, const tensor *into, tensor *out);
bool accumulation_widens(opfunc accumulator, spyre_dtype dtype);
// x with `rows` at the indices of `dim`, the last of equal ones; rows have as many places there as
// the index, or broadcast to that. Indices as of make_accumulated.
SPYRE_MUST_CHECK spyre_status make_scatter(rewriter *r, const tensor *x, const tensor *index,
                                           const tensor *rows, uint32_t dim, const tensor *into,
                                           tensor *out);
SPYRE_MUST_CHECK spyre_status make_layer_norm(rewriter *r, const tensor *x,
                                              const norm_parameters *p, const tensor *into,
                                              tensor *out);
SPYRE_MUST_CHECK spyre_status make_cat(rewriter *r, const tensor *items, uint32_t count,
                                       uint32_t dim, const tensor *into, tensor *out);
// Puts `before` and `after` places of the value around x along one dim; a negative count cuts.
SPYRE_MUST_CHECK spyre_status make_padded(rewriter *r, tensor *x, uint32_t dim, int64_t before,
                                          int64_t after, const graph_number *value);
// A copy, broadcast to the sizes of `into`.
SPYRE_MUST_CHECK spyre_status make_copy(rewriter *r, const tensor *x, const tensor *into,
                                        tensor *out);

// x itself when it has the dtype already (and `into` is null), else a cast; to bool: x != 0.
SPYRE_MUST_CHECK spyre_status make_cast(rewriter *r, const tensor *x, spyre_dtype dtype,
                                        const tensor *into, tensor *out);

// Views. make_view: any view of x's storage. make_reshape copies when strides cannot express the
// sizes. Dims of make_transpose are swapped; make_unsqueeze adds a dim of size 1 in front of `dim`.
SPYRE_MUST_CHECK spyre_status make_view(rewriter *r, const tensor *x, const spyre_view *view,
                                        const tensor *into, tensor *out);
// A vector as one of `rank` dims, of which `dim` is its own.
SPYRE_MUST_CHECK spyre_status make_column(rewriter *r, const tensor *vector, uint32_t dim,
                                          uint32_t rank, tensor *out);
SPYRE_MUST_CHECK spyre_status make_reshape(rewriter *r, const tensor *x, const int64_t *size,
                                           uint32_t rank, tensor *out);
SPYRE_MUST_CHECK spyre_status make_transpose(rewriter *r, const tensor *x, uint32_t a, uint32_t b,
                                             tensor *out);
SPYRE_MUST_CHECK spyre_status make_unsqueeze(rewriter *r, const tensor *x, uint32_t dim,
                                             tensor *out);
// A slice as pieces one behind the other, which join `out`: of a cat of few items parts of
// these, so that the cat itself need not be made for it. What is in front of an index and what is
// behind it are together at most PIECES_MOST + 1 pieces.
enum { PIECES_MOST = 48 };
typedef struct {
    uint32_t dim;
    int64_t start, length;
} part_of_dim;
typedef struct {
    tensor items[PIECES_MOST + 3];
    uint32_t count;
} piece_list;
SPYRE_MUST_CHECK spyre_status make_pieces(rewriter *r, const tensor *x, part_of_dim part,
                                          piece_list *out);
// The same as one tensor. `length` is at least 1.
SPYRE_MUST_CHECK spyre_status make_part(rewriter *r, const tensor *x, part_of_dim part,
                                        tensor *out);
SPYRE_MUST_CHECK spyre_status make_slice(rewriter *r, const tensor *x, uint32_t dim, int64_t start,
                                         int64_t length, tensor *out);

// Whether both are the same elements of one tensor, views of it or copies.
bool rewrite_same_elements(const rewriter *r, const tensor *a, const tensor *b);

// The integers 0, 1, .. count - 1 as a vector of int64.
SPYRE_MUST_CHECK spyre_status make_count(rewriter *r, int64_t count, tensor *out);

// index < 0 ? index + rows : index, exact in integers.
SPYRE_MUST_CHECK spyre_status make_wrapped_index(rewriter *r, const tensor *index, int64_t rows,
                                                 tensor *out);

// x * x in float32: of 16 bits, squares of what is below 2^-16 would be none.
SPYRE_MUST_CHECK spyre_status make_square(rewriter *r, const tensor *x, tensor *out);

// x - mean(x) over the dims that are marked, and that mean, whose dims stay with size 1. The mean
// is rounded, so that the distances have a small mean of their own; where x lies on a grid, as any
// tensor of one format does, that is at most as large as their standard deviation.
SPYRE_MUST_CHECK spyre_status make_centered(rewriter *r, const tensor *x, const bool *reduced,
                                            tensor *out_mean, tensor *out_distance);

// Of such distances and their squares: the mean and the biased variance of x, both float32. These
// do not cancel as mean(x^2) - mean(x)^2 does; what the mean's rounding adds to them is taken off
// (the corrected two-pass algorithm of Chan, Golub and LeVeque, American Statistician 37, 1983).
SPYRE_MUST_CHECK spyre_status make_variance(rewriter *r, const tensor *distance,
                                            const tensor *square, const bool *reduced,
                                            bool keepdim, tensor *out_mean, tensor *out_variance);

// Attention's heads: `group` of them, which follow each other, share the keys of one.
typedef struct {
    int64_t batch, heads, key_heads, group, queries;
} attention_heads;

// Finds `group`.
SPYRE_MUST_CHECK spyre_status rewrite_group_heads(attention_heads *heads);

// [batch, heads, queries, n] as [batch, key heads, group * queries, n] or back.
SPYRE_MUST_CHECK spyre_status make_regrouped(rewriter *r, const attention_heads *heads,
                                             const tensor *x, bool to_groups, tensor *out);

// Keeps the scores where the mask is true; the others become -inf.
SPYRE_MUST_CHECK spyre_status make_seen_scores(rewriter *r, const tensor *mask, tensor *scores);

// Softmax over `dim`; a safe one gives 0, not NaN, where everything is -inf.
SPYRE_MUST_CHECK spyre_status make_softmax(rewriter *r, const tensor *x, uint32_t dim, bool safe,
                                           const tensor *into, tensor *out);

// Makes the node's result `into` out of x, which has as many elements in the same order: a view
// when the strides agree, else a copy.
SPYRE_MUST_CHECK spyre_status rewrite_finish(rewriter *r, const tensor *x, const tensor *into);

// The sizes of x and y broadcast; INVALID_ARGUMENT when they do not fit.
SPYRE_MUST_CHECK spyre_status broadcast_sizes(const spyre_view *x, const spyre_view *y,
                                              spyre_view *out);

// The native of an opfunc that works element by element, reduces or scans.
aten_op native_of(opfunc func);

#endif
