// SPDX-License-Identifier: Apache-2.0
//
// Making and passing on errors. A lower message is never replaced, only prefixed with where it
// happened: status_at(status, "node %u %s", ...) turns "rank 7" into "node 3 aten.add: rank 7".
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

#include "spyre/status.h"

// A new error; its message becomes one line, whatever it quotes. Never returns null: when memory is
// short it returns a shared out-of-memory object.
SPYRE_MUST_CHECK spyre_status status_new(spyre_code code, const char *format, ...)
    SPYRE_PRINTF(2, 3);
SPYRE_MUST_CHECK spyre_status status_vnew(spyre_code code, const char *format, va_list values)
    SPYRE_PRINTF(2, 0);

// Takes `status`, returns it with "<place>: " in front of its message; null stays null.
SPYRE_MUST_CHECK spyre_status status_at(spyre_status status, const char *format, ...)
    SPYRE_PRINTF(2, 3);

// The same with the path of a file or directory, unless the message begins with it, or with that of
// a file below it, already.
SPYRE_MUST_CHECK spyre_status status_at_path(spyre_status status, const char *path);

// Whether a program broke a rule of the card, of any kind.
static inline bool status_is_fault(spyre_status status)
{
    spyre_code code = spyre_status_code(status);
    return code == SPYRE_DEVICE_FAULT || code == SPYRE_INDEX_FAULT;
}

// The shared error for failed host allocations.
SPYRE_MUST_CHECK spyre_status status_no_memory(void);

// Returns from the calling function when `expression` is an error.
#define TRY(expression)                     \
    do {                                    \
        spyre_status try_ = (expression);   \
        if (try_) return try_;              \
    } while (0)

// As TRY, for functions with one clean-up label `done` and a variable `status`.
#define TRY_DONE(expression)                \
    do {                                    \
        status = (expression);              \
        if (status) goto done;              \
    } while (0)

// Returns status_no_memory() when `pointer` is null.
#define TRY_ALLOC(pointer)                           \
    do {                                             \
        if (!(pointer)) return status_no_memory();   \
    } while (0)

#endif
