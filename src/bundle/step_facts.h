// SPDX-License-Identifier: Apache-2.0
//
// Small facts derived from a step, beyond those that model.h offers. They hold for verified steps.
#ifndef BUNDLE_STEP_FACTS_H
#define BUNDLE_STEP_FACTS_H

#include "bundle/model.h"

// Elements of a slice of dim `dim`, of the longest one when the division is uneven; the first
// element of core `core`, and how many it has.
int64_t bundle_local_size(const bundle_step *step, uint32_t dim);
int64_t bundle_slice_start(const bundle_step *step, uint32_t core, uint32_t dim);
int64_t bundle_slice_size(const bundle_step *step, uint32_t core, uint32_t dim);

// True for the dims of a RANK whose index is the rank: the output moves along them, the input does
// not.
bool bundle_is_rank_dim(const bundle_step *step, uint32_t dim);

// True for the dims along which a SCAN runs, or a MASK counts positions: those that its indices
// lack.
bool bundle_is_scan_dim(const bundle_step *step, uint32_t dim);

// Elements of dim `dim` of a tensor that one of its owners holds in LX.
int64_t bundle_held_size(const bundle_step *step, const bundle_tensor *tensor, uint32_t dim);

// Bytes from a tensor's first element to where core `core` begins in memory.
int64_t bundle_slice_offset(const bundle_step *step, const bundle_tensor *tensor,
                            const bundle_geometry *geometry, uint32_t core);
// The elements of dim `dim` in a stick; 1 where it is not in sticks.
int64_t bundle_stick_span(const bundle_tensor *tensor, uint32_t dim);

// Whether sticks run along the dim, or would if the tensor had it: of several dims, along each.
bool bundle_in_stick(const bundle_tensor *tensor, uint32_t dim);

// From the address of index 0 of a dim to that of index `i`, in bits: elements may be half bytes.
int64_t bundle_offset_bits(const bundle_tensor *tensor, const bundle_geometry *geometry,
                           uint32_t dim, int64_t i);

// The window of a dim, or of a kernel dim, along which `tensor` has one; or null.
const bundle_window *bundle_window_of(const bundle_step *step, uint32_t tensor, uint32_t dim);

// The kernel's indices [first, end) that are inside of the input for index `i` of the window's dim,
// counted over all cores.
void bundle_window_inside(const bundle_step *step, const bundle_window *window, int64_t i,
                          int64_t *out_first, int64_t *out_end);

// The end of the run of indices from `i` on for which that is the same.
int64_t bundle_window_same(const bundle_step *step, const bundle_window *window, int64_t i);

// The dim of which two neighbours share a byte of a tensor of SENINT4.
uint32_t bundle_pair_dim(const bundle_tensor *tensor);

// The bytes [first, end) that each core touches, without those that loops add.
typedef struct {
    int64_t first, end;
} bundle_bytes;
void bundle_reach(const bundle_step *step, uint32_t tensor, const bundle_geometry *geometry,
                  bundle_bytes out_cores[BUNDLE_MAX_CORES]);

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

// The elements that a reduction joins into one, without those that are masked. Whether its factor
// (of a mean, of exx2) is one part in them, in the format of the constant; `out_constant` is the
// constant's number. bundle_set_mean() makes it so.
int64_t bundle_reduced_count(const bundle *b, const bundle_step *step);
bool bundle_is_mean(const bundle *b, const bundle_step *step, uint32_t *out_constant);
void bundle_set_mean(const bundle *b, bundle_step *step, uint32_t constant);

// What happens to the accumulator of a reduction before it is rounded: it is clipped, then scaled.
typedef struct {
    bool clips, scales;
    float least, most, factor;
} bundle_finish;
bundle_finish bundle_finish_of(const bundle_step *step);

// Whether the first of a reduction's two moments is not computed: +0 stands for the mean.
bool bundle_takes_zero_mean(const bundle_step *step);

// "step 2 2_exp" in front of a message.
SPYRE_MUST_CHECK spyre_status bundle_at_step(spyre_status status, uint32_t number,
                                             const bundle_step *step);

#endif
