// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of the verifier.
#ifndef BUNDLE_VERIFY_H
#define BUNDLE_VERIFY_H

#include "bundle/model.h"

#define RULE(...) status_new(SPYRE_INVALID_ARGUMENT, __VA_ARGS__)
#define LARGEST_ELEMENTS (1LL << 40)

// Inputs, indices and output are tensors of the step, each tensor has a role. Checked first, so
// that everything else may follow the numbers.
SPYRE_MUST_CHECK spyre_status verify_operands(const bundle_step *step);

// The rest of what the opfunc wants, for a step whose dims and tensors are right by themselves.
SPYRE_MUST_CHECK spyre_status verify_roles(const bundle *b, const bundle_step *step);

// Windows of the step's input slide where they may, and each has an element.
SPYRE_MUST_CHECK spyre_status verify_windows(const bundle_step *step);

// What counts elements when it is compiled has no size that a launch chooses.
SPYRE_MUST_CHECK spyre_status verify_open(const bundle_step *step);

// All that any core touches of tensor `tensor` is in LX, or in its launch argument if the size of
// that is known; loop_counts[n] are the iterations of the enclosing loop n, 1 without one.
SPYRE_MUST_CHECK spyre_status bundle_verify_span(const bundle *b, const bundle_step *step,
                                                 uint32_t tensor, const int64_t *loop_counts);

#endif
