// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/shape/cut_axes.h"

void rows_add_cut(rows_label_cuts *cuts, rows_label of, uint32_t level, int64_t extent)
{
    if (extent > 1) cuts->items[cuts->count++] = (rows_label_cut){of, level, extent};
}

static bool add_piece(rows_part *p, const rows_axis *whole, uint32_t level, int64_t before,
                      int64_t extent)
{
    if (p->count == ROWS_MOST_AXES) return false;
    rows_axis piece = *whole;
    uint32_t at = p->count++;
    piece.extent = extent;
    piece.level = level;
    piece.before = before;
    for (uint32_t o = 0; o < ISA_MAX_OPERANDS; o++) piece.stride[o] *= before;
    for (; at > 0 && p->pieces[at - 1].level > level; at--) p->pieces[at] = p->pieces[at - 1];
    p->pieces[at] = piece;
    return true;
}

void rows_clear_parts(rows_part *parts)
{
    for (uint32_t n = 0; n < PARTS; n++) parts[n].count = 0;
}

bool rows_cut_axes(const rows_axes *list, const rows_label_cuts *cuts, rows_part *parts)
{
    uint32_t at = 0;
    int64_t left = cuts->items[0].extent;
    rows_clear_parts(parts);
    for (uint32_t n = 0; n < list->count; n++) {
        int64_t rest = list->axes[n].extent, before = 1;
        while (rest > 1) {
            if (left == 1) {
                if (++at >= cuts->count) return false;
                left = cuts->items[at].extent;
            }
            const rows_label_cut *now = &cuts->items[at];
            int64_t extent = rest < left ? rest : left;
            if (rest % extent != 0 || left % extent != 0) return false;
            if (!add_piece(&parts[now->of], &list->axes[n], now->level, before, extent))
                return false;
            before *= extent;
            rest /= extent;
            left /= extent;
        }
    }
    return left == 1 && at + 1 >= cuts->count;
}

bool rows_one_stride(const rows_part *p, uint32_t o, bool loops, int64_t *out_stride)
{
    int64_t extent = 1;
    bool any = false;
    *out_stride = 0;
    for (uint32_t n = 0; n < p->count; n++) {
        if (p->pieces[n].loop && !loops) continue;
        if (!any) *out_stride = p->pieces[n].stride[o];
        else if (p->pieces[n].stride[o] != *out_stride * extent) return false;
        any = true;
        extent *= p->pieces[n].extent;
    }
    return true;
}

bool nested_strides_of(const rows_part *p, uint32_t o, nested_strides *out)
{
    *out = (nested_strides){0};
    for (uint32_t n = 0; n < p->count; n++)
        if (!nested_strides_add(out, p->pieces[n].extent, p->pieces[n].stride[o])) return false;
    return true;
}

bool rows_keeps_order(const rows_part *p)
{
    for (uint32_t n = 1; n < p->count; n++)
        if (p->pieces[n].order > p->pieces[n - 1].order) return false;
    return true;
}

// As sums lie in operand o; loops, in whose iterations they may lie at one place, around them.
static bool is_inside(const rows_axis *a, const rows_axis *b, uint32_t o)
{
    if (a->loop != b->loop) return b->loop;
    if (!a->loop) return a->stride[o] < b->stride[o];
    return a->order > b->order || (a->order == b->order && a->before < b->before);
}

void rows_sort_as_sums(rows_axis *of, uint32_t count, uint32_t o, uint32_t *rows)
{
    for (uint32_t n = 1; n < count; n++) {
        const rows_axis a = of[n];
        const uint32_t own = rows[n];
        uint32_t at = n;
        for (; at > 0 && is_inside(&a, &of[at - 1], o); at--) {
            of[at] = of[at - 1];
            rows[at] = rows[at - 1];
        }
        of[at] = a;
        rows[at] = own;
    }
}

rows_pieces rows_list_pieces(rows_part p)
{
    uint32_t rows[ROWS_MOST_AXES];
    rows_pieces list = {.count = p.count};
    int64_t inner = 1;
    for (uint32_t n = 0; n < p.count; inner *= p.pieces[n++].extent) rows[n] = (uint32_t)inner;
    rows_sort_as_sums(p.pieces, p.count, 0, rows);
    for (uint32_t n = 0; n < p.count; n++) {
        list.of[n].extent = p.pieces[n].extent;
        list.of[n].order = p.pieces[n].order;
        list.of[n].loop = p.pieces[n].loop;
        list.of[n].rows = rows[n];
    }
    return list;
}

bool rows_follows(const rows_part *inner, const rows_part *outer)
{
    return !inner->count || !outer->count || inner->pieces[0].order >= outer->pieces[0].order;
}

uint32_t rows_loop_of(const rows_part *p)
{
    const bool one = p->count == 1 && p->pieces[0].loop && p->pieces[0].before == 1;
    return one ? p->pieces[0].order + 1 : 0;
}

bool rows_has_loops(const rows_part *p)
{
    for (uint32_t n = 0; n < p->count; n++)
        if (p->pieces[n].loop) return true;
    return false;
}
