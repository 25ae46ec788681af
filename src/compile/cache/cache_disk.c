// SPDX-License-Identifier: Apache-2.0
#include "compile/cache/cache_disk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "compile/cache/cache_directory.h"
#include "compile/files/sealed_file.h"

static void name_of(content_key key, char name[CACHE_NAME_BYTES])
{
    snprintf(name, CACHE_NAME_BYTES, "%016" PRIx64 "%016" PRIx64 CACHE_SUFFIX, key.high, key.low);
}

static const char *path_of(arena *memory, const cache_config *config, content_key key)
{
    char name[CACHE_NAME_BYTES];
    name_of(key, name);
    return file_join(memory, config->directory, name);
}

spyre_status cache_disk_read(arena *memory, const cache_config *config, content_key key,
                             const uint8_t **out_content, size_t *out_length)
{
    *out_content = NULL;
    const char *path = path_of(memory, config, key);
    char *file, name[CACHE_NAME_BYTES];
    size_t length;
    TRY_ALLOC(path);
    name_of(key, name);
    spyre_status status = file_read_member(memory, config->directory, name,
                                           (size_t)config->limit_bytes, &file, &length);
    if (spyre_status_code(status) == SPYRE_NOT_FOUND) {
        spyre_status_free(status);
        return NULL;
    }
    TRY(status);
    const char *problem = sealed_file_refusal(file, length, &key);
    if (problem) return status_new(SPYRE_INVALID_FORMAT, "%s: %s", path, problem);
    // Last use is the time of modification: times of access are often not kept. A directory
    // that may only be read keeps the old time, which does no harm.
    (void)utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
    *out_content = (const uint8_t *)file + SEALED_HEADER_BYTES;
    *out_length = length - SEALED_HEADER_BYTES;
    return NULL;
}

spyre_status cache_disk_write(arena *memory, const cache_config *config, content_key key,
                              const void *content, size_t content_length, int64_t *out_evictions)
{
    size_t length = SEALED_HEADER_BYTES + content_length;
    void *file;
    *out_evictions = 0;
    const char *path = path_of(memory, config, key);
    TRY_ALLOC(path);
    TRY(file_make_directories(config->directory));
    TRY(cache_directory_make_room(config, key, (int64_t)length, out_evictions));
    TRY(sealed_file_make(key, content, content_length, &file, &length));
    spyre_status status = file_write(path, file, length);
    free(file);
    return status;
}

spyre_status cache_disk_remove(arena *memory, const cache_config *config, content_key key)
{
    const char *path = path_of(memory, config, key);
    TRY_ALLOC(path);
    return file_remove(path);
}
