// SPDX-License-Identifier: Apache-2.0
//
// What the compiler refuses, as the content of a file of the cache. Like an executable a refusal is
// determined by the subject, so it is under the same key.
#ifndef COMPILE_CACHE_REFUSAL_H
#define COMPILE_CACHE_REFUSAL_H

#include <stdint.h>

#include "base/text.h"

// Appends a refusal: a number that no executable begins with, the subject, the reason.
void cache_refusal_put(const char *subject, const char *reason, text *out);

// The reason in a record, or null when it begins as an executable does. A refusal that ends too
// early or has another subject is SPYRE_INVALID_FORMAT. `bytes` are aligned to 16.
SPYRE_MUST_CHECK spyre_status cache_refusal_take(const uint8_t *bytes, size_t length,
                                                 const char *subject, const char **out_reason);

#endif
