// SPDX-License-Identifier: Apache-2.0
//
// What every unit test includes: cmocka, and assertions about statuses.
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

// The status is success; otherwise the test fails with its message.
#define assert_ok(expression) check_ok((expression), #expression, __FILE__, __LINE__)

// The status is an error of that code with that piece in its message; frees it.
#define assert_error(expression, code, piece) \
    check_error((expression), (code), (piece), #expression, __FILE__, __LINE__)

static inline void check_ok(spyre_status status, const char *text, const char *file, int line)
{
    if (!status) return;
    print_error("%s: %s\n", text, spyre_status_message(status));
    spyre_status_free(status);
    _fail(file, line);
}

static inline void check_error(spyre_status status, spyre_code code, const char *piece,
                               const char *text, const char *file, int line)
{
    bool good = spyre_status_code(status) == code && strstr(spyre_status_message(status), piece);
    if (!good) {
        print_error("%s: expected %s with \"%s\", got %s: \"%s\"\n", text, spyre_code_name(code),
                    piece, spyre_code_name(spyre_status_code(status)),
                    spyre_status_message(status));
    }
    spyre_status_free(status);
    if (!good) _fail(file, line);
}

// A small deterministic generator for property tests (xorshift64*).
static inline uint64_t check_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Dull;
}

#endif
