// SPDX-License-Identifier: Apache-2.0
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700       // nftw
#endif
#include "base/staging.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

// Contents first; a link is removed, never followed. Takes no memory of an arena, so that what has
// to go goes when memory is short, too.
static spyre_status remove_tree(const char *path)
{
    enum { OPEN_DIRECTORIES = 8 };
    if (nftw(path, remove_entry, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
        return NULL;
    return file_error("remove", path);
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
    staging stage = {target, beside(memory, target, "new"), beside(memory, target, "old")};
    if (!stage.path || !stage.replaced) return status_no_memory();
    if (file_exists(target) && !file_is_directory(target))
        return status_new(SPYRE_IO, "%s: exists and is no directory", target);
    TRY(file_make_directories_above(stage.path));
    if (mkdir(stage.path, 0777) != 0) return file_error("make directory", stage.path);
    *out_stage = stage;
    return NULL;
}

spyre_status staging_commit(const staging *stage)
{
    spyre_status status = NULL;
    bool replaces = file_exists(stage->target);
    if (replaces && rename(stage->target, stage->replaced) != 0) {
        status = file_error("replace", stage->target);
        goto done;
    }
    if (rename(stage->path, stage->target) != 0) {
        status = file_error("write", stage->target);
        if (replaces && rename(stage->replaced, stage->target) != 0)
            status = status_at(status, "the old content is in %s", stage->replaced);
        goto done;
    }
    return replaces ? remove_tree(stage->replaced) : NULL;
done:
    staging_abort(stage);
    return status;
}

void staging_abort(const staging *stage)
{
    spyre_status_free(remove_tree(stage->path));
}
