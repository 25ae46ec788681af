// SPDX-License-Identifier: Apache-2.0
//
// Inputs that are several files: each begins with a line "%%file NAME".
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H


#include <unistd.h>

#include "base/file.h"
#include "fuzz/fuzz.h"

// A directory of the process's own, made once.
static inline const char *fuzz_directory(void)
{
    static char path[64];
    if (!*path) {
        const char *memory_backed = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(path, sizeof path, "%s/spyre_fuzz_XXXXXX", memory_backed);
        FUZZ_HOLDS(mkdtemp(path));
    }
    return path;
}

// Removes what a run has left in `path`, two levels of files at most, and `path` itself.
static inline void fuzz_remove(arena *memory, const char *path)
{
    file_names names = {0};
    if (fuzz_ok(file_list(memory, path, "", &names))) {
        for (uint32_t i = 0; i < names.count; i++) {
            const char *inner = file_join(memory, path, names.items[i]);
            if (unlink(inner) != 0) fuzz_remove(memory, inner);
        }
    }
    rmdir(path);
}

// True for a name that stays in its directory.
static inline bool fuzz_plain_name(const char *name, size_t length)
{
    if (length == 0 || length > 40 || *name == '.') return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] == '/' || name[i] == '\0') return false;
    return true;
}

// Writes the files of an input into `directory`. The line end before a mark belongs to the mark.
static inline void fuzz_unpack(arena *memory, const char *directory, const uint8_t *bytes,
                               size_t count)
{
    static const char mark[] = "\n%%file ";
    const size_t length = sizeof mark - 1;
    const char *at = (const char *)bytes, *end = at + count;
    if (count < length || memcmp(at, mark + 1, length - 1) != 0) return;
    at += length - 1;
    while (at) {
        const char *name = at, *body = memchr(at, '\n', (size_t)(end - at));
        if (!body) return;
        const char *next = memmem(body, (size_t)(end - body), mark, length);
        size_t name_length = (size_t)(body - name);
        size_t body_length = (size_t)((next ? next : end) - body);
        if (body_length) body++, body_length--;
        if (fuzz_plain_name(name, name_length)) {
            const char *path =
                file_join(memory, directory, arena_strndup(memory, name, name_length));
            FILE *file = fopen(path, "wb");
            if (file) {
                fwrite(body, 1, body_length, file);
                fclose(file);
            }
        }
        at = next ? next + length : NULL;
    }
}

#endif
