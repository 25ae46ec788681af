// SPDX-License-Identifier: Apache-2.0
//
// Small facts derived from a step, beyond those that model.h offers. They hold for verified steps.
#ifndef BUNDLE_DERIVED_H
#define BUNDLE_DERIVED_H

#include "bundle/model.h"

// Elements of a slice of dim `dim`, of the longest one when the division is uneven; the first
// element of core `core`, and how many it has.
int64_t bundle_local_size(const bundle_step *step, uint32_t dim);
int64_t bundle_slice_start(const bundle_step *step, uint32_t core, uint32_t dim);
int64_t bundle_slice_size(const bundle_step *step, uint32_t core, uint32_t dim);

// True for the dims of a RANK whose index is the rank: the output moves along them, the input does
// not.
bool bundle_is_rank_dim(const bundle_step *step, uint32_t dim);

// Elements of dim `dim` of a tensor that one of its owners holds in LX.
int64_t bundle_held_size(const bundle_step *step, const bundle_tensor *tensor, uint32_t dim);

// Bytes from a tensor's first element to where core `core` begins in memory.
int64_t bundle_slice_offset(const bundle_step *step, const bundle_tensor *tensor,
                            const bundle_geometry *geometry, uint32_t core);

// The tensor whose rows the index of an indirect step chooses: the result of a scatter, else the
// input.
uint32_t bundle_value_tensor(const bundle_step *step);

// The dim of a value tensor that the index replaces: the only one of its layout whose max_size is
// 1; -1 when there is none or more than one.
int32_t bundle_indexed_dim(const bundle_step *step, uint32_t tensor);

// The effective gap of a dim, positive when the tensor has room for more indices than N_ says,
// negative when it has fewer: undoes the reversed sign of ReStickifyOpHBM, where gap_is_room does
// not say that there is none.
int64_t bundle_effective_gap(const bundle_step *step, const bundle_tensor *tensor, uint32_t dim);

// The number of a constant of the step (0-based), or -1; and the value of constant `number`.
int32_t bundle_find_constant(const bundle_step *step, const char *name);
float bundle_constant_value(const bundle_step *step, uint32_t number);

// "step 2 2_exp" in front of a message.
SPYRE_MUST_CHECK spyre_status bundle_at_step(spyre_status status, uint32_t number,
                                             const bundle_step *step);

#endif
