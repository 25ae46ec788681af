// SPDX-License-Identifier: Apache-2.0
//
// Numbers as elements. The card computes no numbers of cores, iterations or elements, but it loads
// them: a memory that holds 0, 1, 2, .. as int32 has every number at an address that is affine in
// it.
#include <string.h>

#include "ktir/lowering.h"

static spyre_status load(lowering *w, const ktir_op *op, const lowered_index *first,
                         int64_t count, const lowered_tensor *target)
{
    lowered_tile tile = {.i = {.opcode = ISA_LOAD, .operand_count = 2}, .rank = 1};
    isa_operand *memory = &tile.i.operand[1];
    int64_t at[ISA_CORES] = {0};
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        if (!(w->active >> c & 1)) continue;
        int64_t low = first->at[c], high = low;
        bool fits = !__builtin_add_overflow(high, count - 1, &high);
        for (uint32_t n = 0; n < w->depth && fits; n++) {
            int64_t reach, *side;
            fits = !__builtin_mul_overflow(first->loop[n], w->trips[n] - 1, &reach);
            side = fits && reach < 0 ? &low : &high;
            fits = fits && !__builtin_add_overflow(*side, reach, side);
        }
        if (!fits) return LOWER_NO(w, op, "numbers beyond 64 bits as elements");
        if (low < 0 || high >= LOWER_COUNTED)
            return LOWER_NO(w, op, "numbers from %lld to %lld as elements: 0 to %d there are",
                            (long long)low, (long long)high, LOWER_COUNTED - 1);
        at[c] = first->at[c] * (int64_t)sizeof(int32_t);
    }
    w->counts = true;
    *memory = (isa_operand){.space = ISA_SPACE_MEMORY, .format = SPYRE_FORMAT_IEEE_INT32,
                            .arg = (uint16_t)(w->first_placed + w->call->placed_count)};
    TRY(lower_slot(w, op, at, &memory->slot));
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
        memory->loop_stride[n] = first->loop[n] * (int64_t)sizeof(int32_t);
    tile.i.operand[0] = (isa_operand){.format = target->format, .offset = target->offset};
    tile.size[0] = count;
    tile.stride[0][0] = tile.stride[1][0] = sizeof(int32_t);
    return lower_tile(w, op, &tile);
}

spyre_status lower_number_tensor(lowering *w, const ktir_op *op, const lowered_index *x,
                                 lowered_tensor *out)
{
    int64_t number;
    if (x->memory != LOWERING_NO_MEMORY) return LOWER_NO(w, op, "an address among elements");
    if (lower_uniform(w, x, &number) && number > -0x7FFFFFFF && number < 0x7FFFFFFF) {
        *out = (lowered_tensor){.is_constant = true, .value = (double)number, .element = KTIR_I32,
                                .format = SPYRE_FORMAT_IEEE_INT32, .is_natural = number >= 0};
        return NULL;
    }
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, 0, NULL, lower_number(w, op), out));
    out->element = KTIR_I32;
    out->is_natural = true;
    return load(w, op, x, 1, out);
}

spyre_status lower_count_along(lowering *w, const ktir_op *op, uint32_t last, uint32_t rank,
                               const int64_t *extent, uint32_t dim, lowered_tensor *out)
{
    static const lowered_index zero = {.memory = LOWERING_NO_MEMORY};
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, 1, &extent[dim], last, out));
    TRY(load(w, op, &zero, extent[dim], out));
    int64_t stride = out->stride[0];
    out->element = KTIR_I32;
    out->is_natural = true;
    out->rank = rank;
    memcpy(out->size, extent, rank * sizeof *extent);
    memset(out->stride, 0, sizeof out->stride);
    out->stride[dim] = stride;
    return NULL;
}
