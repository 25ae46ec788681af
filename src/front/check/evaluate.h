// SPDX-License-Identifier: Apache-2.0
//
// The meaning of the loop IR at any stage, without layouts, divisions and places: ops in order, on
// dense host tensors. What an op computes is the bundle interpreter's definition, with the elements
// of a reduction in ascending order and no lanes, so that sums round as they do after any pass.
#ifndef FRONT_EVALUATE_H
#define FRONT_EVALUATE_H

#include "front/ir/loop.h"

// Room of an element in host values: the two moments of exx2 lie side by side.
enum { EVALUATE_ELEMENT_BYTES = 16 };

// Elements from the first to the last one of the buffer's host storage.
int64_t evaluate_elements(const loop_buffer *buffer);

// values: one array a buffer, evaluate_elements() * EVALUATE_ELEMENT_BYTES bytes, an element in the
// buffer's format at the start of its room. Inputs are given, null entries are allocated in
// `memory` and filled. SPYRE_DEVICE_FAULT when an index of a gather is out of range.
SPYRE_MUST_CHECK spyre_status loop_evaluate(const loop_graph *loops, arena *memory,
                                            uint8_t **values);

// The same with every buffer in the bytes that its layout gives it, one array each: what layouts
// do, without places, divisions and emission. No buffer may be in LX.
SPYRE_MUST_CHECK spyre_status loop_evaluate_laid_out(const loop_graph *loops, arena *memory,
                                                     uint8_t **values);

#endif
