// SPDX-License-Identifier: Apache-2.0
//
// Queries of a row fusion: which bytes its steps touch, and what it does with an argument.
#include "card/row_fusion/row_fusion.h"

bool rows_step_in_lx(const rows_step *s)
{
    return vector_takes_elements(s->op) && s->place.space == ISA_SPACE_LX && !s->place.own;
}

bool rows_operand_in_lx(const rows_operand *o)
{
    return o->sums == ROWS_NONE && !o->constant && o->place.space == ISA_SPACE_LX &&
           !o->place.own;
}

// The range over all indices but those of cores.
static void reach_in_core(const nested_strides *n, bool cores, byte_range *range)
{
    for (uint32_t level = 0; level < n->levels; level++)
        if (!cores || n->stride[level] % ISA_LX_BYTES != 0)
            range_repeat(range, n->stride[level], n->extent[level]);
}

byte_range rows_step_range(const row_fusion *c, const rows_step *s)
{
    const int64_t bytes = SIMD_LANES / 2 * spyre_format_bytes(s->place.format);
    const bool cores = c->joined && s->place.space == ISA_SPACE_LX;
    const int64_t offset = cores ? s->place.offset % ISA_LX_BYTES : s->place.offset;
    byte_range r = {offset, offset + bytes};
    range_repeat(&r, s->place.upper, 2);
    reach_in_core(&s->place.row, cores, &r);
    reach_in_core(&s->place.stick, cores, &r);
    for (uint32_t n = 0; n < c->loops; n++)
        range_repeat(&r, s->place.outer[n], c->iterations[n]);
    return cores && r.high > ISA_LX_BYTES ? (byte_range){0, ISA_LX_BYTES} : r;
}

bool rows_takes_halves(const row_fusion *c, uint32_t argument)
{
    if (c->half) return false;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const rows_step *s = &c->steps.items[n];
        if (vector_takes_elements(s->op) && s->place.space == ISA_SPACE_MEMORY &&
            s->place.arg == argument && s->place.format != SPYRE_FORMAT_SEN169_FP16)
            return false;
        // The host's rows end where the elements do.
        if (s->rest) return false;
    }
    for (uint32_t n = 0; n < c->items.count; n++) {
        const rows_item *item = &c->items.items[n];
        for (uint32_t o = 0; o < item->operands; o++) {
            const rows_place *p = &item->operand[o].place;
            bool there = item->operand[o].sums == ROWS_NONE && !item->operand[o].constant;
            if (there && !p->own && p->space == ISA_SPACE_MEMORY && p->arg == argument)
                return false;
        }
    }
    return true;
}

void rows_add_uses(const row_fusion *c, uint32_t argument, rows_uses *uses)
{
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const rows_step *s = &c->steps.items[n];
        if (!vector_takes_elements(s->op) || s->place.space != ISA_SPACE_MEMORY ||
            s->place.arg != argument)
            continue;
        if (vector_stores(s->op)) uses->stores = true;
        else uses->loads = true;
    }
}

bool rows_takes_kept(uint32_t op)
{
    return vector_describe(op)->at == VECTOR_KEPT || op == VECTOR_APPLY + OPFUNC_WHERE3 ||
           op == VECTOR_APPLY_F32 + OPFUNC_WHERE3;
}
