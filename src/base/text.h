// SPDX-License-Identifier: Apache-2.0
//
// A growing piece of text for printers and writers. Errors are sticky: when memory runs out, later
// appends do nothing and text_status() reports it once at the end.
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct {
    char *bytes;            // owned, null-terminated once anything was appended
    size_t length;          // without the terminator
    size_t capacity;
    bool failed;
} text;

// Start from `text t = {0};`. Frees the bytes.
void text_free(text *t);

void text_append(text *t, const char *string);
void text_append_bytes(text *t, const char *bytes, size_t length);
void text_printf(text *t, const char *format, ...) SPYRE_PRINTF(2, 3);
void text_vprintf(text *t, const char *format, va_list values) SPYRE_PRINTF(2, 0);

// The text so far, "" when empty.
const char *text_string(const text *t);

// An out-of-memory error when any append failed.
SPYRE_MUST_CHECK spyre_status text_status(const text *t);

// Hands the bytes, "" at least, to the caller, who frees them; on `status` or a failed append frees
// them and gives the error and null.
SPYRE_MUST_CHECK spyre_status text_give(text *t, spyre_status status, char **out_string);

bool text_ends_in(const char *string, const char *ending);

#endif
