// SPDX-License-Identifier: Apache-2.0
//
// The proof: branch and bound over plans in which every item rests on the ground or on another
// item. Any plan can be brought into that form without a higher top, by letting items sink in the
// order of their addresses. So the search walks a skyline, the height that is used up at each
// moment: the lowest stretch of it, the leftmost of several, gets one of the items that fit between
// its ends, or is given up as far as its lower neighbour. A branch ends when some moment cannot
// hold what is still to come below the best top so far. Items that may take a parent's place are
// placed together with it, or on their own.
//
// It starts from the current plan, and ends after a number of steps at the latest; then the plan
// may not be the best. When not everything fits, what was placed stays.
#include "front/memory/solver_keys.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ITEMS = 64 };

typedef struct {
    solver_problem *problem;
    uint32_t moments;
    uint32_t *from, *to;   // by item: moments at which it lives
    bool *may_share;       // by item: a parent may hand its place over
    bool *related;         // by item: has parents or is one
    uint32_t *order;       // items, much space for a long time first
    int64_t *height;       // by moment: used up
    int64_t *coming;       // by moment: at least needed by items that have no place yet
    uint32_t *open;        // by moment: items without a place that live then
    bool *placed;
    int64_t *address, *best_address;
    int64_t best;          // a better plan has a lower top
    int64_t steps;
    bool found;
} tree;

// --- Moments: when items begin to live, since items that overlap in time overlap there

static int by_value(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static uint32_t list_moments(const solver_problem *problem, uint32_t *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < problem->count; i++) out[i] = problem->items[i].first;
    if (problem->count > 1) qsort(out, problem->count, sizeof *out, by_value);
    for (uint32_t i = 0; i < problem->count; i++)
        if (count == 0 || out[count - 1] != out[i]) out[count++] = out[i];
    return count;
}

static void set_lives(tree *t, const uint32_t *moments)
{
    for (uint32_t i = 0; i < t->problem->count; i++) {
        const solver_item *item = &t->problem->items[i];
        while (moments[t->from[i]] < item->first) t->from[i]++;
        t->to[i] = t->from[i];
        while (t->to[i] + 1 < t->moments && moments[t->to[i] + 1] <= item->last) t->to[i]++;
        for (uint32_t p = 0; p < item->parent_count; p++) {
            t->may_share[i] |= t->problem->items[item->parent[p]].bytes >= item->bytes;
            t->related[i] = t->related[item->parent[p]] = true;
        }
    }
}

static void add_coming(const tree *t, uint32_t item, int sign)
{
    int64_t bytes = sign * t->problem->items[item].bytes;
    for (uint32_t m = t->from[item]; m <= t->to[item]; m++) {
        t->open[m] += (uint32_t)sign;
        if (m > t->from[item] || !t->may_share[item]) t->coming[m] += bytes;
    }
}

static spyre_status plant(solver_problem *problem, tree *t)
{
    uint32_t count = problem->count, *moments = ARENA_NEW(problem->memory, uint32_t, count);
    *t = (tree){.problem = problem};
    TRY_NEW(problem->memory, t->from, count);
    TRY_NEW(problem->memory, t->to, count);
    TRY_NEW(problem->memory, t->may_share, count);
    TRY_NEW(problem->memory, t->related, count);
    TRY_NEW(problem->memory, t->open, count);
    TRY_NEW(problem->memory, t->height, count);
    TRY_NEW(problem->memory, t->coming, count);
    TRY_NEW(problem->memory, t->placed, count);
    TRY_NEW(problem->memory, t->address, count);
    TRY_NEW(problem->memory, t->best_address, count);
    TRY_ALLOC(moments);
    t->moments = list_moments(problem, moments);
    set_lives(t, moments);
    for (uint32_t i = 0; i < count; i++) add_coming(t, i, 1);
    return solver_order_by(problem, solver_key_area, &t->order);
}

// --- The walk

// The lowest stretch at which something is still to come; no item reaches beyond a moment without.
typedef struct {
    uint32_t left, right;
    int64_t height, next; // of the lower neighbour; INT64_MAX without one
} stretch;

static bool find_lowest(const tree *t, stretch *out)
{
    bool found = false;
    for (uint32_t m = 0; m < t->moments; m++) {
        if (!t->open[m] || (found && t->height[m] >= out->height)) continue;
        found = true;
        *out = (stretch){m, m, t->height[m], INT64_MAX};
    }
    if (!found) return false;
    uint32_t m = out->right + 1;
    while (m < t->moments && t->open[m] && t->height[m] == out->height) m++;
    out->right = m - 1;
    if (m < t->moments && t->open[m]) out->next = t->height[m];
    m = out->left;
    if (m > 0 && t->open[m - 1] && t->height[m - 1] < out->next) out->next = t->height[m - 1];
    return true;
}

static bool is_hopeless(const tree *t)
{
    for (uint32_t m = 0; m < t->moments; m++)
        if (t->height[m] + t->coming[m] >= t->best) return true;
    return false;
}

// Where the last item went: items side by side at one height are placed from left to right.
typedef struct {
    int64_t height;
    uint32_t from;
} mark;

static void grow(tree *t, mark last);

static void keep_plan(tree *t)
{
    t->best = 0;
    for (uint32_t m = 0; m < t->moments; m++)
        if (t->height[m] > t->best) t->best = t->height[m];
    memcpy(t->best_address, t->address, t->problem->count * sizeof *t->address);
    t->found = true;
}

// Places the item, then goes on without and with each child that may take its place over.
static void place(tree *t, uint32_t item, uint32_t first, const stretch *s, mark here)
{
    const solver_item *items = t->problem->items;
    int64_t before[MOST_ITEMS];
    uint32_t to = t->to[item];
    memcpy(before, t->height, t->moments * sizeof *before);
    for (uint32_t m = first; m <= to; m++) t->height[m] = s->height + items[item].bytes;
    add_coming(t, item, -1);
    t->placed[item] = true;
    t->address[item] = s->height;
    for (uint32_t child = 0; child < t->problem->count; child++) {
        if (t->placed[child] || t->from[child] != to || t->to[child] > s->right) continue;
        if (items[child].bytes > items[item].bytes || items[child].first != items[item].last)
            continue;
        for (uint32_t p = 0; p < items[child].parent_count; p++)
            if (items[child].parent[p] == item) place(t, child, to + 1, s, here);
    }
    grow(t, here);
    t->placed[item] = false;
    add_coming(t, item, 1);
    memcpy(t->height, before, t->moments * sizeof *before);
}

// An item like an earlier one that has no place either: the earlier one comes first.
static bool has_twin(const tree *t, uint32_t n)
{
    const solver_item *items = t->problem->items, *item = &items[t->order[n]];
    if (n == 0 || t->placed[t->order[n - 1]]) return false;
    if (t->related[t->order[n]] || t->related[t->order[n - 1]]) return false;
    const solver_item *before = &items[t->order[n - 1]];
    return before->bytes == item->bytes && before->first == item->first &&
           before->last == item->last;
}

static void give_up(tree *t, const stretch *s, mark last)
{
    if (s->next == INT64_MAX) return;
    for (uint32_t m = s->left; m <= s->right; m++) t->height[m] = s->next;
    grow(t, last);
    for (uint32_t m = s->left; m <= s->right; m++) t->height[m] = s->height;
}

static void grow(tree *t, mark last)
{
    stretch s;
    if (is_hopeless(t) || --t->steps < 0) return;
    if (!find_lowest(t, &s)) {
        for (uint32_t i = 0; i < t->problem->count; i++)
            if (!t->placed[i]) return;
        keep_plan(t);
        return;
    }
    for (uint32_t n = 0; n < t->problem->count; n++) {
        uint32_t item = t->order[n];
        if (t->placed[item] || t->from[item] < s.left || t->to[item] > s.right) continue;
        if (s.height == last.height && t->from[item] < last.from) continue;
        if (has_twin(t, n)) continue;
        place(t, item, t->from[item], &s, (mark){s.height, t->from[item]});
    }
    give_up(t, &s, last);
}

// --- The solver

static bool all_placed(const solver_problem *problem)
{
    for (uint32_t i = 0; i < problem->count; i++)
        if (problem->items[i].address == SOLVER_UNPLACED) return false;
    return true;
}

spyre_status solver_prove(solver_problem *problem, int64_t steps)
{
    tree t;
    if (problem->count == 0 || problem->count > MOST_ITEMS) return NULL;
    TRY(plant(problem, &t));
    bool complete = all_placed(problem);
    t.steps = steps;
    t.best = complete ? problem->top : problem->capacity + 1;
    grow(&t, (mark){-1, 0});
    problem->optimal = t.steps >= 0 && (complete || t.found);
    if (!t.found) return NULL;
    for (uint32_t i = 0; i < problem->count; i++) problem->items[i].address = t.best_address[i];
    problem->top = t.best;
    return NULL;
}
