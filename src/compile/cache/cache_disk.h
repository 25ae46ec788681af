// SPDX-License-Identifier: Apache-2.0
//
// The cache's files: reading, writing, removing. `memory` is for paths.
#ifndef COMPILE_CACHE_DISK_H
#define COMPILE_CACHE_DISK_H

#include "base/arena.h"
#include "compile/cache/cache_config.h"
#include "compile/files/sealed_file.h"

// The content stored under a key, aligned to 16 in `memory`; null when there is none. An unusable
// file is SPYRE_INVALID_FORMAT with what is wrong; the caller removes it.
SPYRE_MUST_CHECK spyre_status cache_disk_read(arena *memory, const cache_config *config,
                                              content_key key, const uint8_t **out_content,
                                              size_t *out_length);

// Makes room, then writes. *out_evictions files went for it.
SPYRE_MUST_CHECK spyre_status cache_disk_write(arena *memory, const cache_config *config,
                                               content_key key, const void *content, size_t length,
                                               int64_t *out_evictions);

SPYRE_MUST_CHECK spyre_status cache_disk_remove(arena *memory, const cache_config *config,
                                                content_key key);

#endif
