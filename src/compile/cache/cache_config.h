// SPDX-License-Identifier: Apache-2.0
//
// What the environment says about the compile cache.
#ifndef COMPILE_CACHE_CONFIG_H
#define COMPILE_CACHE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct {
    bool enabled;
    const char *directory;      // null: no files
    int64_t limit_bytes;
} cache_config;

// Read anew on each call, so that a process may change its mind. A wrong value is warned about once
// and counts as not set.
SPYRE_MUST_CHECK spyre_status cache_config_read(arena *memory, cache_config *out_config);

// "64M" -> 67108864; false for anything that is no size of at least 1K.
bool cache_config_parse_size(const char *value, int64_t *out_bytes);

#endif
