// SPDX-License-Identifier: Apache-2.0
//
// Shape candidates: the rows and sticks that tiles suggest, to be tried one after the other. A
// reduction tells its rows from its sticks, so does an operand that is broadcast along an axis;
// without either a row may end wherever an axis does. A wrong candidate only leads to nested
// strides that do not fit (fit_shape.c).
#include <string.h>

#include "card/row_fusion/shape/row_shape.h"
#include "card/row_fusion/shape/tile_axes.h"

static void add_shape(rows_shapes *shapes, const rows_shape *shape)
{
    for (uint32_t n = 0; n < shapes->count; n++)
        if (memcmp(&shapes->items[n], shape, sizeof *shape) == 0) return;
    if (shapes->count < ROWS_MOST_SHAPES) shapes->items[shapes->count++] = *shape;
}

// One more cut around; level: which of its nest.
static bool add_level(rows_shape *shape, bool sticks, uint32_t level, int64_t extent)
{
    uint32_t *whole = sticks ? &shape->sticks : &shape->rows;
    rows_cut *last = shape->count ? &shape->cuts[shape->count - 1] : NULL;
    if (extent == 1) return true;
    if (*whole * extent > UINT32_MAX) return false;
    *whole *= (uint32_t)extent;
    if (last && last->sticks == sticks && last->level == level) {
        last->extent *= extent;
        return true;
    }
    if (shape->count == ROWS_MOST_CUTS) return false;
    shape->cuts[shape->count++] = (rows_cut){sticks, level, extent};
    return true;
}

static bool is_summed(const rows_axis *a)
{
    return a->stride[0] == 0 && !a->loop;
}

// Of rows_axes of a reduction, how many of its label lie inside of it, as the instruction has them.
static uint32_t level_of(const rows_axes *list, uint32_t at)
{
    uint32_t inside = 0;
    for (uint32_t n = 0; n < list->count; n++) {
        const rows_axis *a = &list->axes[n], *own = &list->axes[at];
        bool alike = is_summed(a) == is_summed(own);
        inside += a->stride[0] != 4 && alike && a->order > own->order;
    }
    return inside;
}

// Rows in the order of memory: the level of another axis of them, number `at`.
static uint32_t row_level(const rows_shape *shape, uint32_t at)
{
    const rows_cut *last = shape->count ? &shape->cuts[shape->count - 1] : NULL;
    return last && !last->sticks ? last->level : at;
}

// Rows of one stick lie side by side, as their sums do: one axis of a tile, two here.
static bool part_rows_from_lanes(rows_axes *list, uint32_t operands, int64_t lanes)
{
    for (uint32_t n = 0; n < list->count; n++) {
        rows_axis rows = list->axes[n];
        if (rows.stride[0] != 4 || rows.loop || rows.extent <= lanes) continue;
        if (rows.extent % lanes || list->count == ROWS_MOST_AXES) return false;
        list->axes[n].extent = lanes;
        rows.extent /= lanes;
        for (uint32_t o = 0; o < operands; o++) rows.stride[o] *= lanes;
        list->axes[list->count++] = rows;
        return true;
    }
    return true;
}

// Axis number `runs` has both runs of a stick at every two indices; ROWS_MOST_AXES: none has.
static void add_reduced(const rows_tile *t, const rows_axes *list, uint32_t runs,
                        rows_shapes *shapes)
{
    rows_shape shape = {.rows = 1, .sticks = 1};
    for (uint32_t n = 0; n < list->count; n++) {
        const rows_axis *a = &list->axes[n];
        const bool sticks = is_summed(a);
        const uint32_t level = t->joined && !sticks ? row_level(&shape, n) : level_of(list, n);
        if (a->stride[0] == 4) continue;
        if (n == runs && a->extent % 2) return;
        if (!add_level(&shape, sticks, level, n == runs ? a->extent / 2 : a->extent)) return;
    }
    add_shape(shapes, &shape);
}

// Sums of IEEE_FP32 have 32 lanes: both runs of a stick join them, or are of two rows' sums, which
// lie side by side where there are 16 bits.
static void guess_from_reduction(const rows_tile *t, rows_shapes *shapes)
{
    rows_axes list;
    uint32_t inmost = ROWS_MOST_AXES;
    bool wide = t->tile->instruction->operand[1].format == SPYRE_FORMAT_IEEE_FP32;
    rows_axes_of(t, &list);
    if (!wide && !part_rows_from_lanes(&list, t->tile->instruction->operand_count, ROWS_LANES))
        return;
    if (!rows_axes_sort(&list, 1)) return;
    // Sums of 64 lanes have both runs of a stick.
    for (uint32_t n = 0; n < list.count; n++)
        wide = wide && (list.axes[n].stride[0] != 4 || list.axes[n].extent != ROWS_LANES);
    for (uint32_t n = list.count; n-- > 0 && wide;)
        if (is_summed(&list.axes[n]) && level_of(&list, n) == 0) inmost = n;
    add_reduced(t, &list, inmost, shapes);
    for (uint32_t n = 0; n < list.count && wide; n++)
        if (list.axes[n].stride[0] != 4 && !is_summed(&list.axes[n]))
            add_reduced(t, &list, n, shapes);
}

// Elements of a stick of what operand 0 has there.
static int64_t stick_elements(const rows_axes *list)
{
    return list->axes[0].stride[0] == 4 ? ROWS_RUN : ROWS_LANES;
}

// An axis along which one operand stands still tells rows (of a line for all of them) from sticks
// (of one element a row).
static void guess_from_broadcast(const rows_axes *list, uint32_t o, rows_shapes *shapes)
{
    const int64_t lanes = stick_elements(list), inner = list->axes[0].extent;
    const bool by_row = list->axes[0].stride[o] == 0;
    rows_shape shape = {.rows = 1, .sticks = 1};
    uint32_t levels[2] = {0};
    bool stands = by_row && inner > lanes, split = lanes == ROWS_LANES;
    if (inner % lanes) return;
    for (uint32_t n = 0; n < list->count; n++) {
        const bool still = list->axes[n].stride[o] == 0, sticks = n == 0 || still == by_row;
        int64_t extent = n == 0 ? inner / lanes : list->axes[n].extent;
        stands = stands || (still && n > 0);
        if (extent == 1) continue;
        if (sticks && !split) {
            if (extent % 2) return;
            extent /= 2;
            split = true;
        }
        if (!add_level(&shape, sticks, levels[sticks], extent)) return;
        levels[sticks] += extent > 1;
    }
    if (stands && split && shape.rows > 1) add_shape(shapes, &shape);
}

static void add_rows_inside(rows_shapes *shapes, int64_t rows, int64_t sticks)
{
    rows_shape shape = {.rows = 1, .sticks = 1};
    if (rows < 1 || sticks < 1) return;
    if (add_level(&shape, false, 0, rows) && add_level(&shape, true, 0, sticks))
        add_shape(shapes, &shape);
}

// Without sums a row may be as long as anything: rows end where rows_axes do.
static void guess_from_axes(const rows_axes *list, rows_shapes *shapes)
{
    int64_t elements = rows_axes_elements(list, true), stick = stick_elements(list), inner = 1;
    for (uint32_t n = 0; n + 1 < list->count; n++) {
        inner *= list->axes[n].extent;
        if (inner % stick == 0 && elements % (inner / stick * ROWS_LANES) == 0)
            add_rows_inside(shapes, inner / stick, elements / (inner / stick * ROWS_LANES));
    }
}

// The rows_axes of a tile over all elements, by rising stride of its result; none of another tile.
static void stream_axes(const rows_tile *t, rows_axes *out)
{
    rows_axes_of(t, out);
    if (t->tile->instruction->opcode != ISA_VECTOR || out->count == 0 ||
        rows_axes_elements(out, true) % ROWS_LANES || !rows_axes_sort(out, 0))
        out->count = 0;
}

void rows_list_candidates(const rows_tiles *tiles, rows_shapes *out_shapes)
{
    int64_t most = 0;
    rows_axes list;
    memset(out_shapes, 0, sizeof *out_shapes);
    for (uint32_t n = 0; n < tiles->count; n++) {
        isa_opcode opcode = tiles->items[n].tile->instruction->opcode;
        if (!isa_reduces(opcode)) continue;
        guess_from_reduction(&tiles->items[n], out_shapes);
        return;
    }
    for (uint32_t n = 0; n < tiles->count; n++) {
        stream_axes(&tiles->items[n], &list);
        if (list.count == 0) continue;
        for (uint32_t o = 1; o < list.operands; o++) guess_from_broadcast(&list, o, out_shapes);
        if (rows_axes_elements(&list, true) > most) most = rows_axes_elements(&list, true);
    }
    add_rows_inside(out_shapes, most / ROWS_LANES, 1);
    for (uint32_t n = 0; n < tiles->count; n++) {
        stream_axes(&tiles->items[n], &list);
        if (list.count && rows_axes_elements(&list, true) == most)
            guess_from_axes(&list, out_shapes);
    }
}
