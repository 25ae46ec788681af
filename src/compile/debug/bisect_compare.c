// SPDX-License-Identifier: Apache-2.0
#include "compile/debug/bisect_compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/odometer.h"
#include "bundle/step_facts.h"

typedef struct {
    const bundle_step *step;
    const bundle_tensor *t;
    bundle_geometry geometry;
    const bundle_memory *wanted, *found;
    core_difference *at;                    // of the core in work
} comparison;

static int64_t offset_along(const comparison *c, uint32_t d, int64_t index)
{
    const bundle_tensor *t = c->t;
    if (!c->geometry.moves[d]) return 0;
    return bundle_offset_bits(t, &c->geometry, d, index) / 8;
}

static const uint8_t *memory_of(const comparison *c, const bundle_memory *memory)
{
    if (c->t->in_lx) return memory->lx + (size_t)c->at->core * BUNDLE_LX_BYTES;
    return memory->buffers[c->t->arg].bytes;
}

static double distance(double wanted, double found)
{
    double by = fabs(wanted - found);
    return isnan(by) ? INFINITY : by;
}

static void compare_element(const comparison *c, const int64_t *index, int64_t offset)
{
    core_difference *at = c->at;
    const uint8_t *wanted = memory_of(c, c->wanted) + offset;
    const uint8_t *found = memory_of(c, c->found) + offset;
    at->elements++;
    if (memcmp(wanted, found, c->t->element_bytes) == 0) return;
    double expected = element_load(wanted, c->t->format), got = element_load(found, c->t->format);
    bool is_first = at->different++ == 0;
    if (is_first) {
        at->wanted = expected;
        at->found = got;
    }
    if (distance(expected, got) > at->largest) at->largest = distance(expected, got);
    for (uint32_t d = 0; d < c->step->dim_count; d++) {
        int64_t i = bundle_slice_start(c->step, at->core, d) + index[d];
        if (is_first || i < at->first[d]) at->first[d] = i;
        if (is_first || i > at->last[d]) at->last[d] = i;
    }
}

static int64_t count_along(const comparison *c, uint32_t d)
{
    if (!c->geometry.moves[d]) return 1;
    int64_t first = bundle_slice_start(c->step, c->at->core, d);
    int64_t count = bundle_slice_size(c->step, c->at->core, d);
    if (first + count > c->geometry.valid[d]) count = c->geometry.valid[d] - first;
    return count;
}

static void compare_core(const comparison *c)
{
    int64_t index[BUNDLE_MAX_DIMS] = {0}, count[BUNDLE_MAX_DIMS];
    uint32_t dims = c->step->dim_count;
    for (uint32_t d = 0; d < dims; d++) {
        count[d] = count_along(c, d);
        if (count[d] <= 0) return;
    }
    do {
        int64_t offset = bundle_start(c->t, c->at->core);
        for (uint32_t d = 0; d < dims; d++) offset += offset_along(c, d, index[d]);
        compare_element(c, index, offset);
    } while (odometer_next(dims, count, index, NULL, 0));
}

spyre_status bisect_compare(arena *memory, const bundle *b, const bundle_step *step,
                            const bundle_memory *wanted, const bundle_memory *found,
                            core_differences *out)
{
    comparison c = {.step = step, .t = &step->tensors[step->output], .wanted = wanted,
                    .found = found};
    TRY(bundle_tensor_geometry(b, step, step->output, &c.geometry));
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        core_difference at = {.core = core};
        c.at = &at;
        compare_core(&c);
        if (at.different) TRY(VEC_PUSH(memory, out, at));
    }
    return NULL;
}

void bisect_print(const bundle_step *step, const core_differences *differences, text *out)
{
    for (uint32_t i = 0; i < differences->count; i++) {
        const core_difference *at = &differences->items[i];
        text_printf(out, "    core %u: %" PRId64 " of %" PRId64 " elements, in", at->core,
                    at->different, at->elements);
        for (uint32_t d = 0; d < step->dim_count; d++)
            if (step->tensors[step->output].scale[d] > 0)
                text_printf(out, " %s %" PRId64 "..%" PRId64, step->dim_name[d], at->first[d],
                            at->last[d]);
        text_printf(out, ", by up to %.6g; the first is %.9g, not %.9g\n", at->largest, at->found,
                    at->wanted);
    }
}
