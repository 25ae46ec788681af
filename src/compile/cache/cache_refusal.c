// SPDX-License-Identifier: Apache-2.0
#include "compile/cache/cache_refusal.h"

#include <string.h>

#include "base/bytes.h"

// An executable begins with the length of a string.
#define REFUSAL UINT64_MAX

void cache_refusal_put(const char *subject, const char *reason, text *out)
{
    bytes_put_number(out, REFUSAL);
    bytes_put_string(out, subject);
    bytes_put_string(out, reason);
}

spyre_status cache_refusal_take(const uint8_t *bytes, size_t length, const char *subject,
                                const char **out_reason)
{
    bytes_reader from = {.bytes = bytes, .length = length};
    *out_reason = NULL;
    if (bytes_take_number(&from) != REFUSAL) return NULL;
    bool same = strcmp(bytes_take_string(&from), subject) == 0;
    const char *reason = bytes_take_string(&from);
    if (from.failed || from.at != length)
        return status_new(SPYRE_INVALID_FORMAT, "its length does not fit its content");
    if (!same)
        return status_new(SPYRE_INVALID_FORMAT, "it is of another graph or of other options");
    *out_reason = reason;
    return NULL;
}
