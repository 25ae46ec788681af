// SPDX-License-Identifier: Apache-2.0
//
// The bytes that tensors of a bundle's steps take. Internal to src/compile.
#ifndef COMPILE_TENSOR_SPAN_H
#define COMPILE_TENSOR_SPAN_H

#include "bundle/model.h"

// Of a launch argument, or of LX, of any core: bytes [start, end).
typedef struct {
    int32_t argument;           // -1: LX
    int64_t start, end;
} tensor_span;

tensor_span tensor_span_of(const bundle_step *step, uint32_t tensor,
                           const bundle_geometry *geometry);

bool tensor_span_overlaps(const tensor_span *range, const bundle_step *step, uint32_t tensor,
                          const bundle_geometry *geometry);

// The geometry of every tensor of every step. *out_straight: the body executes each step once, in
// their order.
SPYRE_MUST_CHECK spyre_status tensor_span_geometry(arena *memory, const bundle *b,
                                                   const bundle_geometry *const **out_geometry,
                                                   bool *out_straight);

#endif
