// SPDX-License-Identifier: Apache-2.0
//
// An item first tries the place of a parent or of the child, which needs no room of its own.
// Otherwise the ranges of the items that are placed and alive at its time are sorted by address.
// First fit takes the lowest gap between them, best fit the tightest; greedy takes the room below
// them, else above them, else the lowest gap.
#include "front/memory/placement.h"

#include <stdbool.h>
#include <stdlib.h>

enum { LONG_LIFE_STRETCHES = 256 };

// Stretches are about a quarter of a life long, so that most items of one overlap an item in it,
// but for long lives, which would be in too many lists.
static uint32_t stretch_width(const solver_problem *problem, uint32_t end)
{
    int64_t lives = 0;
    for (uint32_t i = 0; i < problem->count; i++)
        lives += problem->items[i].last - problem->items[i].first;
    uint32_t most = (end + LONG_LIFE_STRETCHES - 1) / LONG_LIFE_STRETCHES;
    int64_t quarter = lives / (4 * (int64_t)problem->count + 1) + 1;
    return quarter < most ? (uint32_t)quarter : most;
}

static void clear(placement *p)
{
    for (uint32_t s = 0; s < p->stretch_count; s++) p->stretches[s].count = 0;
    for (uint32_t i = 0; i < p->problem->count; i++)
        p->problem->items[i].address = SOLVER_UNPLACED;
    p->problem->top = 0;
}

spyre_status placement_create(solver_problem *problem, placement *out)
{
    uint32_t end = 1, count = problem->count;
    *out = (placement){.problem = problem};
    TRY_NEW(problem->memory, out->child, count);
    TRY_NEW(problem->memory, out->seen, count);
    for (uint32_t i = 0; i < count; i++) {
        if (problem->items[i].last + 1 > end) end = problem->items[i].last + 1;
        out->child[i] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t p = 0; p < problem->items[i].parent_count; p++)
            out->child[problem->items[i].parent[p]] = i;
    out->width = stretch_width(problem, end);
    out->stretch_count = (end + out->width - 1) / out->width;
    TRY_NEW(problem->memory, out->stretches, out->stretch_count);
    clear(out);
    return NULL;
}

static int by_address(const void *a, const void *b)
{
    const placement_range *x = a, *y = b;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    return x->high < y->high ? -1 : x->high > y->high;
}

// Fills p->overlapping with the placed items whose lives overlap the item's.
static spyre_status find_overlapping(placement *p, uint32_t item)
{
    const solver_item *items = p->problem->items, *wanted = &items[item];
    p->overlapping.count = 0;
    p->query++;
    for (uint32_t s = wanted->first / p->width; s <= wanted->last / p->width; s++) {
        const placement_list *stretch = &p->stretches[s];
        p->visits += stretch->count;
        for (uint32_t i = 0; i < stretch->count; i++) {
            uint32_t other = stretch->items[i];
            const solver_item *o = &items[other];
            if (p->seen[other] == p->query) continue;
            p->seen[other] = p->query;
            if (o->first > wanted->last || wanted->first > o->last) continue;
            placement_range range = {o->address, o->address + o->bytes, other};
            TRY(VEC_PUSH(p->problem->memory, &p->overlapping, range));
        }
    }
    if (p->overlapping.count > 1)
        qsort(p->overlapping.items, p->overlapping.count, sizeof *p->overlapping.items, by_address);
    return NULL;
}

// True when only `partner` is in the way of the item at the partner's place.
static bool fits_on(const placement *p, uint32_t item, uint32_t partner)
{
    const solver_item *items = p->problem->items;
    int64_t low = items[partner].address, high = low + items[item].bytes;
    if (low == SOLVER_UNPLACED || high > p->problem->capacity) return false;
    for (uint32_t i = 0; i < p->overlapping.count; i++) {
        const placement_range *range = &p->overlapping.items[i];
        if (range->item != partner && range->low < high && low < range->high) return false;
    }
    return true;
}

static int64_t find_in_place(const placement *p, uint32_t item)
{
    const solver_item *items = p->problem->items, *wanted = &items[item];
    for (uint32_t i = 0; i < wanted->parent_count; i++) {
        uint32_t parent = wanted->parent[i];
        if (items[parent].bytes >= wanted->bytes && fits_on(p, item, parent))
            return items[parent].address;
    }
    uint32_t child = p->child[item];
    if (child != item && items[child].bytes <= wanted->bytes && fits_on(p, item, child))
        return items[child].address;
    return SOLVER_UNPLACED;
}

// The lowest gap that is large enough, or the one that is left smallest.
static int64_t find_gap(const placement *p, int64_t bytes, bool smallest)
{
    int64_t low = 0, chosen = SOLVER_UNPLACED, least = INT64_MAX;
    for (uint32_t i = 0; i <= p->overlapping.count; i++) {
        const placement_range *next = i < p->overlapping.count ? &p->overlapping.items[i] : NULL;
        int64_t left = (next ? next->low : p->problem->capacity) - low - bytes;
        if (left >= 0 && left < least) {
            chosen = low;
            least = left;
            if (!smallest) return chosen;
        }
        if (next && next->high > low) low = next->high;
    }
    return chosen;
}

static int64_t find_greedily(const placement *p, int64_t bytes)
{
    int64_t top = 0;
    if (p->overlapping.count && bytes <= p->overlapping.items[0].low) return 0;
    for (uint32_t i = 0; i < p->overlapping.count; i++)
        if (p->overlapping.items[i].high > top) top = p->overlapping.items[i].high;
    return top + bytes <= p->problem->capacity ? top : find_gap(p, bytes, false);
}

static int64_t find_address(const placement *p, uint32_t item, placement_policy policy)
{
    int64_t bytes = p->problem->items[item].bytes, address = find_in_place(p, item);
    if (address != SOLVER_UNPLACED) return address;
    switch (policy) {
    case PLACE_GREEDY: return find_greedily(p, bytes);
    case PLACE_FIRST_FIT: return find_gap(p, bytes, false);
    case PLACE_BEST_FIT: return find_gap(p, bytes, true);
    }
    return SOLVER_UNPLACED;
}

static spyre_status add(placement *p, uint32_t item, placement_policy policy)
{
    solver_item *added = &p->problem->items[item];
    TRY(find_overlapping(p, item));
    added->address = find_address(p, item, policy);
    if (added->address == SOLVER_UNPLACED) return NULL;
    if (added->address + added->bytes > p->problem->top)
        p->problem->top = added->address + added->bytes;
    for (uint32_t s = added->first / p->width; s <= added->last / p->width; s++)
        TRY(VEC_PUSH(p->problem->memory, &p->stretches[s], item));
    return NULL;
}

spyre_status placement_add_all(placement *p, const uint32_t *order, placement_policy policy)
{
    clear(p);
    for (uint32_t i = 0; i < p->problem->count; i++) TRY(add(p, order[i], policy));
    return NULL;
}
