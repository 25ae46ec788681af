// SPDX-License-Identifier: Apache-2.0
#include "compile/cache/cache_directory.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <xxhash.h>

#include "base/file.h"
#include "compile/cache/cache_file.h"
#include "spyre/cache.h"

enum { STALE_SECONDS = 60 };    // a file is written in milliseconds; its writer is gone by then
enum { MANY_FILES = 4096 };     // of which a look at some of them tells how large all are

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

// The cache's files among these names, or the sample of them, least recently used first. What other
// processes remove meanwhile is left out.
static spyre_status look_at(arena *memory, const char *directory, const file_names *names,
                            bool sample, entry_list *out)
{
    *out = (entry_list){0};
    for (uint32_t i = 0; i < names->count; i++) {
        entry e = {.name = names->items[i]};
        struct stat about;
        if ((sample && e.name[0] != '0') || !is_ours(e.name, &e.temporary)) continue;
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

static spyre_status look(arena *memory, const char *directory, entry_list *out)
{
    file_names names = {0};
    if (file_exists(directory)) TRY(file_list(memory, directory, "", &names));
    return look_at(memory, directory, &names, false, out);
}

static int64_t total_of(const entry_list *entries)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < entries->count; i++) total += entries->items[i].bytes;
    return total;
}

// --- Making room

// What this process may write before it looks again, in the directory it looked at last.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t allowance;
static uint64_t looked_at;

static uint64_t identity(const cache_config *config)
{
    return XXH3_64bits_withSeed(config->directory, strlen(config->directory),
                                (uint64_t)config->limit_bytes);
}

// Names begin with hashes, so of many files those that begin with one of 16 digits are a fair
// sample: what it says, and a quarter more, is as good as a look at all, which takes 3 us a file.
static spyre_status estimate(arena *memory, const char *directory, const file_names *names,
                             int64_t *out_total)
{
    entry_list sample;
    TRY(look_at(memory, directory, names, true, &sample));
    *out_total = total_of(&sample) * 16 / 4 * 5;
    return NULL;
}

static spyre_status evict(const cache_config *config, int64_t bytes, int64_t *out_total,
                          int64_t *out_evictions)
{
    entry_list entries;
    file_names names = {0};
    spyre_status status = NULL;
    time_t now = time(NULL);
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    if (file_exists(config->directory))
        TRY_DONE(file_list(memory, config->directory, "", &names));
    if (names.count >= MANY_FILES) {
        TRY_DONE(estimate(memory, config->directory, &names, out_total));
        if (*out_total + bytes <= config->limit_bytes / 16 * 15) goto done;
    }
    TRY_DONE(look_at(memory, config->directory, &names, false, &entries));
    *out_total = total_of(&entries);
    bool full = *out_total + bytes > config->limit_bytes;
    int64_t wanted = config->limit_bytes - config->limit_bytes / 8;
    for (uint32_t i = 0; i < entries.count; i++) {
        const entry *e = &entries.items[i];
        bool stale = e->temporary && now - e->used_s > STALE_SECONDS;
        bool excess = !e->temporary && full && *out_total + bytes > wanted;
        if (!stale && !excess) continue;
        TRY_DONE(file_remove(e->path));
        *out_total -= e->bytes;
        *out_evictions += excess;
    }
done:
    arena_destroy(memory);
    return status;
}

spyre_status cache_directory_make_room(const cache_config *config, int64_t bytes,
                                       int64_t *out_evictions)
{
    *out_evictions = 0;
    if (bytes > config->limit_bytes)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "a program of %lld bytes, SPYRE_CACHE_SIZE allows %lld in all",
                          (long long)bytes, (long long)config->limit_bytes);
    spyre_status status = NULL;
    pthread_mutex_lock(&lock);
    if (looked_at != identity(config) || allowance < bytes) {
        int64_t total = 0;
        status = evict(config, bytes, &total, out_evictions);
        int64_t room = config->limit_bytes - total, share = config->limit_bytes / 16;
        allowance = status ? 0 : room < share ? room : share;
        looked_at = identity(config);
    }
    if (!status) allowance -= bytes;
    pthread_mutex_unlock(&lock);
    return status;
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
                          : cache_file_problem(bytes, length, NULL);
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
