// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "card/row_fusion/rows_axes.h"

void rows_axes_of(const rows_tile *t, rows_axes *list)
{
    const isa_instruction *i = t->tile->instruction;
    list->count = 0;
    list->operands = i->operand_count;
    for (uint32_t n = t->outer; n < t->loops.depth; n++) {
        rows_axis a = {.extent = t->loops.iterations[n], .order = list->count, .loop = true};
        for (uint32_t o = 0; o < list->operands; o++) a.stride[o] = i->operand[o].loop_stride[n];
        if (a.extent > 1) list->axes[list->count++] = a;
    }
    for (uint32_t d = 0; d < i->dim_count; d++) {
        rows_axis a = {.extent = i->extent[d], .order = list->count};
        for (uint32_t o = 0; o < list->operands; o++) a.stride[o] = i->operand[o].stride[d];
        if (a.extent > 1) list->axes[list->count++] = a;
    }
}

int64_t rows_axes_elements(const rows_axes *list, bool loops)
{
    int64_t count = 1;
    for (uint32_t n = 0; n < list->count; n++)
        if (loops || !list->axes[n].loop) count *= list->axes[n].extent;
    return count;
}

bool rows_axes_sort(rows_axes *list, uint32_t o)
{
    for (uint32_t n = 0; n < list->count; n++) {
        rows_axis a = list->axes[n];
        uint32_t at = n;
        if (a.stride[o] <= 0) return false;
        for (; at > 0 && list->axes[at - 1].stride[o] > a.stride[o]; at--)
            list->axes[at] = list->axes[at - 1];
        list->axes[at] = a;
    }
    return true;
}

spyre_status rows_set_tile(arena *memory, const isa_instruction *i, rows_tile *t)
{
    plan_tile *tile;
    TRY(plan_copy_tile(memory, i, &tile));
    t->tile = tile;
    return NULL;
}

bool rows_writes_into(const rows_tile *from, const rows_tile *t, uint32_t o)
{
    const isa_operand *result = &from->tile->instruction->operand[0];
    const isa_operand *other = &t->tile->instruction->operand[o];
    const bool same = result->space == other->space &&
                      (result->space == ISA_SPACE_LX || result->arg == other->arg);
    return same && ranges_overlap(from->reach[0], t->reach[o]);
}

void rows_find_reach(rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        t->reach[o] = plan_range(t->tile, o);
        for (uint32_t n = 0; n < t->loops.depth; n++)
            range_repeat(&t->reach[o], i->operand[o].loop_stride[n], t->loops.iterations[n]);
    }
}
