// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spyre_status_object {
    spyre_code code;
    bool shared;
    char message[];
};

// Flexible array members cannot be initialised portably, so the shared object spells its layout
// out.
static struct {
    spyre_code code;
    bool shared;
    char message[32];
} no_memory = {SPYRE_OUT_OF_MEMORY, true, "out of host memory"};

spyre_status status_no_memory(void)
{
    return (spyre_status)(void *)&no_memory;
}

spyre_code spyre_status_code(spyre_status status)
{
    return status ? status->code : SPYRE_OK;
}

const char *spyre_status_message(spyre_status status)
{
    if (!status) return "ok";
    if (status->shared) return no_memory.message;
    return status->message;
}

const char *spyre_code_name(spyre_code code)
{
    switch (code) {
    case SPYRE_OK: return "ok";
#define SPYRE_STATUS_ROW(code_, name, meaning) \
    case SPYRE_##code_: return name;
#include "spyre/status.def"
#undef SPYRE_STATUS_ROW
    }
    return "unknown";
}

void spyre_status_free(spyre_status status)
{
    if (status && !status->shared) free(status);
}

// A message is one line, whatever it quotes.
static void make_one_line(char *message)
{
    for (; *message; message++)
        if ((unsigned char)*message < 0x20) *message = ' ';
}

// Builds "<formatted><separator><tail>".
static spyre_status compose(spyre_code code, const char *format, va_list values,
                            const char *separator, const char *tail)
{
    va_list again;
    va_copy(again, values);
    int head_length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (head_length < 0) head_length = 0;
    size_t head = (size_t)head_length;
    size_t total = head + strlen(separator) + strlen(tail) + 1;
    spyre_status status = malloc(sizeof *status + total);
    if (!status) return status_no_memory();
    status->code = code;
    status->shared = false;
    vsnprintf(status->message, head + 1, format, values);
    snprintf(status->message + head, total - head, "%s%s", separator, tail);
    make_one_line(status->message);
    return status;
}

spyre_status status_vnew(spyre_code code, const char *format, va_list values)
{
    return compose(code, format, values, "", "");
}

spyre_status status_new(spyre_code code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    spyre_status status = status_vnew(code, format, values);
    va_end(values);
    return status;
}

spyre_status status_at(spyre_status status, const char *format, ...)
{
    if (!status || status->shared) return status;
    va_list values;
    va_start(values, format);
    spyre_status placed = compose(status->code, format, values, ": ", status->message);
    va_end(values);
    spyre_status_free(status);
    return placed;
}

spyre_status status_at_path(spyre_status status, const char *path)
{
    size_t length = strlen(path);
    if (status && strncmp(status->message, path, length) == 0 &&
        (status->message[length] == ':' || status->message[length] == '/'))
        return status;
    return status_at(status, "%s", path);
}
