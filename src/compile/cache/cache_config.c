// SPDX-License-Identifier: Apache-2.0
#include "compile/cache/cache_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/variable.h"

enum { LEAST_BYTES = 1 << 10 };
static const int64_t STANDARD_BYTES = 1 << 30;

bool cache_config_parse_size(const char *value, int64_t *out_bytes)
{
    static const char units[] = "KMGT";
    char *end;
    if (!isdigit((unsigned char)*value)) return false;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno) return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) end++;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (*end || number > INT64_MAX >> shift || number << shift < LEAST_BYTES) return false;
    *out_bytes = (int64_t)number << shift;
    return true;
}

static bool read_switch(void)
{
    static atomic_bool warned;
    const char *value = variable_text("SPYRE_CACHE");
    if (!value) { // PyTorch's switch of all caches holds for this one, too
        const char *disabled = variable_text("TORCHINDUCTOR_FORCE_DISABLE_CACHES");
        return !disabled || strcmp(disabled, "1") != 0;
    }
    if (strcmp(value, "1") == 0) return true;
    if (strcmp(value, "0") == 0) return false;
    if (!atomic_exchange(&warned, true))
        log_warn("SPYRE_CACHE='%s' is neither 0 nor 1: taken as 1", value);
    return true;
}

static int64_t read_limit(void)
{
    static atomic_bool warned;
    int64_t bytes;
    const char *value = variable_text("SPYRE_CACHE_SIZE");
    if (!value) return STANDARD_BYTES;
    if (cache_config_parse_size(value, &bytes)) return bytes;
    if (!atomic_exchange(&warned, true))
        log_warn("SPYRE_CACHE_SIZE='%s' is no size of at least 1K (a number, with K, M, G or T "
                 "behind it or not): taken as 1G", value);
    return STANDARD_BYTES;
}

// The XDG base directory specification: a relative path in its variable counts as not set.
static spyre_status read_directory(arena *memory, const char **out_directory)
{
    const char *own = variable_text("SPYRE_CACHE_DIR");
    const char *caches = variable_text("XDG_CACHE_HOME");
    const char *home = variable_text("HOME");
    *out_directory = NULL;
    if (own)
        *out_directory = arena_strdup(memory, own);
    else if (caches && *caches == '/')
        *out_directory = file_join(memory, caches, "spyre");
    else if (home && *home == '/')
        *out_directory = file_join(memory, home, ".cache/spyre");
    else
        return NULL;
    return *out_directory ? NULL : status_no_memory();
}

spyre_status cache_config_read(arena *memory, cache_config *out_config)
{
    *out_config = (cache_config){.enabled = read_switch(), .limit_bytes = read_limit()};
    return out_config->enabled ? read_directory(memory, &out_config->directory) : NULL;
}
