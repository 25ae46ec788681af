// SPDX-License-Identifier: Apache-2.0
//
// Tiles as rows of sticks of 64 lanes, in two runs of 32: those of IEEE_FP32, whose sticks have 32,
// need not be neighbours. A tile's dims, and the loops around it, are sorted by how far apart they
// lie in its principal operand, then cut where 32 lanes, two runs, a row or a stick is complete;
// the pieces of each must make one stride in every operand. Whatever the cut, elements are the
// same: a wrong guess can only lead to strides that do not fit other tiles.
//
// Sums are the exception: fp32 in LX that a FILL begins, as many a row as a stick has lanes. Their
// places may repeat from iteration to iteration of a loop; a row fusion has places of its own for
// them.
#include <string.h>

#include "card/rows/rows_build.h"

enum {
    LANES = SIMD_LANES,
    RUN = LANES / 2,
    SUM_ROW = LANES * 4,                    // of the row fusion's own
    MOST_AXES = ISA_MAX_DIMS + ISA_MAX_LOOPS,
};

typedef struct {
    int64_t extent, stride[ISA_MAX_OPERANDS];
    uint32_t order;                         // outermost first
    bool loop;
} axis;

typedef struct {
    uint32_t count, operands;
    axis axes[MOST_AXES];
} axes;

static axes list_axes(const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    axes list = {.operands = i->operand_count};
    for (uint32_t n = t->outer; n < t->loops.depth; n++) {
        axis a = {.extent = t->loops.iterations[n], .order = list.count, .loop = true};
        for (uint32_t o = 0; o < list.operands; o++) a.stride[o] = i->operand[o].loop_stride[n];
        if (a.extent > 1) list.axes[list.count++] = a;
    }
    for (uint32_t d = 0; d < i->dim_count; d++) {
        axis a = {.extent = i->extent[d], .order = list.count};
        for (uint32_t o = 0; o < list.operands; o++) a.stride[o] = i->operand[o].stride[d];
        if (a.extent > 1) list.axes[list.count++] = a;
    }
    return list;
}

static int64_t elements_of(const axes *list, bool loops)
{
    int64_t count = 1;
    for (uint32_t n = 0; n < list->count; n++)
        if (loops || !list->axes[n].loop) count *= list->axes[n].extent;
    return count;
}

// By rising stride of operand o; false when a stride is not positive.
static bool sort_axes(axes *list, uint32_t o)
{
    for (uint32_t n = 0; n < list->count; n++) {
        axis a = list->axes[n];
        uint32_t at = n;
        if (a.stride[o] <= 0) return false;
        for (; at > 0 && list->axes[at - 1].stride[o] > a.stride[o]; at--)
            list->axes[at] = list->axes[at - 1];
        list->axes[at] = a;
    }
    return true;
}

// --- Pieces

typedef enum { LANE, UPPER, ROW, STICK, LABELS } label;

// A piece of an axis, innermost first.
typedef struct {
    uint32_t count;
    axis pieces[MOST_AXES];
} part;

static bool add_piece(part *p, const axis *whole, int64_t before, int64_t extent)
{
    if (p->count == MOST_AXES) return false;
    axis *piece = &p->pieces[p->count++];
    *piece = *whole;
    piece->extent = extent;
    for (uint32_t o = 0; o < ISA_MAX_OPERANDS; o++) piece->stride[o] *= before;
    return true;
}

// Cuts the axes, innermost first, where the extents of the labels are complete.
static bool cut(const axes *list, const label *order, const int64_t *extents, part *parts)
{
    uint32_t level = 0;
    int64_t left = extents[0];
    for (uint32_t n = 0; n < list->count; n++) {
        int64_t rest = list->axes[n].extent, before = 1;
        while (rest > 1) {
            while (left == 1) {
                if (++level == LABELS) return false;
                left = extents[level];
            }
            int64_t now = rest < left ? rest : left;
            if (rest % now != 0 || left % now != 0) return false;
            if (!add_piece(&parts[order[level]], &list->axes[n], before, now)) return false;
            before *= now;
            rest /= now;
            left /= now;
        }
    }
    for (; left == 1 && level + 1 < LABELS; level++) left = extents[level + 1];
    return left == 1;
}

// The stride of a part in operand o, whose loops may be left out; false when it is not one stride.
static bool one_stride(const part *p, uint32_t o, bool loops, int64_t *out_stride)
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

// The rows after which an operand begins again: the outer pieces of a part stand still in it. 0
// when it does not.
static uint32_t drop_period(part *p, uint32_t o)
{
    int64_t period = 1;
    uint32_t moving = p->count;
    while (moving > 0 && p->pieces[moving - 1].stride[o] == 0) moving--;
    if (moving == 0 || moving == p->count) return 0;
    for (uint32_t n = 0; n < moving; n++) period *= p->pieces[n].extent;
    p->count = moving;
    return (uint32_t)period;
}

// Rows and sticks come in the order of the instruction's dims, outer ones later.
static bool keeps_order(const part *p)
{
    for (uint32_t n = 1; n < p->count; n++)
        if (p->pieces[n].order > p->pieces[n - 1].order) return false;
    return true;
}

// The inner part comes behind the outer one in the order of the dims, or out of the same.
static bool follows(const part *inner, const part *outer)
{
    return !inner->count || !outer->count || inner->pieces[0].order >= outer->pieces[0].order;
}

// --- Sums

uint32_t rows_sums_of(spyre_format format)
{
    return format == SPYRE_FORMAT_IEEE_FP32 ? RUN : LANES;
}

// The FILL of the same kernel before the tile that covers what operand o touches in LX.
static const rows_tile *fill_of(const rows_tiles *earlier, const rows_tile *t, uint32_t o)
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

// --- Operands

// Over all iterations, of loops that stay outside, too.
static void set_range(const rows_tile *t, uint32_t o, rows_access *a)
{
    const isa_operand *operand = &t->tile->instruction->operand[o];
    a->range = plan_range(t->tile, o);
    for (uint32_t n = 0; n < t->loops.depth; n++)
        range_repeat(&a->range, operand->loop_stride[n], t->loops.iterations[n]);
}

static bool place_operand(const rows_tiles *earlier, rows_tile *t, uint32_t o,
                          const part *parts)
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
    set_range(t, o, a);
    const rows_tile *fill = fill_of(earlier, t, o);
    bool summed = fill && fill->role == ROWS_BY_ROW;
    a->constant = fill && fill->role == ROWS_CONSTANT && o > 0;
    if (a->constant) a->value = fill->tile->instruction->constant[0];
    part rows = parts[ROW];
    if (o > 0 && !summed) a->place.period = drop_period(&rows, o);
    if (!one_stride(&parts[LANE], o, true, &a->lane) ||
        !one_stride(&parts[UPPER], o, true, &a->place.upper) ||
        !one_stride(&parts[STICK], o, true, &a->place.stick) ||
        !one_stride(&rows, o, !summed, &a->place.row))
        return false;
    if (!summed) return true;
    // One iteration's rows lie close together; the others are where the FILL's are.
    bool one_row = a->place.row == 0;
    for (uint32_t n = 0; n < parts[ROW].count; n++)
        if (!parts[ROW].pieces[n].loop) one_row = false;
    if (t->lanes > 1 && t->lanes != fill->lanes) return false;
    if ((a->place.row != fill->lanes * 4 && !one_row) || !moves_alike(t, fill, o)) return false;
    a->sums = fill->operand[0].sums;
    a->place.offset = operand->offset - fill->tile->instruction->operand[0].offset;
    a->place.row = SUM_ROW;
    return a->place.offset >= 0 && a->place.offset < fill->lanes * 4 && a->place.stick == 0 &&
           operand->format == SPYRE_FORMAT_IEEE_FP32;
}

static bool place_operands(const rows_tiles *earlier, rows_tile *t, const part *parts)
{
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++)
        if (!place_operand(earlier, t, o, parts)) return false;
    return true;
}

// --- Tiles

// Each operand has the elements of a run of a stick side by side, those of SEN169_FP16 all of a
// stick's, or one element a row. Of sums a stream reads no more than that.
static bool has_sticks(const rows_tile *t)
{
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++) {
        const rows_access *a = &t->operand[o];
        const bool dl16 = a->place.format == SPYRE_FORMAT_SEN169_FP16;
        if (a->sums != ROWS_NONE && t->role == ROWS_STREAMS && a->lane != 0) return false;
        if (a->sums != ROWS_NONE) continue;
        if (a->lane == spyre_format_bytes(a->place.format)) {
            if (dl16 && a->place.upper != RUN * a->lane) return false;
        } else if (o == 0 || a->lane != 0 || a->place.upper != 0 || a->place.stick != 0) {
            return false;
        }
    }
    return true;
}

static bool has_loops(const part *p)
{
    for (uint32_t n = 0; n < p->count; n++)
        if (p->pieces[n].loop) return true;
    return false;
}

// Cuts the tile's axes in this order, innermost first.
static bool place_cut(const rows_shape *shape, const rows_tiles *earlier, rows_tile *t,
                      const label *order)
{
    const int64_t of[LABELS] = {RUN, LANES / RUN, shape->rows, shape->sticks};
    bool reduces = t->role == ROWS_REDUCES;
    axes list = list_axes(t);
    part parts[LABELS] = {0};
    int64_t extents[LABELS];
    for (uint32_t n = 0; n < LABELS; n++) extents[n] = of[order[n]];
    if (!sort_axes(&list, reduces ? 1 : 0) || !cut(&list, order, extents, parts)) return false;
    if (reduces && (!keeps_order(&parts[STICK]) || !keeps_order(&parts[ROW]))) return false;
    if (reduces && t->lanes == RUN && !follows(&parts[UPPER], &parts[STICK])) return false;
    if (!place_operands(earlier, t, parts) || !has_sticks(t)) return false;
    t->loops_are_rows = !has_loops(&parts[LANE]) && !has_loops(&parts[UPPER]) &&
                        !has_loops(&parts[STICK]) && keeps_order(&parts[ROW]);
    return !reduces || (t->operand[0].sums != ROWS_NONE && t->operand[0].lane == 4 &&
                        t->operand[0].place.upper == (t->lanes == RUN ? 0 : RUN * 4) &&
                        t->operand[0].place.offset == 0);
}

// The tile's principal operand may have its sticks the other way round.
static bool place_whole(const rows_shape *shape, const rows_tiles *earlier, rows_tile *t)
{
    static const label orders[2][LABELS] = {{LANE, UPPER, STICK, ROW}, {LANE, UPPER, ROW, STICK}};
    static const label wide[LABELS] = {LANE, ROW, UPPER, STICK};
    const isa_instruction *i = t->tile->instruction;
    const spyre_format format = i->operand[t->role == ROWS_REDUCES].format;
    axes list = list_axes(t);
    t->lanes = t->role == ROWS_STREAMS ? 0 : rows_sums_of(format);
    if (elements_of(&list, true) != (int64_t)shape->rows * shape->sticks * LANES) return false;
    if (shape->sticks_outside && format == SPYRE_FORMAT_IEEE_FP32 &&
        place_cut(shape, earlier, t, wide))
        return true;
    return place_cut(shape, earlier, t, orders[shape->sticks_outside]) ||
           place_cut(shape, earlier, t, orders[!shape->sticks_outside]);
}

// One element a row, or as many as it has sums, rows and lanes in the order of the dims.
static bool place_by_row(const rows_shape *shape, const rows_tiles *earlier, rows_tile *t)
{
    axes list = list_axes(t), inward;
    part parts[LABELS] = {0};
    const label order[LABELS] = {LANE, ROW, UPPER, STICK};
    int64_t elements = elements_of(&list, true);
    t->lanes = elements == shape->rows ? 1 : elements == (int64_t)shape->rows * RUN ? RUN : LANES;
    const int64_t extents[LABELS] = {t->lanes, shape->rows, 1, 1};
    if (t->lanes == RUN && t->tile->instruction->opcode != ISA_FOLD) return false;
    if (elements != (int64_t)shape->rows * t->lanes) return false;
    inward = list;
    for (uint32_t n = 0; n < list.count; n++) inward.axes[n] = list.axes[list.count - 1 - n];
    return cut(&inward, order, extents, parts) && place_operands(earlier, t, parts);
}

static uint32_t sums_before(const rows_tiles *earlier, uint32_t kernel)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < earlier->count; n++) {
        const rows_tile *t = &earlier->items[n];
        count += t->kernel == kernel && t->role == ROWS_BY_ROW &&
                 t->tile->instruction->opcode == ISA_FILL;
    }
    return count;
}

static bool place_fill(const rows_shape *shape, const rows_tiles *earlier, rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const rows_tiles none = {0};
    axes list = list_axes(t);
    float value = i->constant[0];
    if (i->operand[0].format != SPYRE_FORMAT_IEEE_FP32 || value != value) return false;
    if (elements_of(&list, false) == 1 && shape->rows > 1) {
        t->role = ROWS_CONSTANT;
        for (uint32_t n = 0; n < t->loops.depth; n++)
            if (i->operand[0].loop_stride[n] != 0) return false;
        part parts[LABELS] = {0};
        if (!place_operands(&none, t, parts)) return false;
        t->operand[0].constant = true;
        return true;
    }
    t->role = ROWS_BY_ROW;
    uint32_t sums = sums_before(earlier, t->kernel);
    bool dense = t->tile->dim_count == 1 && t->tile->stride[0][0] == 4;
    t->lanes = elements_of(&list, true) == (int64_t)shape->rows * RUN ? RUN : LANES;
    if (!dense || sums == ROWS_MOST_SUMS || elements_of(&list, false) % t->lanes) return false;
    if (elements_of(&list, true) != (int64_t)shape->rows * t->lanes) return false;
    rows_access *a = &t->operand[0];
    *a = (rows_access){.place = {.row = SUM_ROW}, .lane = 4, .sums = sums};
    set_range(t, 0, a);
    return true;
}

static bool is_whole_row(const rows_tile *t)
{
    const rows_access *a = &t->operand[0];
    return t->lanes > 1 && a->sums != ROWS_NONE && a->place.offset == 0 && a->lane == 4;
}

bool rows_place_tile(const rows_shape *shape, const rows_tiles *earlier, rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    t->rows = shape->rows;
    t->sticks = shape->sticks;
    if (i->opcode == ISA_FILL) return place_fill(shape, earlier, t);
    t->role = ROWS_REDUCES;
    if (i->opcode == ISA_REDUCE || i->opcode == ISA_REDUCESQ)
        return place_whole(shape, earlier, t);
    t->role = ROWS_STREAMS;
    if (rows_streams(i) && place_whole(shape, earlier, t)) return true;
    t->role = ROWS_BY_ROW;
    if (!place_by_row(shape, earlier, t)) return false;
    return i->opcode != ISA_FOLD || (i->extent[i->dim_count - 1] == t->lanes && is_whole_row(t));
}

// --- The shape

static void add_shape(rows_shapes *shapes, int64_t rows, int64_t sticks, bool sticks_outside)
{
    const rows_shape shape = {(uint32_t)rows, (uint32_t)sticks, sticks_outside};
    if (rows < 1 || sticks < 1 || rows > UINT32_MAX || sticks > UINT32_MAX) return;
    for (uint32_t n = 0; n < shapes->count; n++)
        if (shapes->items[n].rows == shape.rows && shapes->items[n].sticks == shape.sticks &&
            shapes->items[n].sticks_outside == sticks_outside)
            return;
    if (shapes->count < ROWS_MOST_SHAPES) shapes->items[shapes->count++] = shape;
}

static void guess_from_reduction(const rows_tile *t, rows_shapes *shapes)
{
    axes list = list_axes(t);
    int64_t sticks = 1, nearest[2] = {INT64_MAX, INT64_MAX};
    for (uint32_t n = 0; n < list.count; n++) {
        const axis *a = &list.axes[n];
        if (a->stride[0] == 4) continue;
        bool stick = a->stride[0] == 0 && !a->loop;
        if (stick) sticks *= a->extent;
        if (a->stride[1] < nearest[stick]) nearest[stick] = a->stride[1];
    }
    const int64_t lanes = rows_sums_of(t->tile->instruction->operand[1].format);
    int64_t rows = elements_of(&list, true) / lanes / sticks;
    if (sticks * lanes % LANES == 0)
        add_shape(shapes, rows, sticks * lanes / LANES, nearest[1] > nearest[0]);
}

// Elements of a stick of what operand 0 has there.
static int64_t stick_elements(const axes *list)
{
    return list->axes[0].stride[0] == 4 ? RUN : LANES;
}

// An axis along which one operand stands still tells rows (of a line for all of them) from sticks
// (of one element a row).
static void guess_from_broadcast(const axes *list, uint32_t o, rows_shapes *shapes)
{
    int64_t elements = elements_of(list, true) / stick_elements(list), still = 1, first = -1;
    bool by_row = list->axes[0].stride[o] == 0;
    for (uint32_t n = 1; n < list->count; n++) {
        if (list->axes[n].stride[o] != 0) continue;
        still *= list->axes[n].extent;
        if (first < 0) first = n;
    }
    if (still == 1 || elements % still != 0 || still >= elements) return;
    int64_t rows = by_row ? elements / still : still;
    add_shape(shapes, rows, elements_of(list, true) / LANES / rows, by_row == (first > 1));
}

// Without sums a row may be as long as anything: rows end where axes do.
static void guess_from_axes(const axes *list, rows_shapes *shapes)
{
    int64_t elements = elements_of(list, true), stick = stick_elements(list), inner = 1;
    for (uint32_t n = 0; n + 1 < list->count; n++) {
        inner *= list->axes[n].extent;
        if (inner % stick == 0 && elements % (inner / stick * LANES) == 0)
            add_shape(shapes, inner / stick, elements / (inner / stick * LANES), true);
    }
}

// The axes of a tile over all elements, by rising stride of its result; none of another tile.
static axes stream_axes(const rows_tile *t)
{
    axes list = list_axes(t);
    if (t->tile->instruction->opcode != ISA_VECTOR || list.count == 0 ||
        elements_of(&list, true) % LANES || !sort_axes(&list, 0))
        list.count = 0;
    return list;
}

void rows_guess_shapes(const rows_tiles *tiles, rows_shapes *out_shapes)
{
    int64_t most = 0;
    out_shapes->count = 0;
    for (uint32_t n = 0; n < tiles->count; n++) {
        isa_opcode opcode = tiles->items[n].tile->instruction->opcode;
        if (opcode != ISA_REDUCE && opcode != ISA_REDUCESQ) continue;
        guess_from_reduction(&tiles->items[n], out_shapes);
        return;
    }
    for (uint32_t n = 0; n < tiles->count; n++) {
        axes list = stream_axes(&tiles->items[n]);
        if (list.count == 0) continue;
        for (uint32_t o = 1; o < list.operands; o++) guess_from_broadcast(&list, o, out_shapes);
        if (elements_of(&list, true) > most) most = elements_of(&list, true);
    }
    add_shape(out_shapes, most / LANES, 1, true);
    for (uint32_t n = 0; n < tiles->count; n++) {
        axes list = stream_axes(&tiles->items[n]);
        if (list.count && elements_of(&list, true) == most) guess_from_axes(&list, out_shapes);
    }
}
