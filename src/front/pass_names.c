// SPDX-License-Identifier: Apache-2.0
//
// Passes by name: stages of the loop IR, and the setting skip_passes, a comma list of passes that
// improve a plan and may be left out. The table has no functions, so that passes may ask here.
#include <string.h>

#include "front/front.h"

static const struct {
    const char *name;
    front_pass_kind kind;
} passes[] = {
#define PASS_ROW(name, kind, summary) {#name, FRONT_##kind},
#include "front/pass.def"
#undef PASS_ROW
};

const char *front_stage_name(uint32_t stage)
{
    return stage ? passes[stage - 1].name : "build";
}

// True when `name` is an entry of the comma list.
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    while (list && *list) {
        const char *end = strchr(list, ',');
        size_t entry = end ? (size_t)(end - list) : strlen(list);
        if (entry == length && memcmp(list, name, length) == 0) return true;
        list = end ? end + 1 : NULL;
    }
    return false;
}

spyre_status front_check_skips(const char *list)
{
    while (list && *list) {
        const char *end = strchr(list, ',');
        size_t entry = end ? (size_t)(end - list) : strlen(list);
        bool known = false;
        for (uint32_t i = 0; i < FRONT_PASS_COUNT; i++) {
            const char *name = passes[i].name;
            if (strlen(name) != entry || memcmp(name, list, entry) != 0) continue;
            known = true;
            if (passes[i].kind == FRONT_LOWER)
                return status_new(SPYRE_INVALID_ARGUMENT,
                                  "skip_passes: %s is needed for correctness", name);
        }
        if (!known)
            return status_new(SPYRE_INVALID_ARGUMENT, "skip_passes: no pass is named '%.*s'",
                              (int)entry, list);
        list = end ? end + 1 : NULL;
    }
    return NULL;
}

bool front_skips(const spyre_settings *settings, const char *pass)
{
    return listed(settings->skip_passes, pass);
}
