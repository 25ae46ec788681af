// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/shape/place_operands.h"

#include <string.h>

#include "card/row_fusion/cores/message_map.h"

const rows_tile *rows_fill_of(const rows_tiles *earlier, const rows_tile *t, uint32_t o)
{
    const isa_operand *operand = &t->tile->instruction->operand[o];
    if (operand->space != ISA_SPACE_LX) return NULL;
    for (uint32_t n = earlier->count; n-- > 0;) {
        const rows_tile *fill = &earlier->items[n];
        if (fill->kernel != t->kernel) return NULL;
        if (fill->tile->instruction->opcode != ISA_FILL) continue;
        if (range_covers(plan_range(fill->tile, 0), plan_range(t->tile, o))) return fill;
    }
    return NULL;
}

static bool moves_alike(const rows_tile *a, const rows_tile *b, uint32_t o)
{
    for (uint32_t n = 0; n < a->loops.depth; n++)
        if (a->tile->instruction->operand[o].loop_stride[n] !=
            b->tile->instruction->operand[0].loop_stride[n])
            return false;
    return true;
}

void rows_set_range(const rows_tile *t, uint32_t o, rows_access *a)
{
    const isa_operand *operand = &t->tile->instruction->operand[o];
    a->range = plan_range(t->tile, o);
    for (uint32_t n = 0; n < t->loops.depth; n++)
        range_repeat(&a->range, operand->loop_stride[n], t->loops.iterations[n]);
}

// What messages bring is read where they come from.
static bool as_sent(const rows_tile *t, uint32_t o, rows_access *a)
{
    const rows_messages *m = t->sent[o];
    if (!m) return true;
    a->range = (byte_range){0, (int64_t)ISA_CORES * ISA_LX_BYTES};
    const bool part = t->role == ROWS_BY_ROW && t->lanes < ROWS_RUN;
    return rows_messages_place(m, part ? t->lanes : ROWS_RUN, a->lane, &a->place);
}

// Lanes and sticks are placed already.
static bool place_sums(const rows_tile *fill, const rows_tile *t, uint32_t o, rows_access *a,
                       const rows_part *parts)
{
    const isa_operand *operand = &t->tile->instruction->operand[o];
    int64_t row;
    rows_part rows = parts[PART_ROW];
    rows_sort_as_sums(rows.pieces, rows.count, o, (uint32_t[ROWS_MOST_AXES]){0});
    if (!rows_one_stride(&rows, o, false, &row)) return false;
    // One iteration's rows lie close together; the others are where the FILL's are.
    bool one_row = row == 0;
    for (uint32_t n = 0; n < parts[PART_ROW].count; n++)
        if (!parts[PART_ROW].pieces[n].loop) one_row = false;
    if (t->lanes > 1 && t->lanes != fill->lanes) return false;
    if ((row != fill->lanes * 4 && !one_row) || !moves_alike(t, fill, o)) return false;
    a->sums = fill->operand[0].sums;
    a->place.offset = operand->offset - fill->tile->instruction->operand[0].offset;
    a->place.row = nested_strides_even(t->rows, ROWS_SUM_ROW);
    // Runs that iterations have each somewhere, such as cores, lie side by side here.
    if (t->upper_loop && a->lane != 0) a->place.upper = ROWS_RUN * a->lane;
    if (t->lanes == ROWS_LANES && a->place.upper != ROWS_RUN * a->lane) return false;
    return a->place.offset >= 0 && a->place.offset < fill->lanes * 4 &&
           nested_strides_stands(&a->place.stick) && operand->format == SPYRE_FORMAT_IEEE_FP32;
}

static bool place_operand(const rows_tiles *earlier, rows_tile *t, uint32_t o,
                          const rows_part *parts)
{
    const isa_operand *operand = &t->tile->instruction->operand[o];
    rows_access *a = &t->operand[o];
    *a = (rows_access){.place = {.space = operand->space,
                                  .format = operand->format,
                                  .arg = operand->arg,
                                  .slot = operand->slot,
                                  .kernel = t->kernel,
                                  .offset = operand->offset},
                        .sums = ROWS_NONE};
    if (operand->space == ISA_SPACE_LX) a->place.arg = a->place.slot = 0;
    memcpy(a->place.outer, operand->loop_stride, t->outer * sizeof *a->place.outer);
    rows_set_range(t, o, a);
    const rows_tile *fill = rows_fill_of(earlier, t, o);
    bool summed = fill && fill->role == ROWS_BY_ROW;
    a->constant = fill && fill->role == ROWS_CONSTANT && o > 0;
    if (a->constant) a->value = fill->tile->instruction->constant[0];
    if (!rows_one_stride(&parts[PART_LANE], o, true, &a->lane) ||
        !rows_one_stride(&parts[PART_UPPER], o, true, &a->place.upper) ||
        !nested_strides_of(&parts[PART_STICK], o, &a->place.stick))
        return false;
    if (a->constant) { // the same in every core
        a->place.row = nested_strides_even(t->rows, 0);
        a->place.upper = 0;
        return a->lane == 0;
    }
    if (!summed) return nested_strides_of(&parts[PART_ROW], o, &a->place.row) && as_sent(t, o, a);
    return place_sums(fill, t, o, a, parts);
}

bool rows_place_operands(const rows_tiles *earlier, rows_tile *t, const rows_part *parts)
{
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++)
        if (!place_operand(earlier, t, o, parts)) return false;
    return true;
}
