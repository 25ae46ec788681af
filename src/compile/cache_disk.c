// SPDX-License-Identifier: Apache-2.0
#include "compile/cache_disk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/build_id.h"
#include "base/file.h"
#include "compile/cache_directory.h"

static const char MAGIC[8] = {'S', 'P', 'Y', 'C', 'A', 'C', 'H', 'E'};
enum { VERSION = 1, CHECKSUM_BYTES = 16 };

typedef struct {
    uint64_t checksum[2];
    char magic[sizeof MAGIC];
    uint64_t version, length, build;
    cache_key key;
} header;
_Static_assert(sizeof(header) == CACHE_HEADER_BYTES, "the header has no gaps");

static uint64_t build_hash(void)
{
    size_t length;
    const uint8_t *id = build_id(&length);
    return id ? XXH3_64bits(id, length) : 0;
}

bool cache_disk_is_possible(void)
{
    size_t length;
    return build_id(&length) != NULL;
}

cache_key cache_disk_key(const void *bytes, size_t length)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, build_hash() ^ VERSION);
    return (cache_key){hash.low64, hash.high64};
}

static const char *path_of(arena *memory, const cache_config *config, cache_key key)
{
    char name[CACHE_NAME_BYTES];
    snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64 CACHE_SUFFIX, key.high, key.low);
    return file_join(memory, config->directory, name);
}

// --- Checks

static void put_checksum(const void *file, size_t length, uint64_t *out_checksum)
{
    XXH128_hash_t hash =
        XXH3_128bits((const char *)file + CHECKSUM_BYTES, length - CHECKSUM_BYTES);
    out_checksum[0] = hash.low64;
    out_checksum[1] = hash.high64;
}

const char *cache_disk_problem(const void *file, size_t length, const cache_key *key)
{
    header h;
    uint64_t checksum[2];
    if (length < sizeof h) return "it is shorter than a header";
    memcpy(&h, file, sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof MAGIC) != 0) return "it is no file of the cache";
    put_checksum(file, length, checksum);
    if (memcmp(h.checksum, checksum, sizeof checksum) != 0) return "its checksum is wrong";
    if (h.version != VERSION) return "it has another version";
    if (h.length != length - sizeof h) return "its length is not the one it states";
    if (!key) return NULL;
    if (h.build != build_hash()) return "another build wrote it";
    if (memcmp(&h.key, key, sizeof *key) != 0) return "it has another key than its name";
    return NULL;
}

spyre_status cache_disk_seal(cache_key key, const void *content, size_t length, void **out_file,
                             size_t *out_length)
{
    header h = {.version = VERSION, .length = length, .build = build_hash(), .key = key};
    uint8_t *file = malloc(sizeof h + length);
    TRY_ALLOC(file);
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    memcpy(file, &h, sizeof h);
    memcpy(file + sizeof h, content, length);
    put_checksum(file, sizeof h + length, h.checksum);
    memcpy(file, h.checksum, sizeof h.checksum);
    *out_file = file;
    *out_length = sizeof h + length;
    return NULL;
}

// --- Files

spyre_status cache_disk_read(arena *memory, const cache_config *config, cache_key key,
                             const uint8_t **out_content, size_t *out_length)
{
    *out_content = NULL;
    const char *path = path_of(memory, config, key);
    char *file;
    size_t length;
    TRY_ALLOC(path);
    spyre_status status =
        file_read(memory, path, (size_t)config->limit_bytes, &file, &length);
    if (spyre_status_code(status) == SPYRE_NOT_FOUND) {
        spyre_status_free(status);
        return NULL;
    }
    TRY(status);
    const char *problem = cache_disk_problem(file, length, &key);
    if (problem) return status_new(SPYRE_INVALID_FORMAT, "%s: %s", path, problem);
    // Last use is the time of modification: times of access are often not kept. A directory
    // that may only be read keeps the old time, which does no harm.
    (void)utimensat(AT_FDCWD, path, NULL, 0);
    *out_content = (const uint8_t *)file + sizeof(header);
    *out_length = length - sizeof(header);
    return NULL;
}

static spyre_status write_file(const cache_config *config, cache_key key, const void *file,
                               size_t length)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    const char *path = path_of(memory, config, key);
    spyre_status status = path ? file_write(path, file, length) : status_no_memory();
    arena_destroy(memory);
    return status;
}

spyre_status cache_disk_write(const cache_config *config, cache_key key, const void *content,
                              size_t content_length, int64_t *out_evictions)
{
    size_t length = sizeof(header) + content_length;
    void *file;
    *out_evictions = 0;
    TRY(file_make_directories(config->directory));
    TRY(cache_directory_make_room(config, (int64_t)length, out_evictions));
    TRY(cache_disk_seal(key, content, content_length, &file, &length));
    spyre_status status = write_file(config, key, file, length);
    free(file);
    return status;
}

spyre_status cache_disk_remove(const cache_config *config, cache_key key)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    const char *path = path_of(memory, config, key);
    spyre_status status = path ? file_remove(path) : status_no_memory();
    arena_destroy(memory);
    return status;
}
