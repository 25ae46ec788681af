// SPDX-License-Identifier: Apache-2.0
#include "front/memory/solver_keys.h"

#include <stdlib.h>

static double lifetime(const solver_item *item)
{
    return (double)(item->last - item->first) + 1;
}

solver_key solver_key_start(const solver_problem *problem, uint32_t item)
{
    return (solver_key){problem->items[item].first, 0};
}

solver_key solver_key_generation(const solver_problem *problem, uint32_t item)
{
    return (solver_key){problem->items[item].generation, lifetime(&problem->items[item])};
}

solver_key solver_key_bytes(const solver_problem *problem, uint32_t item)
{
    return (solver_key){-(double)problem->items[item].bytes, problem->items[item].first};
}

solver_key solver_key_area(const solver_problem *problem, uint32_t item)
{
    const solver_item *i = &problem->items[item];
    return (solver_key){-(double)i->bytes * lifetime(i), i->first};
}

solver_key solver_key_density(const solver_problem *problem, uint32_t item)
{
    const solver_item *i = &problem->items[item];
    return (solver_key){-(double)i->worth / ((double)i->bytes * lifetime(i)), i->first};
}

typedef struct {
    solver_key key;
    uint32_t item;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key.major != y->key.major) return x->key.major < y->key.major ? -1 : 1;
    if (x->key.minor != y->key.minor) return x->key.minor < y->key.minor ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

spyre_status solver_order_by(const solver_problem *problem, solver_key_function *key,
                             uint32_t **out_order)
{
    keyed *items = ARENA_NEW(problem->memory, keyed, problem->count);
    uint32_t *order = ARENA_NEW(problem->memory, uint32_t, problem->count);
    TRY_ALLOC(items);
    TRY_ALLOC(order);
    for (uint32_t i = 0; i < problem->count; i++) items[i] = (keyed){key(problem, i), i};
    if (problem->count > 1) qsort(items, problem->count, sizeof *items, by_key);
    for (uint32_t i = 0; i < problem->count; i++) order[i] = items[i].item;
    *out_order = order;
    return NULL;
}
