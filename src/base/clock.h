// SPDX-License-Identifier: Apache-2.0
//
// Time, for differences.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

// Nanoseconds of the host's clock that only goes forward, since some point in the past.
int64_t clock_now_ns(void);

#endif
