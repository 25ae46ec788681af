// SPDX-License-Identifier: Apache-2.0
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             // fopencookie
#endif
#include "held_log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static struct {
    FILE *passing;              // stderr as it was; null when nothing is held
    FILE *lines, *stream;
    char *text;
    size_t length;
} held;

// "spyre warning: ..": a message of base/log.h, which writes a line in one call.
static bool is_log_line(const char *bytes, size_t count)
{
    static const char *const starts[] = {"spyre warning: ", "spyre error: ", "spyre critical: "};
    for (size_t n = 0; n < sizeof starts / sizeof *starts; n++) {
        size_t length = strlen(starts[n]);
        if (count >= length && memcmp(bytes, starts[n], length) == 0) return true;
    }
    return false;
}

static ssize_t take(void *cookie, const char *bytes, size_t count)
{
    (void)cookie;
    FILE *to = is_log_line(bytes, count) ? held.lines : held.passing;
    return fwrite(bytes, 1, count, to) == count ? (ssize_t)count : 0;
}

void held_log_begin(void)
{
    const cookie_io_functions_t functions = {.write = take};
    const char *wanted = getenv("SPYRE_LOG");
    if (wanted && *wanted) return;
    held.lines = open_memstream(&held.text, &held.length);
    held.stream = held.lines ? fopencookie(NULL, "w", functions) : NULL;
    if (!held.stream) {
        if (held.lines) fclose(held.lines);
        free(held.text);
        held.text = NULL;
        return;
    }
    setvbuf(held.stream, NULL, _IONBF, 0);
    held.passing = stderr;
    stderr = held.stream;
}

void held_log_end(int code)
{
    if (!held.passing) return;
    stderr = held.passing;
    held.passing = NULL;
    fclose(held.stream);
    fclose(held.lines);
    if (code == 0 && held.length) fwrite(held.text, 1, held.length, stderr);
    free(held.text);
    held.text = NULL;
}
