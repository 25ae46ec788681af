// SPDX-License-Identifier: Apache-2.0
//
// The shuffle: a tensor in LX moves from the cores that own its slices to cores that own others.
#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/execution.h"

// The core that holds the element at an index of the whole tensor.
static uint32_t owner_of(const execution *x, const bundle_tensor *source, const int64_t *whole)
{
    const bundle_division *o = source->owners;
    for (uint32_t core = 0; core < o->core_count; core++) {
        bool holds = true;
        for (uint32_t d = 0; d < x->step->dim_count && holds; d++) {
            int64_t held = bundle_held_size(x->step, source, d);
            holds = source->scale[d] < 0 || whole[d] / held == o->core_slice[core][d];
        }
        if (holds) return core;
    }
    return 0; // verified: there is one
}

// Bytes from the start of its owner's slice to the element.
static int64_t offset_in_slice(const execution *x, uint32_t tensor, const int64_t *whole)
{
    const operand *o = &x->operands[tensor];
    int64_t bits = 0;
    for (uint32_t d = 0; d < x->step->dim_count; d++) {
        if (!o->geometry.moves[d]) continue;
        int64_t i = whole[d] % bundle_held_size(x->step, o->tensor, d);
        bits += bundle_offset_bits(o->tensor, &o->geometry, d, i);
    }
    return bits / 8;
}

spyre_status interpret_shuffle(execution *x)
{
    const bundle_step *step = x->step;
    uint32_t source = step->inputs[0];
    const bundle_tensor *from = &step->tensors[source];
    int64_t base = execution_start(x, from, 0);
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        int64_t index[BUNDLE_MAX_DIMS] = {0}, whole[BUNDLE_MAX_DIMS];
        do {
            uint8_t *element, *target;
            for (uint32_t d = 0; d < step->dim_count; d++)
                whole[d] = bundle_slice_start(step, core, d) + index[d];
            int64_t offset = base + offset_in_slice(x, source, whole);
            TRY(execution_place_offset(x, source, owner_of(x, from, whole), index, offset,
                                       &element));
            TRY(execution_place(x, step->output, core, index, 0, &target));
            memmove(target, element, from->element_bytes);
        } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}
