// SPDX-License-Identifier: Apache-2.0
#include "compile/cache/cache_directory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "compile/files/sealed_file.h"
#include "spyre/cache.h"

enum { STALE_SECONDS = 60 };    // a file is written in milliseconds; its writer is gone by then
enum { LOOKS_PER_LIMIT = 256 }; // while files of the limit's bytes are written

typedef struct {
    const char *name, *path;
    int64_t bytes, used_s, used_ns;
    bool temporary;             // of a writer under way, or one that died
} entry;
typedef VEC(entry) entry_list;

// --- Looking

// The key in hexadecimal and the suffix, then nothing, or what file_write() adds while it writes.
static bool is_ours(const char *name, bool *out_temporary)
{
    for (int i = 0; i < CACHE_KEY_DIGITS; i++)
        if (!isdigit((unsigned char)name[i]) && !(name[i] >= 'a' && name[i] <= 'f')) return false;
    const char *tail = name + CACHE_KEY_DIGITS;
    if (strncmp(tail, CACHE_SUFFIX, sizeof CACHE_SUFFIX - 1) != 0) return false;
    tail += sizeof CACHE_SUFFIX - 1;
    size_t length = strlen(tail);
    *out_temporary = length > 0;
    if (!*out_temporary) return true;
    return *tail == '.' && length > 4 && strcmp(tail + length - 4, ".new") == 0;
}

static int compare_use(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->used_s != y->used_s) return x->used_s < y->used_s ? -1 : 1;
    if (x->used_ns != y->used_ns) return x->used_ns < y->used_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

// The cache's files, least recently used first. What other processes remove meanwhile is left out.
static spyre_status look(arena *memory, const char *directory, entry_list *out)
{
    file_names names = {0};
    *out = (entry_list){0};
    if (file_exists(directory)) TRY(file_list(memory, directory, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        entry e = {.name = names.items[i]};
        struct stat about;
        if (!is_ours(e.name, &e.temporary)) continue;
        e.path = file_join(memory, directory, e.name);
        TRY_ALLOC(e.path);
        if (lstat(e.path, &about) != 0 || !S_ISREG(about.st_mode)) continue;
        e.bytes = about.st_size;
        e.used_s = about.st_mtim.tv_sec;
        e.used_ns = about.st_mtim.tv_nsec;
        TRY(VEC_PUSH(memory, out, e));
    }
    if (out->count) qsort(out->items, out->count, sizeof *out->items, compare_use);
    return NULL;
}

static int64_t total_of(const entry_list *entries)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < entries->count; i++) total += entries->items[i].bytes;
    return total;
}

// --- Making room

// A look takes 4 us a file, so not every write looks. No process knows what others write: each
// write looks with the probability of its bytes among those between two looks, and as keys are
// hashes, the key is the dice. Files exceed the limit by n / LOOKS_PER_LIMIT of it once in e^n.
static bool is_to_look(const cache_config *config, content_key key, int64_t bytes)
{
    int64_t between = config->limit_bytes / LOOKS_PER_LIMIT;
    return bytes >= between || (int64_t)(key.low % (uint64_t)between) < bytes;
}

static spyre_status evict(const cache_config *config, int64_t bytes, int64_t *out_evictions)
{
    entry_list entries;
    spyre_status status = NULL;
    time_t now = time(NULL);
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    TRY_DONE(look(memory, config->directory, &entries));
    int64_t total = total_of(&entries), wanted = config->limit_bytes - config->limit_bytes / 8;
    bool full = total + bytes > config->limit_bytes;
    for (uint32_t i = 0; i < entries.count; i++) {
        const entry *e = &entries.items[i];
        bool stale = e->temporary && now - e->used_s > STALE_SECONDS;
        bool excess = !e->temporary && full && total + bytes > wanted;
        if (!stale && !excess) continue;
        TRY_DONE(file_remove(e->path));
        total -= e->bytes;
        *out_evictions += excess;
    }
done:
    arena_destroy(memory);
    return status;
}

spyre_status cache_directory_make_room(const cache_config *config, content_key key, int64_t bytes,
                                       int64_t *out_evictions)
{
    *out_evictions = 0;
    if (bytes > config->limit_bytes)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "a program of %lld bytes, SPYRE_CACHE_SIZE allows %lld in all",
                          (long long)bytes, (long long)config->limit_bytes);
    return is_to_look(config, key, bytes) ? evict(config, bytes, out_evictions) : NULL;
}

// --- The public view

typedef struct {
    spyre_cache_listing listing;        // first: what the caller has is a pointer to it
    arena *memory;
} owned_listing;

static spyre_status verify_file(const entry *e, const cache_config *config, arena *memory,
                                const char **out_problem)
{
    char *bytes;
    size_t length;
    arena *content = arena_create();
    TRY_ALLOC(content);
    spyre_status status =
        file_read_member(
        content, config->directory, e->name, (size_t)config->limit_bytes, &bytes, &length);
    *out_problem = status ? arena_strdup(memory, spyre_status_message(status))
                          : sealed_file_refusal(bytes, length, NULL);
    bool failed = status && !*out_problem;
    spyre_status_free(status);
    arena_destroy(content);
    return failed ? status_no_memory() : NULL;
}

static spyre_status fill_listing(arena *memory, bool verify, spyre_cache_listing *out)
{
    cache_config config;
    entry_list entries;
    TRY(cache_config_read(memory, &config));
    out->directory = config.directory;
    out->limit_bytes = config.limit_bytes;
    if (!config.directory) return NULL;
    TRY(look(memory, config.directory, &entries));
    spyre_cache_file *files = ARENA_NEW(memory, spyre_cache_file, entries.count);
    TRY_ALLOC(files);
    for (uint32_t i = 0; i < entries.count; i++) {
        const entry *e = &entries.items[i];
        files[i] = (spyre_cache_file){e->name, e->bytes, e->used_s, NULL};
        if (verify && e->temporary)
            files[i].problem = "its writer has not finished";
        else if (verify)
            TRY(verify_file(e, &config, memory, &files[i].problem));
    }
    out->total_bytes = total_of(&entries);
    out->file_count = entries.count;
    out->files = files;
    return NULL;
}

spyre_status spyre_cache_list(bool verify, spyre_cache_listing **out_listing)
{
    *out_listing = NULL;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    owned_listing *owned = ARENA_NEW(memory, owned_listing, 1);
    spyre_status status =
        owned ? fill_listing(memory, verify, &owned->listing) : status_no_memory();
    if (status) {
        arena_destroy(memory);
        return status;
    }
    owned->memory = memory;
    *out_listing = &owned->listing;
    return NULL;
}

void spyre_cache_listing_free(spyre_cache_listing *listing)
{
    if (listing) arena_destroy(((owned_listing *)(void *)listing)->memory);
}

spyre_status spyre_cache_clear(uint32_t *out_files, int64_t *out_bytes)
{
    cache_config config;
    entry_list entries = {0};
    spyre_status status = NULL;
    *out_files = 0;
    *out_bytes = 0;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    TRY_DONE(cache_config_read(memory, &config));
    if (config.directory) TRY_DONE(look(memory, config.directory, &entries));
    for (uint32_t i = 0; i < entries.count; i++) {
        TRY_DONE(file_remove(entries.items[i].path));
        *out_files += 1;
        *out_bytes += entries.items[i].bytes;
    }
done:
    arena_destroy(memory);
    return status;
}
