// SPDX-License-Identifier: Apache-2.0
//
// Binary records in memory: arrays of plain structs and numbers, one behind the other, each at a
// multiple of BYTES_ALIGNMENT, so that a reader uses them where they lie. Struct layouts are those
// of the build that writes: a record is for readers of the same build.
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdint.h>

#include "base/text.h"

enum { BYTES_ALIGNMENT = 16 };

// Appends `bytes` and zeros up to the alignment. A writer is a `text`: errors are sticky.
void bytes_put(text *to, const void *bytes, size_t length);
void bytes_put_number(text *to, uint64_t value);
void bytes_put_string(text *to, const char *string);    // with its length and its terminator

// Takes what was put, in the same order. `bytes` is aligned to BYTES_ALIGNMENT. What is not there
// makes the reader fail for good; a failed reader gives null, 0 and "".
typedef struct {
    const uint8_t *bytes;
    size_t length, at;
    bool failed;
} bytes_reader;

// `count` items of `item_bytes` each.
const void *bytes_take(bytes_reader *from, uint64_t count, size_t item_bytes);
#define BYTES_TAKE(from, T, count) ((const T *)bytes_take((from), (count), sizeof(T)))
uint64_t bytes_take_number(bytes_reader *from);
const char *bytes_take_string(bytes_reader *from);

#endif
