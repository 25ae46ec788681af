// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/footprint.h"
#include "card/pass/compose_copies/compose.h"

double compose_elements(const plan_tile *tile)
{
    double elements = 1;
    for (uint32_t d = 0; d < tile->dim_count; d++) elements *= (double)tile->extent[d];
    return elements;
}

spyre_status compose_each_in_memory(const translation *t, const plan_kernel *kernel,
                                    compose_touch *fn, void *context)
{
    loop_nest place = kernel->around;
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        const isa_instruction *i = t->program->code.items[at];
        loop_nest_follow(&place, i, at);
        for (uint32_t o = 0; o < i->operand_count; o++)
            if (i->operand[o].space == ISA_SPACE_MEMORY)
                TRY(fn(context, i, o, footprint_range(kernel->source, i, o, &place)));
    }
    return NULL;
}

byte_range compose_range(const composed_kernel *k, const isa_instruction *i, uint32_t o)
{
    const loop_nest none = {0};
    const isa_operand *operand = &i->operand[o];
    const isa_kernel *kernel = k->kernel->source;
    const byte_range first = range_shifted(plan_span(i, o), operand->offset);
    if (operand->space == ISA_SPACE_LX) return first;
    if (operand->slot == ISA_NO_SLOT || operand->slot < kernel->slot_count)
        return footprint_range(kernel, i, o, &none);
    byte_range all = RANGE_NONE;
    const int64_t *added = k->slots.items[operand->slot - kernel->slot_count];
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (isa_is_active(kernel, core)) range_add(&all, range_shifted(first, added[core]));
    return all;
}
