// SPDX-License-Identifier: Apache-2.0
//
// Factors of matrix products that cannot be read where they lie.
#ifndef FRONT_COPY_FACTORS_H
#define FRONT_COPY_FACTORS_H

#include "front/ir/loop.h"

// Copies a factor that is the same all along k (the gradient of a sum), a second one whose
// columns lie in parts of sticks (heads of 32 that another program left, lines of an image; a
// result of 128 columns cannot be made 32 lanes at a time), and taps that a convolution's loops do
// not walk within dims (a view whose channels are two dims of its storage).
SPYRE_MUST_CHECK spyre_status copy_factors(loop_graph *loops);

#endif
