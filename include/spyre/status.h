// SPDX-License-Identifier: Apache-2.0
//
// What a fallible function returns. A status is one pointer: null is success, anything else is an
// error object with a code and a one-line message. The receiver owns it and frees it once.
//
// Thread rule: a status may move between threads; it is not shared by two at a time.
#ifndef SPYRE_STATUS_H
#define SPYRE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SPYRE_MUST_CHECK __attribute__((warn_unused_result))
#define SPYRE_PRINTF(format_at, values_at) __attribute__((format(printf, format_at, values_at)))
#define SPYRE_API __attribute__((visibility("default")))
#else
#define SPYRE_MUST_CHECK
#define SPYRE_PRINTF(format_at, values_at)
#define SPYRE_API
#endif

typedef enum {
    SPYRE_OK = 0,
#define SPYRE_STATUS_ROW(code, name, meaning) SPYRE_##code,
#include "spyre/status.def"
#undef SPYRE_STATUS_ROW
} spyre_code;

typedef struct spyre_status_object *spyre_status;

// Code of a status; SPYRE_OK for null.
SPYRE_API spyre_code spyre_status_code(spyre_status status);

// One line without a newline, owned by the status; "ok" for null.
SPYRE_API const char *spyre_status_message(spyre_status status);

// The code's name in words, a static string.
SPYRE_API const char *spyre_code_name(spyre_code code);

// Frees the status; null is allowed.
SPYRE_API void spyre_status_free(spyre_status status);

#ifdef __cplusplus
}
#endif
#endif
