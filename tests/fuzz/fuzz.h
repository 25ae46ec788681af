// SPDX-License-Identifier: Apache-2.0
//
// What every fuzz target includes. A target is one function that takes any bytes and fails by
// aborting; libFuzzer or driver.c calls it.
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

// Aborts unless `expression` holds.
#define FUZZ_HOLDS(expression)                                                             \
    do {                                                                                   \
        if (!(expression)) {                                                               \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #expression); \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

// True for success. An error must be one of bad input and one line; it is freed.
static inline bool fuzz_ok(spyre_status status)
{
    if (!status) return true;
    const char *message = spyre_status_message(status);
    spyre_code code = spyre_status_code(status);
    bool good = code != SPYRE_INTERNAL && code != SPYRE_OK && *message && !strchr(message, '\n');
    if (!good) fprintf(stderr, "%s: \"%s\"\n", spyre_code_name(code), message);
    FUZZ_HOLDS(good);
    spyre_status_free(status);
    return false;
}

// Must succeed.
static inline void fuzz_must(spyre_status status)
{
    if (status) fprintf(stderr, "%s\n", spyre_status_message(status));
    FUZZ_HOLDS(!status);
}

// The input as a string, in the arena.
static inline char *fuzz_string(arena *memory, const uint8_t *bytes, size_t count)
{
    char *copy = arena_strndup(memory, (const char *)bytes, count);
    FUZZ_HOLDS(copy);
    return copy;
}

#endif
