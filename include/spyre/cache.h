// SPDX-License-Identifier: Apache-2.0
//
// Known executables. With spyre_compile_options.cache, equal graphs compiled with equal options
// share one executable as long as the process holds it, and executables are kept as
// files for the next process. A file is named by a hash of all that determines its content: the
// graph with its layouts, the options, the build of the library. It appears complete or not at all,
// readers take no lock, any number of processes may share the directory, and a file that is not
// exactly what was written is removed and compiled anew.
//
//     SPYRE_CACHE       1 or 0: whether any of this happens (1)
//     SPYRE_CACHE_DIR   the directory, made when missing ($XDG_CACHE_HOME/spyre, ~/.cache/spyre)
//     SPYRE_CACHE_SIZE  what the files may take, 1K and more: a number of bytes, or with K, M, G or
//                       T behind it (1024 and its powers) (1G); the least recently used go first
//
// A value that is none of these gives one warning and the default. A directory that cannot be read
// or written gives one warning; programs are then compiled and not kept. spyre_statistic_at()
// counts hits and misses.
#ifndef SPYRE_CACHE_H
#define SPYRE_CACHE_H

#include "spyre/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *name;           // of the file
    int64_t bytes;
    int64_t used_s;             // last use, seconds since 1970
    const char *problem;        // why it would be rejected; null: nothing, or it was not verified
} spyre_cache_file;

typedef struct {
    const char *directory;      // null: the environment turns files off
    int64_t limit_bytes, total_bytes;
    uint32_t file_count;
    const spyre_cache_file *files;      // least recently used first
} spyre_cache_listing;

// The files of the directory; a directory that does not exist has none. With `verify` all of them
// are read. Freed with spyre_cache_listing_free(), null allowed.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_cache_list(bool verify,
                                                         spyre_cache_listing **out_listing);
SPYRE_API void spyre_cache_listing_free(spyre_cache_listing *listing);

// Removes the cache's files, and nothing else that lies in the directory.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_cache_clear(uint32_t *out_files, int64_t *out_bytes);

#ifdef __cplusplus
}
#endif
#endif
