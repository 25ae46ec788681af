// SPDX-License-Identifier: Apache-2.0
//
// Which build of the library this is.
#ifndef BASE_BUILD_ID_H
#define BASE_BUILD_ID_H

#include <stddef.h>
#include <stdint.h>

// The linker's build id of the shared object (or program) that this code is in: a hash of its
// content, so any change of the code gives another. Null when it was linked without one.
const uint8_t *build_id(size_t *out_length);

#endif
