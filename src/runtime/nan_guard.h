// SPDX-License-Identifier: Apache-2.0
//
// SEN169_FP16 has no NaN of its own: one that is sent to the card reads back as infinity. With
// SPYRE_NAN=warn or error a transfer looks for them first; ignore, the default, costs nothing.
#ifndef RUNTIME_NAN_GUARD_H
#define RUNTIME_NAN_GUARD_H

#include "spyre/runtime.h"

// Looks at the elements of `view` in host memory that are about to become SEN169_FP16. `host` is
// where offsets count from. SPYRE_INVALID_ARGUMENT names count, place of the first, and the
// variable; other formats and dtypes without NaN are not looked at.
SPYRE_MUST_CHECK spyre_status nan_guard_check(spyre_format format, spyre_dtype dtype,
                                              const spyre_view *view, const void *host);

#endif
