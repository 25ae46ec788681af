// SPDX-License-Identifier: Apache-2.0
//
// The cache's directory as a whole: which files in it are the cache's, and how much they may take.
// Anything else that lies there is left alone.
#ifndef COMPILE_CACHE_DIRECTORY_H
#define COMPILE_CACHE_DIRECTORY_H

#include "base/arena.h"
#include "compile/cache/cache_config.h"
#include "compile/files/sealed_file.h"

#define CACHE_SUFFIX ".spyre"
enum { CACHE_KEY_DIGITS = 32, CACHE_NAME_BYTES = CACHE_KEY_DIGITS + sizeof CACHE_SUFFIX };

// Removes the least recently used files, when `bytes` more, under `key`, would exceed the limit,
// down to 7/8 of it. Only some of the calls look through the directory, on average one for every
// 256th of the limit: until then files may exceed it. SPYRE_INVALID_ARGUMENT when `bytes` alone are
// too many.
SPYRE_MUST_CHECK spyre_status cache_directory_make_room(const cache_config *config, content_key key,
                                                        int64_t bytes, int64_t *out_evictions);

#endif
