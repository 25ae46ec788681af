// SPDX-License-Identifier: Apache-2.0
//
// Kernels of tests/golden/ktir, and what is expected of kernels as text.
#ifndef TESTS_KTIR_GOLDEN_KERNEL_H
#define TESTS_KTIR_GOLDEN_KERNEL_H

#include "unit/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "spyre/ktir.h"

#define GOLDEN SPYRE_TESTS_DIR "/golden/ktir/"

static inline char *read_file(arena *memory, const char *path, size_t *out_length)
{
    enum { LIMIT_BYTES = 1 << 20 };
    char *content;
    assert_ok(file_read(memory, path, LIMIT_BYTES, &content, out_length));
    return content;
}

// The file has this text (SPYRE_BLESS=1 writes it).
static inline void check_text(const char *path, const char *text, const char *name)
{
    if (getenv("SPYRE_BLESS")) assert_ok(file_write(path, text, strlen(text)));
    arena *memory = arena_create();
    size_t length;
    const char *expected = read_file(memory, path, &length);
    if (strcmp(text, expected) != 0) print_error("%s\n", name);
    assert_string_equal(text, expected);
    arena_destroy(memory);
}

// The module of a file, which the caller frees.
static inline spyre_ktir *golden_kernel(const char *name)
{
    arena *memory = arena_create();
    size_t length;
    spyre_ktir *kernel;
    const char *source = read_file(memory, arena_printf(memory, GOLDEN "%s", name), &length);
    assert_ok(spyre_ktir_parse(source, name, &kernel));
    arena_destroy(memory);
    return kernel;
}

#endif
