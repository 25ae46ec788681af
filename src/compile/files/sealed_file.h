// SPDX-License-Identifier: Apache-2.0
//
// A compiled program's bytes for other processes: a file of the cache, or an executable that
// deploy.c encodes. Header and content:
//
//     0   16  checksum (XXH3, 128 bits) of everything behind it
//     16   8  "SPYCACHE"
//     24   8  version of this form
//     32   8  length of the content
//     40   8  hash of the build id of the library that wrote it
//     48  16  the key; of a file of the cache, in hexadecimal, its name
//     64      the content
//
// Numbers are those of the host: a file is for the build that wrote it. Nothing is flushed to the
// disk: a file that a crash of the machine left in part fails its checksum and is made again.
#ifndef COMPILE_SEALED_FILE_H
#define COMPILE_SEALED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SEALED_HEADER_BYTES = 64 };

typedef struct {
    uint64_t low, high;
} content_key;

// False when the library has no build id: nothing can be kept.
bool sealed_file_is_possible(void);

// Hashes the build and `length` bytes of what determines the content.
content_key sealed_file_key(const void *bytes, size_t length);

// A file's bytes: header and content. The caller frees them.
SPYRE_MUST_CHECK spyre_status sealed_file_make(content_key key, const void *content, size_t length,
                                               void **out_file, size_t *out_length);

// Why these bytes are not to be used, or null. Without a key, whatever they are of, by any build.
const char *sealed_file_refusal(const void *file, size_t length, const content_key *key);

#endif
