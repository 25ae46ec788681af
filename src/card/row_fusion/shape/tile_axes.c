// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/shape/tile_axes.h"

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
