// SPDX-License-Identifier: Apache-2.0
#include "base/staging.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { DEEPEST = 8 };

// A link is removed, never followed.
static spyre_status remove_tree(arena *memory, const char *path, uint32_t depth)
{
    struct stat info;
    file_names names = {0};
    if (lstat(path, &info) != 0) return errno == ENOENT ? NULL : file_error("look at", path);
    if (!S_ISDIR(info.st_mode)) return file_remove(path);
    if (depth == DEEPEST) return status_new(SPYRE_IO, "%s: too deep to remove", path);
    TRY(file_list(memory, path, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *inner = file_join(memory, path, names.items[i]);
        TRY_ALLOC(inner);
        TRY(remove_tree(memory, inner, depth + 1));
    }
    return rmdir(path) == 0 ? NULL : file_error("remove", path);
}

// "<target>.<number>.<tail>", without slashes at the target's end; the number cannot be foreseen,
// so no other process has put a file or link there.
static const char *beside(arena *memory, const char *target, const char *tail)
{
    size_t length = strlen(target);
    while (length > 1 && target[length - 1] == '/') length--;
    return arena_printf(memory, "%.*s.%016" PRIx64 ".%s", (int)length, target, file_random(), tail);
}

spyre_status staging_begin(arena *memory, const char *target, staging *out_stage)
{
    const char *path = beside(memory, target, "new");
    TRY_ALLOC(path);
    if (file_exists(target) && !file_is_directory(target))
        return status_new(SPYRE_IO, "%s: exists and is no directory", target);
    TRY(file_make_directories_above(path));
    if (mkdir(path, 0777) != 0) return file_error("make directory", path);
    *out_stage = (staging){target, path};
    return NULL;
}

spyre_status staging_commit(arena *memory, const staging *stage)
{
    spyre_status status = NULL;
    const char *old = beside(memory, stage->target, "old");
    if (!old) {
        status = status_no_memory();
        goto done;
    }
    bool replaces = file_exists(stage->target);
    if (replaces && rename(stage->target, old) != 0) {
        status = file_error("replace", stage->target);
        goto done;
    }
    if (rename(stage->path, stage->target) != 0) {
        status = file_error("write", stage->target);
        if (replaces && rename(old, stage->target) != 0)
            status = status_at(status, "the old content is in %s", old);
        goto done;
    }
    return replaces ? remove_tree(memory, old, 0) : NULL;
done:
    staging_abort(memory, stage);
    return status;
}

void staging_abort(arena *memory, const staging *stage)
{
    spyre_status_free(remove_tree(memory, stage->path, 0));
}
