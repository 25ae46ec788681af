// SPDX-License-Identifier: Apache-2.0
//
// Numbers as elements. The card computes no numbers of cores, iterations or elements, but it loads
// them: a memory that holds 0, 1, 2, .. as int32 has every number at an address that is affine in
// it. One that is larger, or negative, is such a number times a factor, plus a constant.
#include <string.h>

#include "base/integer.h"
#include "ktir/lower/lowering.h"

// The least and the greatest number of a core, over all iterations.
static bool find_range(const lowering *w, const lowered_index *x, uint32_t core, int64_t *out_low,
                       int64_t *out_high)
{
    bool fits = true;
    *out_low = *out_high = x->at[core];
    for (uint32_t n = 0; n < w->depth && fits; n++) {
        int64_t reach, *side;
        fits = !__builtin_mul_overflow(x->loop[n], w->trips[n] - 1, &reach);
        side = fits && reach < 0 ? out_low : out_high;
        fits = fits && !__builtin_add_overflow(*side, reach, side);
    }
    return fits && *out_low > -INT32_MAX && *out_high < INT32_MAX;
}

// Of numbers from 0 on.
static spyre_status load(lowering *w, const ktir_op *op, const lowered_index *first,
                         int64_t count, const lowered_tensor *target)
{
    lowered_tile tile = {.i = {.opcode = ISA_LOAD, .operand_count = 2}, .rank = 1};
    isa_operand *memory = &tile.i.operand[1];
    int64_t at[ISA_CORES] = {0};
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        int64_t low, high;
        if (!(w->active >> c & 1)) continue;
        if (!find_range(w, first, c, &low, &high) || high + count > LOWER_COUNTED)
            return LOWER_NO(w, op, "more than %d different numbers as elements", LOWER_COUNTED);
        at[c] = first->at[c] * (int64_t)sizeof(int32_t);
    }
    w->counts = true;
    *memory = (isa_operand){.space = ISA_SPACE_MEMORY, .format = SPYRE_FORMAT_IEEE_INT32,
                            .arg = (uint16_t)w->memory_count};
    TRY(lower_slot(w, op, at, &memory->slot));
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
        memory->loop_stride[n] = first->loop[n] * (int64_t)sizeof(int32_t);
    tile.i.operand[0] = (isa_operand){.format = target->format, .offset = target->offset};
    tile.size[0] = count;
    tile.stride[0][0] = tile.stride[1][0] = sizeof(int32_t);
    return lower_tile(w, op, &tile);
}

// x = *out_factor * *out_count + *out_least, where counts begin at 0.
static spyre_status split_number(lowering *w, const ktir_op *op, const lowered_index *x,
                                 lowered_index *out_count, int64_t *out_factor, int64_t *out_least)
{
    int64_t least = INT64_MAX, factor = 0;
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        int64_t low, high;
        if (!(w->active >> c & 1)) continue;
        if (!find_range(w, x, c, &low, &high))
            return LOWER_NO(w, op, "numbers beyond 32 bits as elements");
        if (least < INT64_MAX) factor = common_divisor(factor, low - least);
        if (low < least) least = low;
    }
    for (uint32_t n = 0; n < w->depth; n++) factor = common_divisor(factor, x->loop[n]);
    if (!factor) factor = 1;
    *out_count = *x;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (w->active >> c & 1) out_count->at[c] = (x->at[c] - least) / factor;
    for (uint32_t n = 0; n < w->depth; n++) out_count->loop[n] /= factor;
    *out_factor = factor;
    *out_least = least;
    return NULL;
}

static spyre_status with_constant(lowering *w, const ktir_op *op, opfunc function,
                                  const lowered_tensor *t, int64_t number)
{
    const lowered_tensor constant = lower_constant(t->format, (double)number);
    return lower_vector(w, op, function, t, (const lowered_tensor *[]){t, &constant}, 2);
}

static spyre_status make_number(lowering *w, const ktir_op *op, const lowered_index *x,
                                lowered_tensor *out);

// What cores and each loop add to a number, made one by one.
static spyre_status make_sum(lowering *w, const ktir_op *op, const lowered_index *x,
                             lowered_tensor *out)
{
    lowered_index part = *x;
    memset(part.loop, 0, sizeof part.loop);
    TRY(make_number(w, op, &part, out));
    memset(part.at, 0, sizeof part.at);
    for (uint32_t n = 0; n < w->depth; n++) {
        lowered_tensor term;
        if (!x->loop[n]) continue;
        part.loop[n] = x->loop[n];
        TRY(make_number(w, op, &part, &term));
        TRY(LOWER_VECTOR(ADD, out, out, &term));
        part.loop[n] = 0;
    }
    return NULL;
}

// Whether a sum makes it simpler.
static bool has_parts(const lowering *w, const lowered_index *x)
{
    uint32_t parts = 0;
    for (uint32_t n = 0; n < w->depth; n++) parts += x->loop[n] != 0;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (w->active >> c & 1 && x->at[c]) return parts > 0;
    return parts > 1;
}

static spyre_status make_number(lowering *w, const ktir_op *op, const lowered_index *x,
                                lowered_tensor *out)
{
    int64_t factor = 1, least = 0, low, high;
    lowered_index count;
    bool counted = true;
    TRY(split_number(w, op, x, &count, &factor, &least));
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (w->active >> c & 1)
            counted = counted && find_range(w, &count, c, &low, &high) && high < LOWER_COUNTED;
    if (!counted && has_parts(w, x)) return make_sum(w, op, x, out);
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, (lowered_sizes){0, NULL}, lower_number(w, op),
                      out));
    TRY(load(w, op, &count, 1, out));
    if (factor != 1) TRY(with_constant(w, op, OPFUNC_MUL, out, factor));
    return least ? with_constant(w, op, OPFUNC_ADD, out, least) : NULL;
}

static bool is_natural(const lowering *w, const lowered_index *x)
{
    bool natural = true;
    int64_t low, high;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (w->active >> c & 1) natural = natural && find_range(w, x, c, &low, &high) && low >= 0;
    return natural;
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
    TRY(make_number(w, op, x, out));
    out->element = KTIR_I32;
    out->is_natural = is_natural(w, x);
    return NULL;
}

spyre_status lower_number_of(lowering *w, const ktir_op *op, const lowered_index *x,
                             ktir_element element, lowered_tensor *out)
{
    spyre_format format = ktir_element_describe(element)->format;
    lowered_tensor number;
    TRY(lower_number_tensor(w, op, x, &number));
    *out = number;
    out->element = element;
    if (number.format == format) return NULL;
    TRY(lower_scratch(w, op, format, (lowered_sizes){0, NULL}, lower_number(w, op), out));
    out->element = element;
    return LOWER_VECTOR(IDENTITY, out, &number);
}

spyre_status lower_count_along(lowering *w, const ktir_op *op, uint32_t last, lowered_sizes space,
                               uint32_t dim, lowered_tensor *out)
{
    static const lowered_index zero = {.memory = LOWERING_NO_MEMORY};
    const lowered_sizes along = {1, &space.size[dim]};
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, along, last, out));
    TRY(load(w, op, &zero, space.size[dim], out));
    int64_t stride = out->stride[0];
    out->element = KTIR_I32;
    out->is_natural = true;
    out->rank = space.rank;
    memcpy(out->size, space.size, space.rank * sizeof *space.size);
    memset(out->stride, 0, sizeof out->stride);
    out->stride[dim] = stride;
    return NULL;
}
