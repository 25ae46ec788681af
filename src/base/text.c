// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_free(text *t)
{
    free(t->bytes);
    *t = (text){0};
}

static bool reserve(text *t, size_t more)
{
    if (t->failed) return false;
    if (more >= SIZE_MAX - t->length - 1) return !(t->failed = true);
    size_t needed = t->length + more + 1;
    if (needed <= t->capacity) return true;
    size_t larger = t->capacity ? t->capacity : 256;
    while (larger < needed) larger = larger > SIZE_MAX / 2 ? needed : larger * 2;
    char *moved = realloc(t->bytes, larger);
    if (!moved) return !(t->failed = true);
    t->bytes = moved;
    t->capacity = larger;
    return true;
}

void text_append_bytes(text *t, const char *bytes, size_t length)
{
    if (!reserve(t, length)) return;
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = '\0';
}

void text_append(text *t, const char *string)
{
    text_append_bytes(t, string, strlen(string));
}

void text_vprintf(text *t, const char *format, va_list values)
{
    va_list again;
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length >= 0 && reserve(t, (size_t)length)) {
        vsnprintf(t->bytes + t->length, (size_t)length + 1, format, values);
        t->length += (size_t)length;
    }
}

void text_printf(text *t, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    text_vprintf(t, format, values);
    va_end(values);
}

const char *text_string(const text *t)
{
    return t->bytes ? t->bytes : "";
}

spyre_status text_status(const text *t)
{
    return t->failed ? status_no_memory() : NULL;
}

spyre_status text_give(text *t, spyre_status status, char **out_string)
{
    text_append(t, "");
    if (!status) status = text_status(t);
    *out_string = status ? NULL : t->bytes;
    if (!status) *t = (text){0};
    text_free(t);
    return status;
}

bool text_ends_in(const char *string, const char *ending)
{
    size_t length = strlen(string), tail = strlen(ending);
    return length >= tail && strcmp(string + length - tail, ending) == 0;
}
