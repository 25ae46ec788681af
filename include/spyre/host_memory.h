// SPDX-License-Identifier: Apache-2.0
//
// Host memory for transfers: whole pages, locked in memory where the host allows it (mlock(2),
// RLIMIT_MEMLOCK). Transfers of this stack take any memory; a card that reads host memory by itself
// would need it locked. Freed blocks are kept for requests of up to half their size more or less.
// Thread safe; one pool a process.
#ifndef SPYRE_HOST_MEMORY_H
#define SPYRE_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// `bytes` (0 give a page), with any contents, until spyre_host_free(); null without memory.
// The first block that cannot be locked is a warning; it serves all the same.
SPYRE_API void *spyre_host_allocate(size_t bytes);

// Takes null, too.
SPYRE_API void spyre_host_free(void *block);

// Whether the pointer is into a block in use that is locked.
SPYRE_API bool spyre_host_is_pinned(const void *pointer);

// Gives freed blocks back.
SPYRE_API void spyre_host_empty_cache(void);

// Blocks and bytes of blocks in use, freed blocks that are kept, and how often one of them served.
typedef struct {
    size_t blocks, bytes, locked_bytes, kept_blocks, kept_bytes, reused;
} spyre_host_statistics;
SPYRE_API spyre_host_statistics spyre_host_read_statistics(void);

#ifdef __cplusplus
}
#endif
#endif
