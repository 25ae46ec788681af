// SPDX-License-Identifier: Apache-2.0
//
// The reference interpreter: executes a bundle element by element in straightforward loops, by the
// numeric rules of the card. What it computes is the definition; it is slow on purpose.
#ifndef BUNDLE_INTERPRET_H
#define BUNDLE_INTERPRET_H

#include "bundle/model.h"

enum { BUNDLE_LX_BYTES = 2 << 20 };

typedef struct {
    uint8_t *bytes;             // host memory that stands for the argument's buffer
    int64_t size_bytes;
} bundle_buffer;

// buffers[0..args.count): one per launch argument. `lx` is BUNDLE_MAX_CORES * BUNDLE_LX_BYTES bytes
// that persist from one call to the next. Bounds are checked: SPYRE_DEVICE_FAULT names step,
// tensor, core, index and address. `no_rounding` (for telling precision problems from wrong code)
// is not offered here: formats round on store, always.
SPYRE_MUST_CHECK spyre_status bundle_interpret(const bundle *b, const bundle_buffer *buffers,
                                               uint8_t *lx);

#endif
