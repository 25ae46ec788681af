// SPDX-License-Identifier: Apache-2.0
//
// Fields that steps and their tensors have in common: dims, formats, slices of cores.
#include <string.h>

#include "bundle/read.h"

spyre_status read_key_dim(const json_node *member, const bundle_step *step, uint8_t *out_dim)
{
    *out_dim = 0;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        *out_dim = (uint8_t)d;
        if (strcmp(step->dim_name[d], member->key) == 0) return NULL;
    }
    return json_error_at(member, "no dim of N_ has this name");
}

spyre_status read_dim(const json_node *name, const bundle_step *step, uint8_t *out_dim)
{
    const char *wanted;
    *out_dim = 0;
    TRY(json_as_string(name, &wanted));
    for (uint32_t d = 0; d < step->dim_count; d++) {
        *out_dim = (uint8_t)d;
        if (strcmp(step->dim_name[d], wanted) == 0) return NULL;
    }
    return json_error_at(name, "no dim of N_ is named \"%.20s\"", wanted);
}

spyre_status read_format(const json_node *object, const char *key, spyre_format *out_format)
{
    json_node member;
    const char *name;
    TRY(json_member(object, key, &member));
    TRY(json_as_string(&member, &name));
    *out_format = spyre_format_named(name);
    if (*out_format != SPYRE_FORMAT_INVALID) return NULL;
    return json_error_at(&member, "unknown data format \"%.20s\"", name);
}

bool read_names_dim(const bundle_step *step, const char *name)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (strcmp(step->dim_name[d], name) == 0) return true;
    }
    return false;
}

spyre_status read_core_slices(const json_node *all, const bundle_step *step, uint32_t core_count,
                              uint8_t (*out_core_slice)[BUNDLE_MAX_DIMS])
{
    json_node core_node, member;
    void *cursor = NULL, *dims;
    uint32_t seen = 0;
    while (json_next_member(all, &cursor, &core_node)) {
        int64_t core, slice;
        uint8_t d;
        TRY(json_key_decimal(&core_node, 0, core_count - 1, &core));
        TRY(json_expect_object(&core_node));
        seen |= 1u << core;
        dims = NULL;
        while (json_next_member(&core_node, &dims, &member)) {
            TRY(json_as_int(&member, 0, BUNDLE_MAX_CORES - 1, &slice));
            if (slice == 0 && !read_names_dim(step, member.key)) continue;
            TRY(read_key_dim(&member, step, &d));
            out_core_slice[core][d] = (uint8_t)slice;
        }
    }
    uint32_t all_cores = core_count == 32 ? UINT32_MAX : (1u << core_count) - 1u;
    if (seen == all_cores) return NULL;
    return json_error_at(all, "a core of %u is missing", core_count);
}

spyre_status read_fold_key(const json_node *member, uint32_t core_count, uint32_t *out_core)
{
    const char *first = strchr(member->key, ',');
    uint32_t count = first && !strchr(first + 1, ',') ? 2 : 3;
    int64_t key[3] = {0};
    TRY(json_key_coordinates(member, count, key));
    *out_core = (uint32_t)key[0];
    bool good = key[0] >= 0 && key[0] < core_count && (key[1] == 0 || key[1] == 1) && key[2] == 0;
    if (good) return NULL;
    return json_error_at(member, "core %lld, corelet %lld, time %lld of %u cores",
                         (long long)key[0], (long long)key[1], (long long)key[2], core_count);
}

bool read_is_const(const json_node *fold)
{
    json_node functions;
    if (!json_find(fold, "dim_prop_func", &functions)) return false;
    const json_t *core = json_array_get(functions.value, 0);
    return json_is_object(core) && json_object_get(core, "Const");
}
