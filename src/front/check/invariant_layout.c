// SPDX-License-Identifier: Apache-2.0
//
// Invariants of layouts and of the division over cores.
#include <inttypes.h>

#include "front/check/invariant.h"
#include "front/front.h"
#include "front/ir/division.h"
#include "front/ir/padded_sizes.h"

#define BROKEN(...) status_new(SPYRE_INTERNAL, __VA_ARGS__)

spyre_status invariant_laid_out(const loop_graph *loops, const loop_op *op,
                                const loop_access *access)
{
    (void)op;
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    bool seen[LOOP_MAX_DIMS] = {false};
    if (!buffer->has_layout) return BROKEN("it has none");
    if (buffer->stick != LOOP_NO_DIM && buffer->stick >= buffer->dim_count)
        return BROKEN("its stick is dim %u of %u", buffer->stick, buffer->dim_count);
    for (uint32_t i = 0; i < buffer->dim_count; i++) {
        uint8_t d = buffer->order[i];
        if (d >= buffer->dim_count || seen[d])
            return BROKEN("place %u of the order is dim %u of %u%s", i, d, buffer->dim_count,
                          d < buffer->dim_count ? ", for the second time" : "");
        seen[d] = true;
    }
    return NULL;
}

spyre_status invariant_expressible(const loop_graph *loops, const loop_op *op,
                                   const loop_access *access)
{
    loop_location place;
    const char *why = loop_locate(loops, op, access, &place);
    return why ? BROKEN("%s", why) : NULL;
}

spyre_status invariant_carried_stick(const loop_graph *loops, const loop_op *op)
{
    const loop_access *result = loop_result(op);
    const loop_buffer *buffer = &loops->buffers.items[result->buffer];
    loop_location place;
    if (op->stick == LOOP_NO_DIM || loop_stick_var(op, result, buffer) == op->stick) return NULL;
    const char *why = loop_locate(loops, op, result, &place);
    if (!why && place.stick_var == op->stick) return NULL;
    if (place.stick_var == LOOP_NO_DIM)
        return BROKEN("the stick loop is c%u, the result has its stick along none", op->stick);
    return BROKEN("the stick loop is c%u, the result has its stick along c%u", op->stick,
                  place.stick_var);
}

spyre_status invariant_transferable(const loop_graph *loops, const loop_buffer *buffer)
{
    (void)loops;
    if (buffer->output < 0 || !buffer->has_layout) return NULL;
    loop_buffer host = *buffer;
    loop_set_dims(&host);
    if (buffer->dim_count != host.dim_count)
        return BROKEN("%u dims, its host tensor has %u", buffer->dim_count, host.dim_count);
    for (uint32_t d = 0; d < host.dim_count; d++) {
        const loop_dim *is = &buffer->dim[d], *should = &host.dim[d];
        if (is->extent != should->extent || is->stride != should->stride)
            return BROKEN("dim %u of extent %" PRId64 " and stride %" PRId64
                          ", its host tensor's has %" PRId64 " and %" PRId64,
                          d, is->extent, is->stride, should->extent, should->stride);
    }
    return NULL;
}

// --- Division

// Slices are numbered like the digits of a core's number: each divided loop has a place value, and
// it is the product of the loops below it.
spyre_status invariant_numbered_cores(const loop_graph *loops, const loop_op *op)
{
    (void)loops;
    bool done[LOOP_MAX_VARS] = {false};
    int64_t place = 1;
    for (uint32_t turn = 0; turn < op->var_count; turn++) {
        uint32_t least = LOOP_NO_DIM;
        for (uint32_t v = 0; v < op->var_count; v++)
            if (!done[v] && op->split[v] > 1 &&
                (least == LOOP_NO_DIM || op->core_stride[v] < op->core_stride[least]))
                least = v;
        if (least == LOOP_NO_DIM) return NULL;
        if (op->core_stride[least] != place)
            return BROKEN("slices of c%u are %d cores apart, %" PRId64 " would tell them apart",
                          least, op->core_stride[least], place);
        done[least] = true;
        place *= op->split[least];
    }
    return NULL;
}

spyre_status invariant_even_slices(const loop_graph *loops, const loop_op *op)
{
    int64_t size[LOOP_MAX_VARS], units[LOOP_MAX_VARS], cores = 1;
    padded_sizes(loops, op, size, units);
    for (uint32_t v = 0; v < op->var_count; v++) {
        cores *= op->split[v];
        if (!division_cuts(units[v], op->split[v], loops->settings.uneven_splits))
            return BROKEN("c%u of %" PRId64 " elements, %" PRId64 " units, in %d slices", v,
                          op->extent[v], units[v], op->split[v]);
    }
    return cores <= loops->cores ? NULL
                                 : BROKEN("%" PRId64 " slices for %u cores", cores, loops->cores);
}
