// SPDX-License-Identifier: Apache-2.0
//
// Directories that others see complete or not at all: everything is written into a directory beside
// the target, which takes the target's name at the end.
#ifndef BASE_STAGING_H
#define BASE_STAGING_H

#include "base/arena.h"

typedef struct {
    const char *target;
    const char *path;       // write here
    const char *replaced;   // what stood at the target while it is being replaced
} staging;

// Makes the directory to write into, and the missing ones above it.
SPYRE_MUST_CHECK spyre_status staging_begin(arena *memory, const char *target, staging *out_stage);

// Takes the place of the target. What stood there is removed: a directory of files and directories
// of such. On an error the old target stays and the new one is removed, unless all that failed is
// removing the old one, which then lies beside the target.
SPYRE_MUST_CHECK spyre_status staging_commit(const staging *stage);

// Removes what has been written so far.
void staging_abort(const staging *stage);

#endif
