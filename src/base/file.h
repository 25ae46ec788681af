// SPDX-License-Identifier: Apache-2.0
//
// Whole files. Every error names the path and what the system said: SPYRE_NOT_FOUND when nothing
// is there, SPYRE_IO otherwise.
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"

typedef VEC(const char *) file_names;

// Reads a file of at most `limit_bytes` (SPYRE_INVALID_FORMAT beyond). The bytes lie in the arena
// and have a null after them that *out_length does not count.
SPYRE_MUST_CHECK spyre_status file_read(arena *memory, const char *path, size_t limit_bytes,
                                        char **out_bytes, size_t *out_length);

// Reads the file `name` ("init.bin", "inner/init.bin") of a directory that may come from anybody: a
// regular file inside of the directory. A link on the way from the directory on, a name that leads
// out of it, a pipe or a device is SPYRE_INVALID_FORMAT.
SPYRE_MUST_CHECK spyre_status file_read_member(arena *memory, const char *directory,
                                               const char *name, size_t limit_bytes,
                                               char **out_bytes, size_t *out_length);

// Writes a file so that others see the old content or the new, never a part: a temporary file
// beside it is renamed over it. The directory must exist.
SPYRE_MUST_CHECK spyre_status file_write(const char *path, const void *bytes, size_t length);

// Makes a directory and the missing ones above it; an existing directory is fine.
SPYRE_MUST_CHECK spyre_status file_make_directories(const char *path);

// The same for those above `path` only.
SPYRE_MUST_CHECK spyre_status file_make_directories_above(const char *path);

// A number for names that cannot be foreseen, from the system's random numbers.
uint64_t file_random(void);

// The error of the system call that has just failed: "<path>: cannot <what>: <what errno says>".
SPYRE_MUST_CHECK spyre_status file_error(const char *what, const char *path);

// Names (without the directory) that end in `suffix`, sorted by bytes, without "." and "..".
// Suffix "" takes all. Names and array lie in the arena.
SPYRE_MUST_CHECK spyre_status file_list(arena *memory, const char *directory, const char *suffix,
                                        file_names *out_names);

bool file_exists(const char *path);
bool file_is_directory(const char *path);

// Removes a file; a missing one is fine.
SPYRE_MUST_CHECK spyre_status file_remove(const char *path);

// "<directory>/<name>" in the arena, or null when memory is short; "" as directory gives the name.
char *file_join(arena *memory, const char *directory, const char *name);

#endif
