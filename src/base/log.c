// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/variable.h"

static const char *const level_names[] = {"off", "critical", "error", "warn", "info", "debug"};
static const char *const prefixes[] = {"", "critical", "error", "warning", "info", "debug"};

bool log_level_named(const char *name, log_level *out_level)
{
    for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++) {
        if (strcmp(name, level_names[i]) != 0) continue;
        *out_level = (log_level)i;
        return true;
    }
    return false;
}

// The environment is the process's, so reading it once and keeping the answer is no hidden state.
static log_level current_level(void)
{
    static atomic_int known = -1;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level >= 0) return (log_level)level;
    const char *wanted = variable_text("SPYRE_LOG");
    log_level chosen = LOG_LEVEL_WARN;
    if (wanted && !log_level_named(wanted, &chosen)) {
        fprintf(stderr,
                "spyre warning: SPYRE_LOG=%s: expected off, critical, error, warn, info or debug\n",
                wanted);
    }
    atomic_store_explicit(&known, (int)chosen, memory_order_relaxed);
    return chosen;
}

bool log_enabled(log_level level)
{
    return level != LOG_LEVEL_OFF && level <= current_level();
}

// One fputs of the whole line: stderr is locked by call, so lines of several threads stay whole.
void log_write(log_level level, const char *format, ...)
{
    if (!log_enabled(level)) return;
    text line = {0};
    text_printf(&line, "spyre %s: ", prefixes[level]);
    va_list values;
    va_start(values, format);
    text_vprintf(&line, format, values);
    va_end(values);
    text_append(&line, "\n");
    fputs(text_string(&line), stderr);
    text_free(&line);
}
