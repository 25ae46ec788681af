// SPDX-License-Identifier: Apache-2.0
#include "card/defer.h"

#include <string.h>

static bool overlap(const deferred_load *load, const lx_access *access)
{
    return access->low < load->high && load->low < access->high;
}

static bool inside(const deferred_load *load, const lx_access *access)
{
    return load->low <= access->low && access->high <= load->high;
}

static void forget(deferred_loads *loads, uint32_t n)
{
    loads->items[n] = loads->items[--loads->count];
}

static void copy_now(const deferred_load *load, uint8_t *lx)
{
    memcpy(lx + load->low, load->source, (size_t)(load->high - load->low));
}

// Whether load n must be in LX before the instruction, and whether it ends with it.
static void judge(const deferred_load *load, const lx_access *accesses, uint32_t count,
                  bool *out_copy, bool *out_forget)
{
    bool read = false, written = false, covered = false, crossed = false;
    for (uint32_t a = 0; a < count; a++) {
        const lx_access *access = &accesses[a];
        if (!overlap(load, access)) continue;
        if (access->reads) {
            read = true;
            crossed = crossed || access->writes || !inside(load, access);
        }
        if (access->writes) {
            written = true;
            covered = covered || (access->dense && access->low <= load->low &&
                                  load->high <= access->high);
        }
    }
    // A range that is both read and written must be one place, or in-place updates would be lost.
    *out_copy = crossed || (written && (read || !covered));
    *out_forget = *out_copy || written;
}

void defer_prepare(deferred_loads *loads, uint8_t *lx, const lx_access *accesses, uint32_t count)
{
    for (uint32_t n = loads->count; n-- > 0;) {
        bool copy, end;
        judge(&loads->items[n], accesses, count, &copy, &end);
        if (copy) copy_now(&loads->items[n], lx);
        if (end) forget(loads, n);
    }
}

uint8_t *defer_locate(const deferred_loads *loads, uint8_t *lx, const lx_access *access)
{
    for (uint32_t n = 0; n < loads->count; n++) {
        const deferred_load *load = &loads->items[n];
        // Operands are not const-correct; a deferred range is never written through this pointer.
        if (access->reads && inside(load, access))
            return (uint8_t *)(uintptr_t)load->source + (access->low - load->low);
    }
    return lx + access->low;
}

void defer_add(deferred_loads *loads, uint8_t *lx, deferred_load load)
{
    if (loads->count == DEFER_MOST) {
        copy_now(&loads->items[0], lx);
        forget(loads, 0);
    }
    loads->items[loads->count++] = load;
}

void defer_finish(deferred_loads *loads, uint8_t *lx, bool keep_all)
{
    for (uint32_t n = 0; n < loads->count; n++)
        if (loads->items[n].live || keep_all) copy_now(&loads->items[n], lx);
    loads->count = 0;
}
