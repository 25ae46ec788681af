// SPDX-License-Identifier: Apache-2.0
//
// An executable as bytes, for the same build.
#ifndef COMPILE_EXECUTABLE_BYTES_H
#define COMPILE_EXECUTABLE_BYTES_H

#include "compile/executable.h"

// Appends what launches and reports need, the subject that it is known by in front.
SPYRE_MUST_CHECK spyre_status executable_put(const spyre_executable *executable,
                                             const char *subject, text *out);

// Fills an executable that executable_create() gave; `bytes` lie in its memory, aligned to 16. A
// record that ends too early or has another `subject` is SPYRE_INVALID_FORMAT.
SPYRE_MUST_CHECK spyre_status executable_take(spyre_executable *executable, const char *subject,
                                              const uint8_t *bytes, size_t length);

#endif
