// SPDX-License-Identifier: Apache-2.0
//
// Whether tiles may be taken block of rows by block of rows, and streams stick by stick. Two
// accesses of different tiles, one of which writes, stay in order when they never overlap; when
// they are the same elements stick for stick; or when they are of one row each and rows keep apart.
// Sums and constants are a kernel's own: each block fills them anew.
#include "card/rows/rows_build.h"

typedef struct {
    const rows_tile *tile;
    const rows_access *access;
    bool writes;
} side;

static int64_t parameter(const plan_phase *first, const rows_place *p, uint32_t core)
{
    const isa_kernel *kernel = first[p->kernel].kernel->source;
    if (p->space == ISA_SPACE_LX || p->slot == ISA_NO_SLOT) return 0;
    return kernel->parameters[(size_t)core * kernel->slot_count + p->slot];
}

static bool is_own(const side *s)
{
    return s->access->sums != ROWS_NONE || s->access->constant;
}

static bool is_stream(const side *s)
{
    return s->tile->role <= ROWS_REDUCES && s->access->lane == 2;
}

// How far b's element 0 lies behind a's.
static int64_t distance(const plan_phase *first, const side *a, const side *b, uint32_t core)
{
    return b->access->place.offset - a->access->place.offset +
           parameter(first, &b->access->place, core) - parameter(first, &a->access->place, core);
}

static bool overlap(const plan_phase *first, const side *a, const side *b, uint32_t core)
{
    const rows_access *x = a->access, *y = b->access;
    int64_t apart = parameter(first, &y->place, core) - parameter(first, &x->place, core);
    return ranges_overlap(x->range, range_shifted(y->range, apart));
}

static int64_t row_bytes(const side *s, uint32_t o)
{
    int64_t element = spyre_format_bytes(s->tile->tile->instruction->operand[o].format);
    int64_t lanes = s->access->lane ? SIMD_LANES - 1 : 0;
    return lanes * s->access->lane + element;
}

// Row for row: each of its own bytes.
static bool rows_apart(const side *a, const side *b, int64_t behind)
{
    const rows_access *x = a->access, *y = b->access;
    int64_t first = row_bytes(a, (uint32_t)(x - a->tile->operand));
    int64_t second = row_bytes(b, (uint32_t)(y - b->tile->operand));
    if (is_stream(a) || is_stream(b) || x->place.stick != 0 || y->place.stick != 0) return false;
    if (x->place.period || y->place.period) return false;
    if (x->place.row != y->place.row || x->lane < 0 || y->lane < 0) return false;
    int64_t low = behind < 0 ? behind : 0;
    int64_t high = first > behind + second ? first : behind + second;
    return high - low <= x->place.row;
}

static bool in_order(const plan_phase *first, const side *a, const side *b)
{
    const rows_place *x = &a->access->place, *y = &b->access->place;
    uint32_t active = first[x->kernel].kernel->source->active_cores;
    if (!a->writes && !b->writes) return true;
    // Arguments that are stored to are apart from all others where kernels run without a barrier.
    if (x->space != y->space || x->arg != y->arg) return true;
    if (is_own(a) && is_own(b)) return true;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!(active >> core & 1u) || !overlap(first, a, b, core)) continue;
        int64_t behind = distance(first, a, b, core);
        bool same = is_stream(a) && is_stream(b) && behind == 0 && x->row == y->row &&
                    x->stick == y->stick && x->period == y->period;
        if (is_own(a) || is_own(b) || (!same && !rows_apart(a, b, behind))) return false;
    }
    return true;
}

bool rows_in_order(const plan_phase *first, const rows_tile *a, const rows_tile *b)
{
    for (uint32_t x = 0; x < a->tile->instruction->operand_count; x++) {
        for (uint32_t y = 0; y < b->tile->instruction->operand_count; y++) {
            side one = {a, &a->operand[x], x == 0}, other = {b, &b->operand[y], y == 0};
            if (!in_order(first, &one, &other)) return false;
        }
    }
    return true;
}

bool rows_same_place(const plan_phase *first, const rows_place *a, const rows_place *b)
{
    uint32_t active = first[a->kernel].kernel->source->active_cores;
    if (a->space != b->space || a->arg != b->arg || a->row != b->row || a->stick != b->stick ||
        a->period != b->period)
        return false;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if ((active >> core & 1u) &&
            a->offset + parameter(first, a, core) != b->offset + parameter(first, b, core))
            return false;
    return true;
}
