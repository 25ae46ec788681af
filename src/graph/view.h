// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on views with constant sizes.
#ifndef GRAPH_VIEW_H
#define GRAPH_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "spyre/layout.h"

// Sets the strides of a row-major tensor and offset 0. As in PyTorch, a dim of size 0 counts as 1.
void view_set_contiguous(spyre_view *view);

// The contiguous view of `size[0..rank)`.
spyre_view view_contiguous(const int64_t *size, uint32_t rank);

bool view_same_sizes(const spyre_view *a, const spyre_view *b);

// Equal sizes, offset, and strides of dims longer than 1.
bool view_same(const spyre_view *a, const spyre_view *b);

int64_t view_element_count(const spyre_view *view);

// The largest element of the storage that the view reaches; -1 for an empty view.
int64_t view_last_element(const spyre_view *view);

// True when the view covers elements 0..count-1 of its storage exactly once, in any order of dims.
bool view_is_dense(const spyre_view *view);

// The view of the same elements, in row-major order, with other sizes; false when strides cannot
// express it (then only a copy can).
bool view_reshape(const spyre_view *from, const int64_t *size, uint32_t rank, spyre_view *out_view);

// Dims in the other order.
spyre_view view_permute(const spyre_view *view, const uint32_t *order);

// "[4, 64]" for messages.
void view_print_sizes(const spyre_view *view, text *out);

#endif
