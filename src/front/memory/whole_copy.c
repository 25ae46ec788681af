// SPDX-License-Identifier: Apache-2.0
#include "front/memory/whole_copy.h"

#include "front/ir/division.h"
#include "front/ir/residency.h"

static void add_loop(loop_op *op, int64_t extent, int64_t stride, int32_t split,
                     int32_t core_stride)
{
    uint32_t v = op->var_count++;
    op->extent[v] = extent;
    op->operand[0].stride[v] = op->operand[1].stride[v] = stride;
    op->split[v] = split;
    op->core_stride[v] = core_stride;
}

// Slices that only repeat what other cores have.
static bool add_repeats(const loop_op *near, const loop_access *access, loop_op *out)
{
    for (uint32_t u = 0; u < near->var_count; u++) {
        if (near->split[u] == 1 || access->stride[u]) continue;
        if (out->op != OPFUNC_SHUFFLE || out->var_count == LOOP_MAX_VARS) return false;
        add_loop(out, near->split[u], 0, near->split[u], near->core_stride[u]);
    }
    return true;
}

bool whole_copy_describe(const loop_graph *loops, opfunc op, const loop_op *near,
                         const loop_access *access, uint32_t source, uint32_t target, loop_op *out)
{
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    residency_view view = residency_view_of(loops, near, access);
    bool shorter = loops->settings.uneven_splits && op != OPFUNC_SHUFFLE;
    if (view.why || !residency_has_slices(b, &view, shorter) || b->dim_count > LOOP_MAX_VARS)
        return false;
    *out = (loop_op){.op = op,
                     .name = b->name,
                     .divided_by = near->divided_by,
                     .operand_count = 2,
                     .stick = LOOP_NO_DIM,
                     .location = near->location,
                     .node = near->node};
    out->operand[0].buffer = source;
    out->operand[1].buffer = target;
    for (uint32_t d = b->dim_count; d-- > 0;) {
        if (d == b->stick) out->stick = (uint8_t)out->var_count;
        add_loop(out, b->dim[d].extent, b->dim[d].stride, view.slices[d], view.core_stride[d]);
    }
    if (!add_repeats(near, access, out)) return false;
    division_sizes sizes = division_sizes_of(loops, out);
    for (uint32_t v = 0; v < out->var_count; v++)
        if (!division_cuts(sizes.units[v], out->split[v], shorter)) return false;
    return loop_core_count(out) == loop_core_count(near);
}

spyre_status whole_copy_target(loop_graph *loops, uint32_t original, uint32_t *out)
{
    loop_buffer twin = loops->buffers.items[original];
    twin.kind = LOOP_LOCAL;
    twin.output = -1;
    *out = loops->buffers.count;
    return VEC_PUSH(loops->memory, &loops->buffers, twin);
}
