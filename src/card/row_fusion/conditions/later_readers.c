// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/conditions/later_readers.h"

#include "card/row_fusion/conditions/dependences.h"

// Cores whose LX the row fusion writes.
static uint32_t cores_of(const rows_window *w, uint32_t last)
{
    uint32_t cores = w->phases[last].kernel->source->active_cores;
    for (uint32_t n = w->first; n < last && w->joined; n++)
        cores |= w->phases[n].kernel->source->active_cores;
    return cores;
}

bool rows_part_follows(const rows_window *w, uint32_t last)
{
    return last + 1 < w->count && w->phases[last + 1].kernel &&
           w->phases[last + 1].kernel->order == w->phases[last].kernel->order;
}

bool rows_is_live(const rows_window *w, uint32_t last, byte_range range)
{
    return rows_part_follows(w, last) ||
           lx_read_after(w->lx, w->phases[last].kernel->order, cores_of(w, last), range);
}

bool rows_bytes_are_read(const rows_window *w, uint32_t last, uint32_t writer, byte_range range)
{
    return rows_part_follows(w, last) ||
           lx_read_behind(w->lx, w->phases[w->first + writer].kernel->order,
                          w->phases[last].kernel->order, cores_of(w, last), range);
}

bool rows_is_read(const rows_window *w, uint32_t last, const rows_tile *t)
{
    return rows_bytes_are_read(w, last, t->kernel, t->reach[0]);
}

bool rows_sums_die(const rows_window *w, uint32_t last, const rows_tiles *tiles)
{
    for (uint32_t n = 0; n < tiles->count; n++) {
        const rows_tile *t = &tiles->items[n];
        const bool left_out = t->operand[0].sums != ROWS_NONE || t->role == ROWS_CONSTANT;
        if (left_out && rows_is_live(w, last, t->reach[0])) return false;
    }
    return true;
}

// --- Parts of a row fusion

// An operand that has other elements in other rows.
static bool moves_along(const rows_tile *t, uint32_t o)
{
    const rows_access *a = &t->operand[o];
    return a->sums == ROWS_NONE && !a->constant && t->role != ROWS_CONSTANT &&
           !nested_strides_stands(&a->place.row);
}

// Both have the same elements of an argument.
static bool share_elements(const plan_phase *first, const rows_tile *a, const rows_tile *b)
{
    for (uint32_t x = 0; x < a->tile->instruction->operand_count; x++) {
        if (a->operand[x].place.space != ISA_SPACE_MEMORY || !moves_along(a, x)) continue;
        for (uint32_t y = 0; y < b->tile->instruction->operand_count; y++)
            if (rows_same_place(first, &a->operand[x].place, &b->operand[y].place)) return true;
    }
    return false;
}

bool rows_part_at(const rows_window *w, const rows_tiles *tiles, uint32_t kernels)
{
    const plan_phase *first = w->phases + w->first;
    for (uint32_t n = 0; n < tiles->count; n++) {
        const rows_tile *t = &tiles->items[n];
        if (t->kernel >= kernels) return true;
        if (t->operand[0].place.space == ISA_SPACE_LX && t->operand[0].sums == ROWS_NONE &&
            rows_is_read(w, w->first + kernels - 1, t))
            return false;
        for (uint32_t behind = n + 1; behind < tiles->count; behind++)
            if (tiles->items[behind].kernel >= kernels &&
                share_elements(first, t, &tiles->items[behind]))
                return false;
    }
    return true;
}
