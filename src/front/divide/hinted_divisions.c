// SPDX-License-Identifier: Apache-2.0
//
// hinted_divisions: the user's slices of named dims (named_dims.c).
#include "front/divide/span_reduction.h"
#include "front/front.h"
#include "front/ir/core_numbers.h"
#include "front/ir/dim_names.h"
#include "front/ir/division.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "graph/hint.h"

// A dim that hints name, and whether an op with such a hint moves along it.
typedef struct {
    hint_entry hint;
    bool used;
} hinted_dim;

typedef VEC(hinted_dim) hinted_dims;

// Blames no node: the host would not do what the user asks either.
static spyre_status refuse(const loop_graph *loops, uint32_t index, const hint_entry *entry,
                           const char *why)
{
    *loops->at_node = SPYRE_NO_ID;
    return status_new(SPYRE_UNSUPPORTED, "%s: work_div %.*s=%" PRId64 ": %s",
                      loop_op_place(loops, index), (int)entry->length, entry->name,
                      entry->slices, why ? why : "out of memory");
}

// What the loop's units, sticks or elements, can be divided into.
static spyre_status refuse_count(const loop_graph *loops, uint32_t index, const hint_entry *entry,
                                 int64_t units, bool uneven)
{
    return refuse(loops, index, entry,
                  arena_printf(loops->memory,
                               "does not divide the dim of %" PRId64
                               " units (sticks along a stick); the nearest count is %" PRId64,
                               units, division_nearest(units, entry->slices, uneven)));
}

static spyre_status refuse_cores(const loop_graph *loops, uint32_t index, const hint_entry *entry,
                                 int64_t units, int64_t used)
{
    return refuse(loops, index, entry,
                  arena_printf(loops->memory,
                               "more slices than cores: %" PRId64 " x %" PRId64
                               " of %u; at most %d are possible",
                               used, entry->slices, loops->cores,
                               division_largest(units, loops->cores / used,
                                                loops->settings.uneven_splits)));
}

static spyre_status split(const loop_graph *loops, uint32_t index, const hint_entry *entry,
                          division *d, bool *found)
{
    const loop_op *op = &loops->ops.items[index];
    division_sizes sizes = division_sizes_of(loops, op);
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!hint_is_name(dim_names_of(loops, op, v), entry->name, entry->length)) continue;
        *found = true;
        if (d->split[v] > 1 && d->split[v] != entry->slices)
            return refuse(loops, index, entry,
                          arena_printf(loops->memory, "a scope around it asks for %d slices",
                                       (int)d->split[v]));
        if (d->split[v] == entry->slices) return NULL;
        if (sizes.units[v] == 1 && opfunc_describe(op->op)->kind == OPFUNC_KIND_RANK)
            return refuse(loops, index, entry, "a ranking is not divided along what it ranks; the "
                                               "nearest count is 1");
        if (loop_var_is_scanned(op, v))
            return refuse(loops, index, entry, "a running value is not divided along its dim; the "
                                               "nearest count is 1");
        if (!division_cuts(sizes.units[v], entry->slices, sizes.uneven[v]))
            return refuse_count(loops, index, entry, sizes.units[v], sizes.uneven[v]);
        for (uint32_t u = 0; loop_var_is_reduced(op, v) && u < op->var_count; u++)
            if (u != v && loop_var_is_reduced(op, u) && d->split[u] > 1)
                return refuse(loops, index, entry,
                              arena_printf(loops->memory,
                                           "a second reduced dim beside %s=%d; one may be divided",
                                           dim_names_of(loops, op, u), (int)d->split[u]));
        if (division_cores(op, d) * entry->slices > loops->cores)
            return refuse_cores(loops, index, entry, sizes.units[v], division_cores(op, d));
        d->split[v] = (int32_t)entry->slices;
        return NULL;
    }
    return NULL;
}

// Cores that share results have equally many of them.
static spyre_status check_uneven(const loop_graph *loops, uint32_t index, const division *d)
{
    const loop_op *op = &loops->ops.items[index];
    division_sizes sizes = division_sizes_of(loops, op);
    uint32_t v = 0;
    if (!division_shares_uneven(op, &sizes, d)) return NULL;
    while (!division_is_uneven(&sizes, v, d->split[v])) v++;
    const char *name = dim_names_of(loops, op, v);
    hint_entry entry = {.name = name, .length = strlen(name), .slices = d->split[v]};
    return refuse(loops, index, &entry,
                  arena_printf(loops->memory,
                               "uneven slices of %" PRId64
                               " units beside slices of a reduced dim; the nearest even count is %"
                               PRId64,
                               sizes.units[v],
                               division_nearest(sizes.units[v], d->split[v], false)));
}

static spyre_status note(const loop_graph *loops, hinted_dims *dims, const hint_entry *entry,
                         bool used)
{
    for (uint32_t i = 0; i < dims->count; i++) {
        hinted_dim *known = &dims->items[i];
        if (known->hint.length != entry->length) continue;
        if (memcmp(known->hint.name, entry->name, entry->length) != 0) continue;
        known->used |= used;
        return NULL;
    }
    return VEC_PUSH(loops->memory, dims, ((hinted_dim){*entry, used}));
}

static void warn_of_unused(const loop_graph *loops, const hinted_dims *dims)
{
    for (uint32_t i = 0; i < dims->count; i++) {
        const hint_entry *hint = &dims->items[i].hint;
        if (!dims->items[i].used)
            log_warn("work_div %.*s=%" PRId64
                     ": no op of the scope moves along %.*s, so it is left out; %s",
                     (int)hint->length, hint->name, hint->slices, (int)hint->length, hint->name,
                     dim_names_in_use(loops));
    }
}

// A restickify serves the op that was hinted, and is none of the user's.
static spyre_status divide(loop_graph *loops, uint32_t index, hinted_dims *dims, bool *changed)
{
    loop_op *op = &loops->ops.items[index];
    const spyre_graph *graph = loops->graph;
    uint32_t hint = graph->nodes.items[op->node].hint.work_div;
    const char *at = hint ? graph->locations.items[hint] : "";
    hint_entry entry;
    division d = division_whole();
    bool any = false;
    if (op->op == OPFUNC_RESTICKIFY) return NULL;
    while (hint_next_split(&at, &entry)) {
        bool found = false;
        TRY(split(loops, index, &entry, &d, &found));
        TRY(note(loops, dims, &entry, found));
        any |= found;
    }
    if (!any) return NULL;
    TRY(check_uneven(loops, index, &d));
    if (op->divided_by == LOOP_DIVIDED_BY_SPAN)
        log_warn("%s: work_div replaces the slices that the span limit demands",
                 loop_op_place(loops, index));
    span_report(loops, index, &d);
    core_numbers_choose(loops, op, &d);
    division_set(op, &d, LOOP_DIVIDED_BY_HINT);
    *changed = true;
    return NULL;
}

spyre_status pass_hinted_divisions(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    hinted_dims dims = {0};
    if (loops->settings.ignore_work_division_hints) return NULL;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        *loops->at_node = loops->ops.items[i].node;
        TRY(divide(loops, i, &dims, out_changed));
    }
    warn_of_unused(loops, &dims);
    return NULL;
}
