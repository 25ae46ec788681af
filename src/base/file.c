// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

enum { TEMPORARY_TAIL = 48 };

spyre_status file_error(const char *what, const char *path)
{
    spyre_code code = errno == ENOENT || errno == ENOTDIR ? SPYRE_NOT_FOUND : SPYRE_IO;
    return status_new(code, "%s: cannot %s: %s", path, what, strerror(errno));
}

// Reads `length` bytes; fewer when the file ends before that.
static spyre_status read_all(int descriptor, const char *path, char *bytes, size_t length,
                             size_t *out_read)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = read(descriptor, bytes + done, length - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return file_error("read", path);
        if (got == 0) break;
        done += (size_t)got;
    }
    *out_read = done;
    return NULL;
}

static spyre_status read_open(arena *memory, int descriptor, const char *path, size_t limit_bytes,
                              char **out_bytes, size_t *out_length)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return file_error("read", path);
    if (!S_ISREG(about.st_mode)) return status_new(SPYRE_IO, "%s: not a regular file", path);
    size_t length = (size_t)about.st_size;
    if (length > limit_bytes) {
        return status_new(SPYRE_INVALID_FORMAT, "%s: %zu bytes, at most %zu are read", path, length,
                          limit_bytes);
    }
    char *bytes = arena_alloc(memory, length + 1);
    TRY_ALLOC(bytes);
    TRY(read_all(descriptor, path, bytes, length, out_length));
    *out_bytes = bytes;
    return NULL;
}

spyre_status file_read(arena *memory, const char *path, size_t limit_bytes, char **out_bytes,
                       size_t *out_length)
{
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);     // a pipe would wait
    if (descriptor < 0) return file_error("open", path);
    spyre_status status =
        read_open(memory, descriptor, path, limit_bytes, out_bytes, out_length);
    close(descriptor);
    return status;
}

static spyre_status write_all(int descriptor, const char *path, const char *bytes, size_t length)
{
    while (length) {
        ssize_t put = write(descriptor, bytes, length);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return file_error("write", path);
        bytes += put;
        length -= (size_t)put;
    }
    return NULL;
}

// A new file beside `path`; its name goes to `temporary`, which has room for TEMPORARY_TAIL more
// characters than the path. The process id and a count keep writers apart.
static int create_temporary(const char *path, char *temporary, size_t capacity)
{
    static atomic_uint serial;
    for (int attempt = 0; attempt < 100; attempt++) {
        unsigned number = atomic_fetch_add(&serial, 1);
        snprintf(temporary, capacity, "%s.%ld-%u.new", path, (long)getpid(), number);
        int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

spyre_status file_write(const char *path, const void *bytes, size_t length)
{
    spyre_status status = NULL;
    size_t capacity = strlen(path) + TEMPORARY_TAIL;
    char *temporary = malloc(capacity);
    TRY_ALLOC(temporary);
    int descriptor = create_temporary(path, temporary, capacity);
    if (descriptor < 0) {
        status = file_error("write", path);
        goto done;
    }
    status = write_all(descriptor, path, bytes, length);
    if (close(descriptor) != 0 && !status) status = file_error("write", path);
    if (!status && rename(temporary, path) != 0) status = file_error("replace", path);
    if (status) unlink(temporary);
done:
    free(temporary);
    return status;
}

// EEXIST is success only for a directory (or a link to one).
static spyre_status make_one(const char *path)
{
    if (mkdir(path, 0777) == 0) return NULL;
    if (errno == EEXIST && file_is_directory(path)) return NULL;
    return file_error("make directory", path);
}

spyre_status file_make_directories(const char *path)
{
    if (!*path) return NULL;
    spyre_status status = NULL;
    char *copy = strdup(path);
    TRY_ALLOC(copy);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        TRY_DONE(make_one(copy));
        *slash = '/';
    }
    TRY_DONE(make_one(copy));
done:
    free(copy);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

spyre_status file_list(arena *memory, const char *directory, const char *suffix,
                       file_names *out_names)
{
    spyre_status status = NULL;
    *out_names = (file_names){0};
    DIR *open_directory = opendir(directory);
    if (!open_directory) return file_error("list", directory);
    for (const struct dirent *entry; errno = 0, (entry = readdir(open_directory));) {
        const char *name = entry->d_name;
        bool itself = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
        if (itself || !text_ends_in(name, suffix)) continue;
        const char *copy = arena_strdup(memory, name);
        TRY_DONE(copy ? NULL : status_no_memory());
        TRY_DONE(VEC_PUSH(memory, out_names, copy));
    }
    TRY_DONE(errno ? file_error("list", directory) : NULL);
    if (out_names->count)
        qsort(out_names->items, out_names->count, sizeof *out_names->items, compare_names);
done:
    closedir(open_directory);
    return status;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_is_directory(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

spyre_status file_remove(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT) return NULL;
    return file_error("remove", path);
}

char *file_join(arena *memory, const char *directory, const char *name)
{
    size_t length = strlen(directory);
    if (!length) return arena_strdup(memory, name);
    return arena_printf(memory, "%s%s%s", directory, directory[length - 1] == '/' ? "" : "/", name);
}
