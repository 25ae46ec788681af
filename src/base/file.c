// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
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

// --- Members of a directory

static spyre_status refuse_member(const char *directory, const char *name, const char *why)
{
    return status_new(SPYRE_INVALID_FORMAT, "%s: member '%s' %s", directory, name, why);
}

static spyre_status check_member_name(const char *directory, const char *name)
{
    if (*name == '/') return refuse_member(directory, name, "must not be an absolute path");
    for (const char *part = name;; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.'))
            return refuse_member(directory, name, "has an empty part");
        if (length == 2 && part[0] == '.' && part[1] == '.')
            return refuse_member(directory, name, "must not lead out of the directory");
        part += length;
        if (!*part) return NULL;
    }
}

// Opens one part of a name below `at`. What is no regular file is not opened at all: opening a
// device can already do something.
static spyre_status open_part(int at, const char *part, bool last, const char *path, int *out)
{
    struct stat about;
    if (fstatat(at, part, &about, AT_SYMLINK_NOFOLLOW) != 0) return file_error("open", path);
    if (S_ISLNK(about.st_mode))
        return status_new(SPYRE_INVALID_FORMAT, "%s: is, or lies behind, a symbolic link", path);
    if (last && !S_ISREG(about.st_mode))
        return status_new(SPYRE_INVALID_FORMAT, "%s: not a regular file", path);
    int kind = last ? O_NONBLOCK | O_NOCTTY : O_DIRECTORY;
    *out = openat(at, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind);
    return *out < 0 ? file_error("open", path) : NULL;
}

// Goes down `parts`, which this cuts at its slashes. Takes `at` and gives the last part opened.
static spyre_status open_member(int at, char *parts, const char *path, int *out)
{
    for (char *rest = parts; rest;) {
        const char *part = strsep(&rest, "/");
        int next = -1;
        spyre_status status = open_part(at, part, !rest, path, &next);
        close(at);
        TRY(status);
        at = next;
    }
    *out = at;
    return NULL;
}

spyre_status file_read_member(arena *memory, const char *directory, const char *name,
                              size_t limit_bytes, char **out_bytes, size_t *out_length)
{
    TRY(check_member_name(directory, name));
    const char *path = file_join(memory, directory, name);
    char *parts = arena_strdup(memory, name);
    TRY_ALLOC(path);
    TRY_ALLOC(parts);
    int member, at = open(*directory ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return file_error("open", path);
    TRY(open_member(at, parts, path, &member));
    spyre_status status = read_open(memory, member, path, limit_bytes, out_bytes, out_length);
    close(member);
    return status;
}

// --- Writing

uint64_t file_random(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number) return number;
    struct timespec now;        // no system since Linux 3.17 comes here
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)&now;
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
// characters than the path. No other process can foresee the name and put a file or link there.
static int create_temporary(const char *path, char *temporary, size_t capacity)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(temporary, capacity, "%s.%016" PRIx64 ".new", path, file_random());
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

spyre_status file_make_directories_above(const char *path)
{
    spyre_status status = NULL;
    char *copy = strdup(path);
    TRY_ALLOC(copy);
    for (char *slash = *copy ? copy + 1 : copy; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        TRY_DONE(make_one(copy));
        *slash = '/';
    }
done:
    free(copy);
    return status;
}

spyre_status file_make_directories(const char *path)
{
    if (!*path) return NULL;
    TRY(file_make_directories_above(path));
    return make_one(path);
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
