// SPDX-License-Identifier: Apache-2.0
#include "runtime/nan_guard.h"

#include <inttypes.h>
#include <string.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/odometer.h"

typedef enum { IGNORE, WARN, REFUSE } nan_answer;

static spyre_status wanted(uint32_t *out_answer)
{
    static const char *const words[] = {[IGNORE] = "ignore", [WARN] = "warn", [REFUSE] = "error"};
    return environment_choice("SPYRE_NAN", words, sizeof words / sizeof *words, out_answer);
}

// Magnitudes above infinity are NaN, in each of the formats.
static bool is_nan(const uint8_t *at, spyre_dtype dtype)
{
    uint16_t half;
    uint32_t word;
    uint64_t wide;
    switch ((int)dtype) {
    case SPYRE_DTYPE_F16: memcpy(&half, at, sizeof half); return (half & 0x7FFF) > 0x7C00;
    case SPYRE_DTYPE_BF16: memcpy(&half, at, sizeof half); return (half & 0x7FFF) > 0x7F80;
    case SPYRE_DTYPE_F32: memcpy(&word, at, sizeof word); return (word & INT32_MAX) > 0x7F800000;
    case SPYRE_DTYPE_F64:
        memcpy(&wide, at, sizeof wide);
        return (wide & INT64_MAX) > UINT64_C(0x7FF0000000000000);
    default: return false;
    }
}

typedef struct {
    int64_t count, first;               // `first`: number of the element, rows first
} found_nans;

static found_nans look(spyre_dtype dtype, const spyre_view *view, const uint8_t *host)
{
    found_nans found = {0};
    int64_t index[SPYRE_MAX_RANK] = {0}, n = 0;
    const int64_t bytes = spyre_dtype_bytes(dtype);
    odometer_place element = {view->stride, view->offset};
    for (uint32_t d = 0; d < view->rank; d++)
        if (view->size[d] == 0) return found;
    do {
        if (is_nan(host + element.at * bytes, dtype) && found.count++ == 0) found.first = n;
        n++;
    } while (odometer_next(view->rank, view->size, index, &element, 1));
    return found;
}

spyre_status nan_guard_check(spyre_format format, spyre_dtype dtype, const spyre_view *view,
                             const void *host)
{
    uint32_t answer;
    bool has_nan = dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16 ||
                   dtype == SPYRE_DTYPE_F32 || dtype == SPYRE_DTYPE_F64;
    if (format != SPYRE_FORMAT_SEN169_FP16 || !has_nan) return NULL;
    TRY(wanted(&answer));
    if (answer == IGNORE) return NULL;
    found_nans found = look(dtype, view, host);
    if (found.count == 0) return NULL;
    spyre_status status = status_new(
        SPYRE_INVALID_ARGUMENT,
        "%" PRId64 " NaN, the first is element %" PRId64 ": SEN169_FP16 has none, they become "
        "infinity (SPYRE_NAN=ignore, warn or error)", found.count, found.first);
    if (answer == REFUSE) return status;
    log_warn("copy to card: %s", spyre_status_message(status));
    spyre_status_free(status);
    return NULL;
}
