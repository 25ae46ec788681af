// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_flag(cli_arguments *in, const char *name)
{
    if (in->at >= in->count || strcmp(in->items[in->at], name) != 0) return false;
    in->at++;
    return true;
}

bool cli_option(cli_arguments *in, const char *name, const char **out_value)
{
    size_t length = strlen(name);
    if (in->at >= in->count || strncmp(in->items[in->at], name, length) != 0) return false;
    const char *rest = in->items[in->at] + length;
    if (*rest == '=' && name[1] == '-') {
        *out_value = rest + 1;
        in->at++;
        return true;
    }
    if (*rest) return false;
    if (in->at + 1 >= in->count) {
        cli_complain(in->command, "%s needs a value", name);
        in->failed = true;
        return false;
    }
    *out_value = in->items[in->at + 1];
    in->at += 2;
    return true;
}

// One line whatever the message holds: paths may contain anything.
static void write_line(const char *command, const char *message)
{
    char line[4096];
    snprintf(line, sizeof line, "spyre %s: %s", command, message);
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    fprintf(stderr, "%s\n", line);
}

int cli_complain(const char *command, const char *format, ...)
{
    char message[3072];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    write_line(command, message);
    return CLI_BAD_INPUT;
}

int cli_unexpected(const cli_arguments *in)
{
    const char *argument = in->items[in->at];
    return cli_complain(in->command, "%s '%s' (see spyre %.*s --help)",
                        *argument == '-' ? "unknown option" : "unexpected argument", argument,
                        (int)strcspn(in->command, ":"), in->command);
}

static int exit_code(spyre_code code)
{
    switch (code) {
    case SPYRE_OK: return CLI_OK;
    case SPYRE_INVALID_ARGUMENT:
    case SPYRE_INVALID_FORMAT:
    case SPYRE_UNSUPPORTED:
    case SPYRE_NOT_FOUND:
    case SPYRE_IO: return CLI_BAD_INPUT;
    case SPYRE_OUT_OF_MEMORY:
    case SPYRE_DEVICE_FAULT:
    case SPYRE_INDEX_FAULT:
    case SPYRE_CANCELLED:
    case SPYRE_INTERNAL: break;
    }
    return CLI_FAILED;
}

int cli_report(const char *command, spyre_status status)
{
    int code = exit_code(spyre_status_code(status));
    if (status) write_line(command, spyre_status_message(status));
    spyre_status_free(status);
    return code;
}

int cli_print(const char *command, const char *string)
{
    if (fputs(string, stdout) >= 0 && fflush(stdout) == 0) return CLI_OK;
    cli_complain(command, "standard output: %s", strerror(errno));
    return CLI_FAILED;
}

int cli_read_count(const char *command, const char *name, const char *value, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || number > UINT32_MAX || !number)
        return cli_complain(command, "%s %s: must be a positive integer", name, value);
    *out = (uint32_t)number;
    return CLI_OK;
}
