// SPDX-License-Identifier: Apache-2.0
#include "card/defer.h"

#include <string.h>

static bool overlap(const deferred_load *load, const lx_access *access)
{
    return access->low < load->high && load->low < access->high;
}

static void forget(deferred_loads *loads, uint32_t n)
{
    loads->items[n] = loads->items[--loads->count];
}

static void copy_now(const deferred_load *load, uint8_t *lx)
{
    uint8_t *address[2] = {lx + load->low, load->source};
    load->tile->fast(load->tile, address, NULL);
}

// --- Translating strides

// The load's dims by falling stride in LX; their indices of byte `offset` of the range.
typedef struct {
    uint32_t count;
    int64_t lx[ISA_MAX_DIMS], memory[ISA_MAX_DIMS], extent[ISA_MAX_DIMS], index[ISA_MAX_DIMS];
} shape;

static shape shape_of(const plan_tile *tile, int64_t offset)
{
    shape s = {.count = tile->dim_count};
    bool used[ISA_MAX_DIMS] = {false};
    for (uint32_t n = 0; n < s.count; n++) {
        uint32_t best = 0;
        while (used[best]) best++;
        for (uint32_t d = best + 1; d < s.count; d++)
            if (!used[d] && tile->stride[0][d] > tile->stride[0][best]) best = d;
        used[best] = true;
        s.lx[n] = tile->stride[0][best];
        s.memory[n] = tile->stride[1][best];
        s.extent[n] = tile->extent[best];
        s.index[n] = offset / s.lx[n];
        offset %= s.lx[n];
    }
    // A byte inside an element has no indices.
    if (offset != 0) s.count = 0;
    return s;
}

// Each stride of the access must be whole steps along one dim of the load, without leaving it; the
// last dim is elements, which must be neighbours in memory as well.
static bool translate(const deferred_load *load, const lx_access *access, uint8_t **out_address,
                      int64_t *out_stride)
{
    if (access->dim_count == 0) return false;
    shape s = shape_of(load->tile, access->low - load->low);
    uint8_t *address = load->source;
    for (uint32_t d = 0; d < s.count; d++) address += s.index[d] * s.memory[d];
    for (uint32_t n = 0; n < access->dim_count; n++) {
        out_stride[n] = 0;
        if (access->extent[n] == 1) continue;
        uint32_t d = 0;
        while (d < s.count && s.lx[d] > access->stride[n]) d++;
        if (d == s.count || access->stride[n] % s.lx[d] != 0) return false;
        int64_t steps = access->stride[n] / s.lx[d];
        out_stride[n] = steps * s.memory[d];
        if (n + 1 == access->dim_count && out_stride[n] != access->stride[n]) return false;
        s.index[d] += steps * (access->extent[n] - 1);
    }
    for (uint32_t d = 0; d < s.count; d++)
        if (s.index[d] >= s.extent[d]) return false;
    *out_address = address;
    return s.count > 0;
}

// True when the read can be taken from memory.
static bool readable(const deferred_load *load, const lx_access *access, uint8_t **out_address,
                     int64_t *out_stride)
{
    if (access->low < load->low || access->high > load->high) return false;
    if (!load->tile->flat) return translate(load, access, out_address, out_stride);
    *out_address = load->source + (access->low - load->low);
    for (uint32_t n = 0; n < access->dim_count; n++) out_stride[n] = access->stride[n];
    return true;
}

// --- Instructions

// Whether a load must be in LX before the instruction, and whether it ends with it.
static void judge(const deferred_load *load, const lx_access *accesses, uint32_t count,
                  bool *out_copy, bool *out_forget)
{
    bool read = false, written = false, covered = false, crossed = false;
    for (uint32_t a = 0; a < count; a++) {
        const lx_access *access = &accesses[a];
        if (!overlap(load, access)) continue;
        if (access->reads) {
            uint8_t *address;
            int64_t stride[3];
            read = true;
            crossed = crossed || access->writes || !readable(load, access, &address, stride);
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

uint8_t *defer_locate(const deferred_loads *loads, uint8_t *lx, const lx_access *access,
                      int64_t *out_stride)
{
    uint8_t *address;
    for (uint32_t n = 0; n < loads->count; n++)
        if (readable(&loads->items[n], access, &address, out_stride)) return address;
    for (uint32_t n = 0; n < access->dim_count; n++) out_stride[n] = access->stride[n];
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
        if (loads->items[n].tile->live || keep_all) copy_now(&loads->items[n], lx);
    loads->count = 0;
}
