// SPDX-License-Identifier: Apache-2.0
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPORARY_TAIL = 48, MOST_ATTEMPTS = 100 };

// Access rights as open() gives them to a new file.
enum { RIGHTS = 0777, NEW_RIGHTS = 0666 };

static int create_beside(output_file *file)
{
    size_t capacity = strlen(file->target) + TEMPORARY_TAIL;
    file->temporary = malloc(capacity);
    if (!file->temporary) return -1;
    int descriptor = -1;
    for (int n = 0; n < MOST_ATTEMPTS && descriptor < 0; n++) {
        uint64_t name;
        if (getentropy(&name, sizeof name) != 0) break;
        snprintf(file->temporary, capacity, "%s.%016" PRIx64 ".new", file->target, name);
        descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, NEW_RIGHTS);
        if (descriptor < 0 && errno != EEXIST) break;
    }
    if (descriptor < 0) {
        int reason = errno;
        free(file->temporary);
        file->temporary = NULL;
        errno = reason;
    }
    return descriptor;
}

static int open_target(output_file *file)
{
    struct stat about;
    bool exists = stat(file->target, &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) return open(file->target, O_WRONLY | O_CLOEXEC);
    if (exists && access(file->target, W_OK) != 0) return -1;
    int descriptor = create_beside(file);
    if (descriptor >= 0) {
        // Where the rights cannot be kept, the new file has the usual ones.
        if (exists && fchmod(descriptor, about.st_mode & RIGHTS) != 0) errno = 0;
        return descriptor;
    }
    if (!exists || errno != EACCES) return -1;
    return open(file->target, O_WRONLY | O_TRUNC | O_CLOEXEC);
}

static void forget(output_file *file)
{
    int reason = errno;
    free(file->temporary);
    free(file->target);
    *file = (output_file){0};
    errno = reason;
}

bool output_file_open(const char *path, output_file *out_file)
{
    *out_file = (output_file){.target = realpath(path, NULL)};
    if (!out_file->target) out_file->target = strdup(path);
    int descriptor = out_file->target ? open_target(out_file) : -1;
    if (descriptor >= 0) out_file->stream = fdopen(descriptor, "wb");
    if (out_file->stream) return true;
    int reason = errno;
    if (descriptor >= 0) close(descriptor);
    if (out_file->temporary) unlink(out_file->temporary);
    errno = reason;
    forget(out_file);
    return false;
}

bool output_file_close(output_file *file, bool good)
{
    int reason = good ? 0 : errno;
    if (fclose(file->stream) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (good && file->temporary) {
        good = rename(file->temporary, file->target) == 0;
        reason = good ? 0 : errno;
    }
    if (!good && file->temporary) unlink(file->temporary);
    errno = reason;
    forget(file);
    return good;
}
