// SPDX-License-Identifier: Apache-2.0
#include "front/ir/division.h"

#include <stdlib.h>

#include "base/integer.h"
#include "front/ir/padded_sizes.h"

division division_get(const loop_op *op)
{
    division d = division_whole();
    for (uint32_t v = 0; v < op->var_count; v++) {
        d.split[v] = op->split[v];
        if (op->split[v] > 1) d.core_stride[v] = op->core_stride[v];
    }
    return d;
}

void division_set(loop_op *op, const division *d, loop_division_origin origin)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        op->split[v] = d->split[v];
        op->core_stride[v] = d->core_stride[v];
    }
    op->divided_by = origin;
}

division division_whole(void)
{
    division d;
    for (uint32_t v = 0; v < LOOP_MAX_VARS; v++) d.split[v] = d.core_stride[v] = 1;
    return d;
}

bool division_equals(const loop_op *op, const division *a, const division *b)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (a->split[v] != b->split[v]) return false;
        if (a->split[v] > 1 && a->core_stride[v] != b->core_stride[v]) return false;
    }
    return true;
}

const char *division_describe(arena *memory, const loop_op *op, const division *d)
{
    const char *out = "";
    for (uint32_t v = 0; v < op->var_count && out; v++)
        if (d->split[v] > 1)
            out = arena_printf(memory, "%s%sc%u/%d%s", out, *out ? " " : "", v, d->split[v],
                               loop_var_is_reduced(op, v) ? "+" : "");
    return out && !*out ? "-" : out;
}

int64_t division_cores(const loop_op *op, const division *d)
{
    int64_t cores = 1;
    for (uint32_t v = 0; v < op->var_count; v++) cores *= d->split[v];
    return cores;
}

bool division_combines(const loop_op *op, uint32_t v)
{
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    if (opfunc_slides(op->op)) return false; // taps stay together
    return loop_var_is_reduced(op, v) &&
           (kind == OPFUNC_KIND_REDUCTION || kind == OPFUNC_KIND_MATMUL);
}

bool division_combines_exactly(const loop_graph *loops, const loop_op *op, uint32_t v)
{
    loop_location place;
    if (!division_combines(op, v) || !opfunc_reduces_exactly(op->op)) return false;
    if (loop_locate(loops, op, &op->operand[0], &place)) return false;
    return place.stick_var == LOOP_NO_DIM || !loop_var_is_reduced(op, place.stick_var);
}

// What sizes of a loop over a symbolic size, or some of its parts (of a concatenation), and a
// number more or less are multiples of; 0 for another loop.
static int64_t granules_of(const spyre_settings *settings, int64_t size, int64_t symbolic,
                           int64_t granule)
{
    if (!symbolic) return 0;
    int64_t parts = (2 * size + symbolic) / (2 * symbolic);
    int64_t more = llabs(size - parts * symbolic);
    if (parts < 1 || parts > settings->symbolic_parts || more > settings->symbolic_offset) return 0;
    return common_divisor(more, parts * granule);
}

static int64_t granule_of(const spyre_settings *settings, int64_t size)
{
    int64_t first = granules_of(settings, size, settings->symbolic_size,
                                settings->symbolic_granule);
    return common_divisor(granules_of(settings, size, settings->second_symbolic_size,
                                      settings->second_symbolic_granule), first);
}

// A loop of a symbolic size stands for loops of any multiple of its granule, which have the slices
// that a granule has.
static bool as_granule(const loop_graph *loops, division_sizes *sizes, uint32_t v)
{
    int64_t granule = granule_of(&loops->settings, sizes->size[v]);
    if (!granule) return false;
    int64_t unit = sizes->size[v] / sizes->units[v];
    sizes->units[v] = granule % unit ? 1 : granule / unit;
    return true;
}

division_sizes division_sizes_of(const loop_graph *loops, const loop_op *op)
{
    division_sizes sizes = {.size = {0}}; // keys of equal ops are equal bytes
    padded_sizes(loops, op, sizes.size, sizes.units);
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool kept = loop_result(op)->stride[v] != 0;
        if (!kept && op->op == OPFUNC_SHUFFLE) continue; // a loop over cores that get the same
        bool follow = loop_var_is_rank(op, v) || loop_var_is_scanned(op, v);
        if (kept ? follow : !division_combines(op, v)) sizes.units[v] = 1;
        sizes.uneven[v] = !as_granule(loops, &sizes, v) && kept && op->op != OPFUNC_SHUFFLE &&
                          loops->settings.uneven_splits && !division_is_published(loops);
    }
    return sizes;
}

static int64_t nearest_divisor(int64_t units, int64_t wanted)
{
    int64_t best = 1;
    for (int64_t d = 1; d <= units / d; d++) {
        if (units % d) continue;
        if (llabs(d - wanted) < llabs(best - wanted)) best = d;
        if (llabs(units / d - wanted) < llabs(best - wanted)) best = units / d;
    }
    return best;
}

int64_t division_nearest(int64_t units, int64_t wanted, bool uneven)
{
    if (wanted < 1) wanted = 1; // counts of hints are any numbers
    if (!uneven) return nearest_divisor(units, wanted);
    if (wanted >= units) return units;
    int64_t length = divide_up(units, wanted);
    int64_t below = divide_up(units, length);
    int64_t above = length > 1 ? divide_up(units, length - 1) : units;
    return wanted - below <= above - wanted ? below : above;
}

bool division_cuts(int64_t units, int64_t slices, bool uneven)
{
    if (slices < 1 || slices > units) return false;
    return units % slices == 0 ||
           (uneven && divide_up(units, divide_up(units, slices)) == slices);
}

int32_t division_largest(int64_t units, int64_t limit, bool uneven)
{
    for (int64_t slices = limit < units ? limit : units; slices > 1; slices--)
        if (division_cuts(units, slices, uneven)) return (int32_t)slices;
    return 1;
}

int64_t division_slice(const division_sizes *sizes, uint32_t v, int32_t split)
{
    if (split == 1) return sizes->size[v];
    return divide_up(sizes->units[v], split) * (sizes->size[v] / sizes->units[v]);
}

bool division_is_uneven(const division_sizes *sizes, uint32_t v, int32_t split)
{
    return sizes->units[v] % split != 0;
}

bool division_shares_uneven(const loop_op *op, const division_sizes *sizes, const division *d)
{
    bool shares = false, uneven = false;
    for (uint32_t v = 0; v < op->var_count; v++) {
        shares |= d->split[v] > 1 && loop_var_is_reduced(op, v);
        uneven |= division_is_uneven(sizes, v, d->split[v]);
    }
    return shares && uneven;
}
