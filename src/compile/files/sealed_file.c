// SPDX-License-Identifier: Apache-2.0
#include "compile/files/sealed_file.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/build_id.h"

static const char MAGIC[8] = {'S', 'P', 'Y', 'C', 'A', 'C', 'H', 'E'};
enum { VERSION = 1, CHECKSUM_BYTES = 16 };

typedef struct {
    uint64_t checksum[2];
    char magic[sizeof MAGIC];
    uint64_t version, length, build;
    content_key key;
} header;
_Static_assert(sizeof(header) == SEALED_HEADER_BYTES, "the header has no gaps");

static uint64_t build_hash(void)
{
    size_t length;
    const uint8_t *id = build_id(&length);
    return id ? XXH3_64bits(id, length) : 0;
}

bool sealed_file_is_possible(void)
{
    size_t length;
    return build_id(&length) != NULL;
}

content_key sealed_file_key(const void *bytes, size_t length)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, build_hash() ^ VERSION);
    return (content_key){hash.low64, hash.high64};
}

static void put_checksum(const void *file, size_t length, uint64_t *out_checksum)
{
    XXH128_hash_t hash =
        XXH3_128bits((const char *)file + CHECKSUM_BYTES, length - CHECKSUM_BYTES);
    out_checksum[0] = hash.low64;
    out_checksum[1] = hash.high64;
}

const char *sealed_file_refusal(const void *file, size_t length, const content_key *key)
{
    header h;
    uint64_t checksum[2];
    if (length < sizeof h) return "it is shorter than a header";
    memcpy(&h, file, sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof MAGIC) != 0) return "it is none of this library's files";
    put_checksum(file, length, checksum);
    if (memcmp(h.checksum, checksum, sizeof checksum) != 0) return "its checksum is wrong";
    if (h.version != VERSION) return "it has another version";
    if (h.length != length - sizeof h) return "its length is not the one it states";
    if (!key) return NULL;
    if (h.build != build_hash()) return "another build wrote it";
    if (memcmp(&h.key, key, sizeof *key) != 0) return "it has another key than is asked for";
    return NULL;
}

spyre_status sealed_file_make(content_key key, const void *content, size_t length, void **out_file,
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
