// SPDX-License-Identifier: Apache-2.0
//
// Kernels of tests/golden/ktir.
#ifndef TESTS_KTIR_GOLDEN_KERNEL_H
#define TESTS_KTIR_GOLDEN_KERNEL_H

#include "unit/check.h"

#include "base/file.h"
#include "spyre/ktir.h"

#define GOLDEN SPYRE_TESTS_DIR "/golden/ktir/"

// The module of a file, which the caller frees.
static inline spyre_ktir *golden_kernel(const char *name)
{
    enum { LIMIT_BYTES = 1 << 20 };
    arena *memory = arena_create();
    char *source;
    size_t length;
    spyre_ktir *kernel;
    assert_ok(file_read(memory, arena_printf(memory, GOLDEN "%s", name), LIMIT_BYTES, &source,
                        &length));
    assert_ok(spyre_ktir_parse(source, name, &kernel));
    arena_destroy(memory);
    return kernel;
}

#endif
