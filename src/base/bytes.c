// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <string.h>

static size_t padding_of(size_t length)
{
    return (BYTES_ALIGNMENT - length % BYTES_ALIGNMENT) % BYTES_ALIGNMENT;
}

void bytes_put(text *to, const void *bytes, size_t length)
{
    static const char zeros[BYTES_ALIGNMENT];
    if (length) text_append_bytes(to, bytes, length);
    text_append_bytes(to, zeros, padding_of(length));
}

void bytes_put_number(text *to, uint64_t value)
{
    bytes_put(to, &value, sizeof value);
}

void bytes_put_string(text *to, const char *string)
{
    size_t length = strlen(string);
    bytes_put_number(to, length);
    bytes_put(to, string, length + 1);
}

static const void *fail(bytes_reader *from)
{
    from->failed = true;
    return NULL;
}

const void *bytes_take(bytes_reader *from, uint64_t count, size_t item_bytes)
{
    size_t left = from->length - from->at;
    if (from->failed || (count && item_bytes > left / count)) return fail(from);
    size_t length = (size_t)count * item_bytes;
    if (padding_of(length) > left - length) return fail(from);
    const void *taken = from->bytes + from->at;
    from->at += length + padding_of(length);
    return taken;
}

uint64_t bytes_take_number(bytes_reader *from)
{
    const uint64_t *value = BYTES_TAKE(from, uint64_t, 1);
    return value ? *value : 0;
}

const char *bytes_take_string(bytes_reader *from)
{
    uint64_t length = bytes_take_number(from);
    const char *string = length < SIZE_MAX ? BYTES_TAKE(from, char, length + 1) : fail(from);
    if (string && memchr(string, 0, length + 1) == string + length) return string;
    fail(from);
    return "";
}
