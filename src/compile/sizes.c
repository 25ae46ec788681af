// SPDX-License-Identifier: Apache-2.0
#include "compile/sizes.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"

int32_t sizes_asked(const bundle *b, const bundle_tensor *t)
{
    bool asks = t->index_kind == BUNDLE_INDEX_VALUE && t->indexed_extent == 0 && t->arg >= 0;
    return asks && b->args.items[t->arg].bytes == 0 ? t->arg : -1;
}

bool sizes_missing(const bundle *b)
{
    for (uint32_t s = 0; s < b->steps.count; s++)
        for (uint32_t t = 0; t < b->steps.items[s].tensor_count; t++)
            if (sizes_asked(b, &b->steps.items[s].tensors[t]) >= 0) return true;
    return false;
}

void sizes_set(bundle *b, const int64_t *bytes)
{
    for (uint32_t s = 0; s < b->steps.count; s++)
        for (uint32_t t = 0; t < b->steps.items[s].tensor_count; t++) {
            int32_t argument = sizes_asked(b, &b->steps.items[s].tensors[t]);
            if (argument >= 0) b->args.items[argument].bytes = bytes[argument];
        }
}

const char *sizes_folder(bool pool_first)
{
    return pool_first ? "bundle_with_pool" : "bundle";
}

spyre_status sizes_copy_files(arena *memory, const char *from, const char *to)
{
    file_names names;
    TRY(file_list(memory, from, "", &names));
    TRY(file_make_directories(to));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *name = names.items[i], *end = strrchr(name, '.');
        char *bytes;
        size_t length;
        if (!end || (strcmp(end, ".json") != 0 && strcmp(end, ".mlir") != 0)) continue;
        TRY(file_read_member(memory, from, name, JSON_LIMIT_BYTES, &bytes, &length));
        const char *path = file_join(memory, to, name);
        TRY_ALLOC(path);
        TRY(file_write(path, bytes, length));
    }
    return NULL;
}
