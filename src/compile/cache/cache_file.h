// SPDX-License-Identifier: Apache-2.0
//
// A file of the cache is a header and the bytes that were stored:
//
//     0   16  checksum (XXH3, 128 bits) of everything behind it
//     16   8  "SPYCACHE"
//     24   8  version of this form
//     32   8  length of the content
//     40   8  hash of the build id of the library that wrote it
//     48  16  the key; the name of the file is the key in hexadecimal and ".spyre"
//     64      the content
//
// Numbers are those of the host: a file is for the build that wrote it. Nothing is flushed to the
// disk: a file that a crash of the machine left in part fails its checksum and is made again.
#ifndef COMPILE_CACHE_FILE_H
#define COMPILE_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { CACHE_HEADER_BYTES = 64 };

typedef struct {
    uint64_t low, high;
} cache_key;

// False when the library has no build id: nothing can be kept.
bool cache_file_is_possible(void);

// Hashes the build and `length` bytes of what determines the content.
cache_key cache_file_key(const void *bytes, size_t length);

// A file's bytes: header and content. The caller frees them.
SPYRE_MUST_CHECK spyre_status cache_file_seal(cache_key key, const void *content, size_t length,
                                              void **out_file, size_t *out_length);

// What is wrong with a file of the cache, or null. Without a key, of any build.
const char *cache_file_problem(const void *file, size_t length, const cache_key *key);

#endif
