// SPDX-License-Identifier: Apache-2.0
//
// Tiles as rows of sticks of 64 lanes, in two runs of 32: those of IEEE_FP32, whose sticks have 32,
// need not be neighbours. A tile's dims, and the loops around it, are sorted by how far apart they
// lie in one of its operands, then cut where 32 lanes, two runs, a level of rows or of sticks is
// complete; pieces of lanes must make one stride in every operand, those of rows and sticks make a
// nest. Whatever the cut, elements are the same: a wrong guess can only lead to nests that do not
// fit other tiles.
//
//     x [b, c, h, 64] - mean [c]     rows [c], sticks [b, h]: x at [h: 128][b: 16384] of a row,
//                                    the mean one element a row
#include <string.h>

#include "card/row_fusion/cores/message_map.h"
#include "card/row_fusion/fusible_ops.h"
#include "card/row_fusion/shape/place_operands.h"
#include "card/row_fusion/shape/row_shape.h"

static int64_t elements_in(const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    int64_t count = 1;
    for (uint32_t n = t->outer; n < t->loops.depth; n++) count *= t->loops.iterations[n];
    for (uint32_t d = 0; d < i->dim_count; d++) count *= i->extent[d];
    return count;
}

static bool is_spread(const rows_tile *t, const rows_access *a)
{
    const bool plain = a->place.format == SPYRE_FORMAT_SEN169_FP16 ||
                       a->place.format == SPYRE_FORMAT_IEEE_FP32;
    return plain && t->role == ROWS_STREAMS && a->lane == 0;
}

// Each operand has the elements of a run of a stick side by side, those of SEN169_FP16 all of a
// stick's, or one element a row or a stick. Streams have no op for sums.
static bool has_sticks(const rows_tile *t)
{
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++) {
        const rows_access *a = &t->operand[o];
        const bool dl16 = a->place.format == SPYRE_FORMAT_SEN169_FP16;
        if (a->sums != ROWS_NONE && t->role == ROWS_STREAMS) return false;
        if (a->sums != ROWS_NONE) continue;
        if (a->lane == spyre_format_bytes(a->place.format)) {
            if (dl16 && a->place.upper != ROWS_RUN * a->lane) return false;
        } else if (o == 0 || a->lane != 0 || a->place.upper != 0) {
            return false;
        } else if (!nested_strides_stands(&a->place.stick) && !is_spread(t, a)) {
            return false;
        }
    }
    return true;
}

static bool is_even_enough(rows_evenness evenness, const rows_access *a)
{
    const bool lx = a->place.space == ISA_SPACE_LX;
    if (a->lane == 0 && !nested_strides_stands(&a->place.stick)) return evenness == ROWS_UNEVEN;
    if (evenness == ROWS_UNEVEN || (lx && evenness == ROWS_EVEN_IN_MEMORY)) return true;
    return nested_strides_is_even(&a->place.stick) && nested_strides_repeats(&a->place.row);
}

static bool are_even_enough(const rows_shape *shape, const rows_tile *t)
{
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++)
        if (t->operand[o].sums == ROWS_NONE && !is_even_enough(shape->evenness, &t->operand[o]))
            return false;
    return true;
}

// A reduction of the same kernel, or any tile over all elements.
static const rows_tile *cut_before(const rows_tiles *earlier, const rows_tile *t, bool reduces)
{
    for (uint32_t n = earlier->count; n-- > 0 && earlier->items[n].kernel == t->kernel;) {
        const rows_role role = earlier->items[n].role;
        if (role == ROWS_REDUCES || (role == ROWS_STREAMS && !reduces)) return &earlier->items[n];
    }
    return NULL;
}

// Index of the next piece from this one on, of loops alone or of any.
static uint32_t next_piece(const rows_pieces *p, uint32_t at, bool loops)
{
    while (loops && at < p->count && !p->of[at].loop) at++;
    return at;
}

static bool pieces_alike(const rows_pieces *a, const rows_pieces *b, bool loops)
{
    uint32_t x = next_piece(a, 0, loops), y = next_piece(b, 0, loops);
    while (x < a->count && y < b->count) {
        if (a->of[x].loop != b->of[y].loop || a->of[x].extent != b->of[y].extent ||
            a->of[x].rows != b->of[y].rows ||
            (a->of[x].loop && a->of[x].order != b->of[y].order))
            return false;
        x = next_piece(a, x + 1, loops);
        y = next_piece(b, y + 1, loops);
    }
    return x == a->count && y == b->count;
}

// Loops that tiles share go over the same rows in all of them, and so do the sums of reductions.
static bool rows_as_before(const rows_tiles *earlier, const rows_tile *t)
{
    const rows_tile *any = cut_before(earlier, t, false);
    if (!t->joined && t->in_order && (!any || any->in_order)) return true;
    const rows_tile *sums = t->role == ROWS_REDUCES ? cut_before(earlier, t, true) : NULL;
    return (!any || pieces_alike(&t->pieces, &any->pieces, true)) &&
           (!sums || (t->upper_loop == sums->upper_loop &&
                      pieces_alike(&t->pieces, &sums->pieces, false)));
}

// Cuts the tile's axes as they lie in operand `by`.
static bool place_cut(const rows_shape *shape, const rows_tiles *earlier,
                      const rows_label_cuts *cuts, uint32_t by, rows_tile *t)
{
    bool reduces = t->role == ROWS_REDUCES;
    rows_axes list;
    rows_part parts[PARTS];
    rows_axes_of(t, &list);
    if (!rows_axes_sort(&list, by) || !rows_cut_axes(&list, cuts, parts)) return false;
    if (reduces && !rows_keeps_order(&parts[PART_STICK])) return false;
    t->pieces = rows_list_pieces(parts[PART_ROW]);
    t->in_order = rows_keeps_order(&parts[PART_ROW]);
    t->upper_loop = rows_loop_of(&parts[PART_UPPER]);
    if (!rows_as_before(earlier, t)) return false;
    if (reduces && t->lanes == ROWS_RUN && !rows_follows(&parts[PART_UPPER], &parts[PART_STICK]))
        return false;
    if (!rows_place_operands(earlier, t, parts) || !has_sticks(t) || !are_even_enough(shape, t))
        return false;
    // What cores have is apart anyway.
    const bool cores_are_runs = t->upper_loop > 0 && t->upper_loop <= t->cores;
    t->loops_are_rows = !rows_has_loops(&parts[PART_LANE]) && !rows_has_loops(&parts[PART_STICK]) &&
                        (cores_are_runs || !rows_has_loops(&parts[PART_UPPER]));
    return !reduces || (t->operand[0].sums != ROWS_NONE && t->operand[0].lane == 4 &&
                        t->operand[0].place.upper == (t->lanes == ROWS_RUN ? 0 : ROWS_RUN * 4) &&
                        t->operand[0].place.offset == 0);
}

// In which order operand `by` may have its rows and sticks.
typedef enum { AS_BEFORE, AS_SHAPE, STICKS_INSIDE, ROWS_INSIDE, RUNS_INSIDE, ARRANGEMENTS } order;
enum { BY_ROW_AS_VALUES = ARRANGEMENTS * ISA_MAX_OPERANDS, BY_ROW_AS_DIMS };
_Static_assert(ROWS_WAYS == BY_ROW_AS_DIMS + 1, "and two by row");

static bool is_one_a_row(const rows_tile *t, const rows_access *a)
{
    const bool one = t->role == ROWS_BY_ROW ? t->lanes == 1 : a->lane == 0;
    return one && t->role != ROWS_CONSTANT && nested_strides_stands(&a->place.stick);
}

// What an earlier tile has at the place of operand `by`.
static const rows_access *find_before(const rows_tiles *earlier, const rows_tile *t, uint32_t by)
{
    const isa_operand *operand = &t->tile->instruction->operand[by];
    const bool lx = operand->space == ISA_SPACE_LX, by_row = t->role == ROWS_BY_ROW;
    int64_t offset = operand->offset;
    if (t->sent[by] && !rows_messages_offset(t->sent[by], operand->offset, &offset)) return NULL;
    for (uint32_t n = earlier->count; n-- > 0;) {
        const rows_tile *other = &earlier->items[n];
        for (uint32_t o = 0; o < other->tile->instruction->operand_count; o++) {
            const rows_access *a = &other->operand[o];
            const bool suits = by_row ? is_one_a_row(other, a)
                                      : other->role <= ROWS_REDUCES && a->lane != 0;
            if (suits && a->sums == ROWS_NONE && !a->constant &&
                a->place.space == operand->space && a->place.format == operand->format &&
                a->place.offset == offset && (lx || a->place.arg == operand->arg))
                return a;
        }
    }
    return NULL;
}

// The elements of a row, those of a stick in two runs.
static void cut_lanes(uint32_t lanes, rows_label_cuts *cuts)
{
    const uint32_t run = lanes == ROWS_LANES ? ROWS_RUN : lanes;
    rows_add_cut(cuts, PART_LANE, 0, run);
    rows_add_cut(cuts, PART_UPPER, 0, lanes / run);
}

// Sorted by strides, which are positive.
static bool add_sorted(rows_label_cuts *cuts, int64_t *strides, rows_label_cut one, int64_t stride)
{
    uint32_t at = cuts->count++;
    if (stride <= 0) return false;
    for (; at > 0 && strides[at - 1] > stride; at--) {
        cuts->items[at] = cuts->items[at - 1];
        strides[at] = strides[at - 1];
    }
    cuts->items[at] = one;
    strides[at] = stride;
    return true;
}

// A level of an earlier access; of what messages have brought, as the receivers have it.
static bool add_level_before(rows_label_cuts *cuts, int64_t *strides, const rows_messages *turned,
                             rows_label_cut one, int64_t stride)
{
    nested_strides nest = {0};
    if (!turned)
        return nested_strides_add(&nest, one.extent, stride) &&
               (nest.levels == 0 || add_sorted(cuts, strides, one, stride));
    if (!rows_messages_level(turned, one.extent, stride, &nest)) return false;
    for (uint32_t n = 0; n < nest.levels; n++) {
        rows_label_cut piece = {one.of, one.level + n, nest.extent[n]};
        if (cuts->count == ROWS_MOST_LABEL_CUTS ||
            !add_sorted(cuts, strides, piece, nest.stride[n]))
            return false;
    }
    return true;
}

static bool cut_as_before(const rows_access *a, const rows_messages *sent, bool by_row,
                          rows_label_cuts *cuts)
{
    int64_t strides[ROWS_MOST_LABEL_CUTS];
    const nested_strides *nests[2] = {&a->place.row, &a->place.stick};
    rows_messages turned;
    const rows_messages *with = sent ? &turned : NULL;
    const rows_label_cut lanes = {PART_LANE, 0, ROWS_RUN};
    const rows_label_cut runs = {PART_UPPER, 0, ROWS_LANES / ROWS_RUN};
    if (sent && !rows_messages_turn(sent, &turned)) return false;
    if (!by_row &&
        (!add_level_before(cuts, strides, with, lanes, a->lane) ||
         !add_level_before(cuts, strides, with, runs, a->place.upper)))
        return false;
    for (uint32_t of = 0; of < (by_row ? 1 : 2); of++)
        for (uint32_t n = 0; n < nests[of]->levels; n++) {
            const rows_label_cut one = {of ? PART_STICK : PART_ROW, n * NESTED_STRIDES_MOST_LEVELS,
                                        nests[of]->extent[n]};
            if (!add_level_before(cuts, strides, with, one, nests[of]->stride[n])) return false;
        }
    return true;
}

// Sticks of IEEE_FP32 are runs: two of them, the innermost, make one here.
static void cut_as_shape(const rows_shape *shape, bool wide, rows_label_cuts *cuts)
{
    bool split = !wide;
    rows_add_cut(cuts, PART_LANE, 0, ROWS_RUN);
    if (!wide) rows_add_cut(cuts, PART_UPPER, 0, ROWS_LANES / ROWS_RUN);
    for (uint32_t n = 0; n < shape->count; n++) {
        const rows_cut *c = &shape->cuts[n];
        if (!split && c->sticks && c->level == 0) {
            rows_add_cut(cuts, PART_UPPER, 0, ROWS_LANES / ROWS_RUN);
            split = true;
        }
        rows_add_cut(cuts, c->sticks ? PART_STICK : PART_ROW, c->level, c->extent);
    }
    if (!split) rows_add_cut(cuts, PART_UPPER, 0, ROWS_LANES / ROWS_RUN);
}

static void cut_in_two(const rows_shape *shape, order o, rows_label_cuts *cuts)
{
    rows_add_cut(cuts, PART_LANE, 0, ROWS_RUN);
    if (o == RUNS_INSIDE) rows_add_cut(cuts, PART_ROW, 0, shape->rows);
    rows_add_cut(cuts, PART_UPPER, 0, ROWS_LANES / ROWS_RUN);
    if (o == ROWS_INSIDE) rows_add_cut(cuts, PART_ROW, 0, shape->rows);
    rows_add_cut(cuts, PART_STICK, 0, shape->sticks);
    if (o == STICKS_INSIDE) rows_add_cut(cuts, PART_ROW, 0, shape->rows);
}

// Reductions are cut as the elements lie that they read.
static bool is_way(const rows_shape *shape, const rows_tile *t, uint32_t way)
{
    const isa_instruction *i = t->tile->instruction;
    const uint32_t by = way % ISA_MAX_OPERANDS;
    const order o = (order)(way / ISA_MAX_OPERANDS);
    if (by >= i->operand_count || (t->role == ROWS_REDUCES && by != 1)) return false;
    if (o == AS_SHAPE) return shape->count > 0;
    return o != RUNS_INSIDE || i->operand[by].format == SPYRE_FORMAT_IEEE_FP32;
}

static bool place_whole(const rows_shape *shape, const rows_tiles *earlier, uint32_t way,
                        rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const uint32_t by = way % ISA_MAX_OPERANDS;
    const order o = (order)(way / ISA_MAX_OPERANDS);
    rows_label_cuts cuts = {0};
    const bool wide = i->operand[by].format == SPYRE_FORMAT_IEEE_FP32;
    const rows_access *before = o == AS_BEFORE ? find_before(earlier, t, by) : NULL;
    if (o == AS_BEFORE && !before) return false;
    if (t->rest_sticks && t->rest_sticks != shape->sticks) return false;
    const rows_tile *fill = t->role == ROWS_REDUCES ? rows_fill_of(earlier, t, 0) : NULL;
    t->lanes = fill ? fill->lanes : 0;
    if (o == AS_SHAPE) cut_as_shape(shape, wide, &cuts);
    else if (o != AS_BEFORE) cut_in_two(shape, o, &cuts);
    else if (!cut_as_before(before, t->sent[by], false, &cuts)) return false;
    return place_cut(shape, earlier, &cuts, by, t);
}

static bool place_parts(const rows_shape *shape, const rows_tiles *earlier, const rows_axes *list,
                        const rows_label_cuts *cuts, rows_tile *t)
{
    rows_part parts[PARTS];
    rows_clear_parts(parts);
    if (cuts->count && !rows_cut_axes(list, cuts, parts)) return false;
    t->upper_loop = rows_loop_of(&parts[PART_UPPER]);
    if (!rows_place_operands(earlier, t, parts) || !are_even_enough(shape, t)) return false;
    for (uint32_t o = 0; o < list->operands; o++) {
        int64_t *upper = &t->operand[o].place.upper;
        // 0 is for runs that follow each other, not for one that both have.
        if (*upper == 0 && t->operand[o].lane != 0 && t->lanes == ROWS_LANES) return false;
        if (*upper == ROWS_RUN * t->operand[o].lane) *upper = 0;
    }
    return true;
}

// Lanes that operand `by` has one element for come first, as they lie in the result.
static bool sort_as_values(rows_axes *list, uint32_t by)
{
    rows_axes rows = {.operands = list->operands}, lanes = {.operands = list->operands};
    for (uint32_t n = 0; n < list->count; n++) {
        rows_axes *of = list->axes[n].stride[by] == 0 ? &lanes : &rows;
        of->axes[of->count++] = list->axes[n];
    }
    if (!rows_axes_sort(&lanes, 0) || !rows_axes_sort(&rows, by)) return false;
    memcpy(list->axes, lanes.axes, lanes.count * sizeof *lanes.axes);
    memcpy(list->axes + lanes.count, rows.axes, rows.count * sizeof *rows.axes);
    return true;
}

// One element a row where an earlier tile has one, too.
static bool place_as_values(const rows_shape *shape, const rows_tiles *earlier, rows_tile *t)
{
    for (uint32_t by = t->tile->instruction->operand_count; by-- > 0;) {
        const rows_access *before = find_before(earlier, t, by);
        rows_axes list;
        rows_label_cuts rows = {0}, cuts = {0};
        rows_axes_of(t, &list);
        if (!before || !cut_as_before(before, t->sent[by], true, &rows)) continue;
        cut_lanes(t->lanes, &cuts);
        for (uint32_t n = 0; n < rows.count && cuts.count < ROWS_MOST_LABEL_CUTS; n++)
            cuts.items[cuts.count++] = rows.items[n];
        if (sort_as_values(&list, by) && place_parts(shape, earlier, &list, &cuts, t))
            return true;
    }
    return false;
}

// The operand that is sums; ISA_NO_OPERAND where there is none.
static uint32_t find_sums(const rows_tiles *earlier, const rows_tile *t)
{
    for (uint32_t o = t->tile->instruction->operand_count; o-- > 0;) {
        const rows_tile *fill = rows_fill_of(earlier, t, o);
        if (fill && fill->role == ROWS_BY_ROW) return o;
    }
    return ISA_NO_OPERAND;
}

// Rows and lanes in the order of the dims, or as sums lie, and then as the reduction has them.
static bool place_as_dims(const rows_shape *shape, const rows_tiles *earlier, rows_tile *t)
{
    rows_axes list, inward;
    const uint32_t sums = find_sums(earlier, t);
    const bool summed = sums != ISA_NO_OPERAND;
    const rows_tile *cut = summed ? cut_before(earlier, t, true) : NULL;
    rows_label_cuts cuts = {0};
    rows_axes_of(t, &list);
    cut_lanes(t->lanes, &cuts);
    if (!cut) rows_add_cut(&cuts, PART_ROW, 0, shape->rows);
    for (uint32_t n = 0; cut && n < cut->pieces.count; n++)
        rows_add_cut(&cuts, PART_ROW, cut->pieces.of[n].rows, cut->pieces.of[n].extent);
    inward.count = list.count;
    inward.operands = list.operands;
    for (uint32_t n = 0; n < list.count; n++) inward.axes[n] = list.axes[list.count - 1 - n];
    if (summed) rows_sort_as_sums(inward.axes, inward.count, sums, (uint32_t[ROWS_MOST_AXES]){0});
    return place_parts(shape, earlier, &inward, &cuts, t) &&
           (!cut || t->upper_loop == cut->upper_loop);
}

// One element a row, or as many as it has sums. Where values of all cores are that no loop of their
// kernel comes back to, or a kernel without loops has them, may say which rows they are.
static bool place_by_row(const rows_shape *shape, const rows_tiles *earlier, bool as_values,
                         rows_tile *t)
{
    const int64_t elements = elements_in(t);
    const bool summed = find_sums(earlier, t) != ISA_NO_OPERAND, loops = t->loops.depth > t->cores;

    t->lanes = elements == shape->rows ? 1
             : elements == (int64_t)shape->rows * ROWS_RUN ? ROWS_RUN
                                                              : ROWS_LANES;
    if (t->lanes == ROWS_RUN && t->tile->instruction->opcode != ISA_FOLD) return false;
    if (elements != (int64_t)shape->rows * t->lanes) return false;
    if (as_values) return !summed && !loops && place_as_values(shape, earlier, t);
    return (summed || !t->joined || !loops) && place_as_dims(shape, earlier, t);
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
    rows_axes list;
    float value = i->constant[0];
    rows_axes_of(t, &list);
    if (i->operand[0].format != SPYRE_FORMAT_IEEE_FP32 || value != value) return false;
    if (rows_axes_elements(&list, false) == 1 && shape->rows > 1) {
        t->role = ROWS_CONSTANT;
        for (uint32_t n = t->cores; n < t->loops.depth; n++)
            if (i->operand[0].loop_stride[n] != 0) return false;
        rows_part parts[PARTS];
        rows_clear_parts(parts);
        if (!rows_place_operands(&none, t, parts)) return false;
        t->operand[0].constant = true;
        return true;
    }
    t->role = ROWS_BY_ROW;
    uint32_t sums = sums_before(earlier, t->kernel);
    bool dense = t->tile->dim_count == 1 && t->tile->stride[0][0] == 4;
    const int64_t elements = rows_axes_elements(&list, true);
    t->lanes = elements == (int64_t)shape->rows * ROWS_RUN ? ROWS_RUN : ROWS_LANES;
    const int64_t together = rows_axes_elements(&list, false);
    // The other run of a row's sums may be that of the next iteration.
    if (!dense || sums == ROWS_MOST_SUMS || (together % t->lanes && together != ROWS_RUN))
        return false;
    if (elements != (int64_t)shape->rows * t->lanes) return false;
    rows_access *a = &t->operand[0];
    *a = (rows_access){
        .place = {.row = nested_strides_even(t->rows, ROWS_SUM_ROW)}, .lane = 4, .sums = sums};
    rows_set_range(t, 0, a);
    return true;
}

static bool is_whole_row(const rows_tile *t)
{
    const rows_access *a = &t->operand[0];
    return t->lanes > 1 && a->sums != ROWS_NONE && a->place.offset == 0 && a->lane == 4;
}

uint32_t rows_first_way(const rows_shape *shape, const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const bool whole = (isa_reduces(i->opcode) || rows_streams(i)) &&
                       elements_in(t) == (int64_t)shape->rows * shape->sticks * ROWS_LANES;
    return whole ? 0 : BY_ROW_AS_VALUES;
}

bool rows_place_tile(const rows_shape *shape, const rows_tiles *earlier, uint32_t way,
                     rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const bool reduces = isa_reduces(i->opcode);
    t->rows = shape->rows;
    t->sticks = shape->sticks;
    if (way < BY_ROW_AS_VALUES) {
        t->role = reduces ? ROWS_REDUCES : ROWS_STREAMS;
        return is_way(shape, t, way) && place_whole(shape, earlier, way, t);
    }
    if (reduces) return false;
    if (i->opcode == ISA_FILL)
        return way == BY_ROW_AS_DIMS && place_fill(shape, earlier, t);
    t->role = ROWS_BY_ROW;
    if (!place_by_row(shape, earlier, way == BY_ROW_AS_VALUES, t)) return false;
    return i->opcode != ISA_FOLD || (i->extent[i->dim_count - 1] == t->lanes && is_whole_row(t));
}
