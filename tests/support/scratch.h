// SPDX-License-Identifier: Apache-2.0
//
// A new directory of a test's own, below $TMPDIR where that is set.
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>

enum { SCRATCH_BYTES = 256 };

// Writes its path; null when it cannot be made. The caller removes it.
static inline char *scratch_make(char path[SCRATCH_BYTES])
{
    const char *parent = getenv("TMPDIR");
    snprintf(path, SCRATCH_BYTES, "%s/spyre-test-XXXXXX", parent && *parent ? parent : "/tmp");
    return mkdtemp(path);
}

#endif
