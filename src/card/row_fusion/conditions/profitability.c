// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/conditions/profitability.h"

#include "card/tile/runs.h"

enum { LEAST_STICKS_ALONE = 64 };

static bool takes_each_once(const rows_tile *t, const isa_operand *o)
{
    const isa_instruction *i = t->tile->instruction;
    for (uint32_t d = 0; d < i->dim_count; d++)
        if (i->extent[d] > 1 && o->stride[d] == 0) return false;
    for (uint32_t n = 0; n < t->loops.depth; n++)
        if (o->loop_stride[n] == 0) return false;
    return true;
}

// A norm's weight or bias is another for every element, for which tiles have no loop.
static bool has_streams_beside(const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    for (uint32_t o = 4; o < i->operand_count; o++)
        if (takes_each_once(t, &i->operand[o])) return true;
    return false;
}

// Of a table there is none.
static bool has_formula(const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    if (i->op == OPFUNC_LAYERNORMNORM) return has_streams_beside(t);
    return vector_applies(i->op, i->operand_count - 1u);
}

// One of several kernels between barriers: cores go through them one by one.
static bool is_among_kernels(const rows_window *w)
{
    const plan_phase *own = &w->phases[w->first], *next = own + 1;
    const bool goes_on =
        w->first + 1 < w->count && plan_is_plain(next) && next->kernel->no_barrier;
    return own->kernel->no_barrier || goes_on;
}

// A copy that converts gains where a core's share of it goes alone, in short runs, of which a
// vector program has the next ones fetched; all cores as one tile have long runs.
static bool cast_gains_alone(const rows_window *w, const rows_tile *t)
{
    return t->operand[0].place.format != t->operand[1].place.format && is_among_kernels(w);
}

// A stream gains nothing where it is short, where its tile compares or looks up codes, which need
// not be converted, in runs longer than half a stick, where it is a norm whose loops keep weights
// in registers, where fp32 is written, which takes longer than what makes it, or where one operand
// has an element for each stick.
static bool stream_gains_alone(const rows_window *w, const rows_shape *shape, const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const bool narrow = t->operand[0].place.format == SPYRE_FORMAT_SEN169_FP16;
    if (t->role != ROWS_STREAMS || (tile_codes(t->tile).run && !t->half) ||
        (uint64_t)shape->rows * shape->sticks < LEAST_STICKS_ALONE)
        return false;
    if (opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY) return cast_gains_alone(w, t);
    if (!narrow || !has_formula(t)) return false;
    for (uint32_t o = 1; o < i->operand_count; o++)
        if (t->operand[o].lane == 0 && !nested_strides_stands(&t->operand[o].place.stick))
            return false;
    return true;
}

bool rows_are_worth_fusing(const rows_window *w, const rows_shape *shape, const rows_tiles *tiles)
{
    uint32_t wide = 0, streams = 0;
    bool reduces = false, loads = false;
    for (uint32_t n = 0; n < tiles->count; n++) {
        const rows_tile *t = &tiles->items[n];
        loads = t->tile->instruction->opcode == ISA_LOAD;
        wide += t->role <= ROWS_REDUCES && !loads;
        streams += t->role == ROWS_STREAMS && !loads;
        reduces = reduces || t->role == ROWS_REDUCES;
    }
    if (loads) return false;
    if (tiles->items[tiles->count - 1].kernel > 0) return wide >= 2;
    return (streams >= 1 && wide >= 2) || reduces ||
           (streams == 1 && stream_gains_alone(w, shape, &tiles->items[0]));
}
