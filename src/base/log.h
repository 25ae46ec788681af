// SPDX-License-Identifier: Apache-2.0
//
// Diagnostics for people, on stderr, one line a message: "spyre warning: ...". SPYRE_LOG is one of
// off, critical, error, warn, info, debug and is read once; the default is warn. Errors that a
// caller gets as a status are not logged as well.
//
// Thread rule: any thread; lines do not mix.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/status.h"

typedef enum {
    LOG_LEVEL_OFF,
    LOG_LEVEL_CRITICAL, // what the card could not do
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
} log_level;

// True when messages of that level are written: guard costly arguments with it.
bool log_enabled(log_level level);

// Writes one message, without a newline at its end, when its level is enabled.
void log_write(log_level level, const char *format, ...) SPYRE_PRINTF(2, 3);

#define log_critical(...) log_write(LOG_LEVEL_CRITICAL, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

// The level of a SPYRE_LOG value; false when it is none of the six.
bool log_level_named(const char *name, log_level *out_level);

#endif
