// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/rows_agree.h"

#include "card/tile/runs.h"

// The only tile of its kernel: loops around it are dims of it.
static bool is_alone(const rows_tiles *tiles, const rows_tile *t)
{
    uint32_t own = 0;
    for (uint32_t n = 0; n < tiles->count; n++) own += tiles->items[n].kernel == t->kernel;
    return own == 1 && !t->outer;
}

// Loops that several tiles share go over rows alone.
static bool loops_are_rows(const rows_tiles *tiles, const rows_tile *t)
{
    return t->outer || is_alone(tiles, t) || t->role > ROWS_REDUCES || t->loops_are_rows;
}

// The tile's result is a per-row value or a stream in LX.
static bool may_stay_inside(const rows_tiles *tiles, const rows_tile *t)
{
    const rows_access *result = &t->operand[0];
    const bool own_loops = t->loops.depth > t->cores;
    bool inside = t->role == ROWS_STREAMS ? !own_loops || is_alone(tiles, t)
                                          : t->role == ROWS_BY_ROW && t->lanes == 1 && !own_loops;
    return inside && result->place.space == ISA_SPACE_LX && result->sums == ROWS_NONE &&
           !result->constant;
}

// With how many kernels, at most `kernels`, no instruction behind them, or of a later iteration,
// reads the tile's result; 0 where its own kernel's end is too late for that.
static uint32_t kernels_without_reader(const rows_window *w, uint32_t kernels, const rows_tile *t)
{
    for (; kernels > t->kernel; kernels--)
        if (!rows_is_read(w, w->first + kernels - 1, t)) return kernels;
    return 0;
}

// An earlier tile's result, which nothing reads behind the row fusion, is marked to stay inside of
// it; false where it may not.
static bool mark_earlier(const rows_window *w, uint32_t kernels, const rows_tiles *tiles,
                         rows_tile *earlier)
{
    if (!earlier->stays_inside)
        earlier->stays_inside = may_stay_inside(tiles, earlier) &&
                                !rows_is_read(w, w->first + kernels - 1, earlier);
    return earlier->stays_inside;
}

// The tile is in order behind all tiles before it. Where results conflict, that of the tile is
// marked to stay inside of the row fusion, of which *fewer kernels may make one where it is read
// behind all of them; else that of the earlier one, over which it lies.
static bool is_in_order(const rows_window *w, uint32_t kernels, const rows_tiles *tiles,
                        rows_tile *t, uint32_t *fewer)
{
    const plan_phase *phases = w->phases + w->first;
    t->stays_inside = false;
    for (rows_tile *other = tiles->items; other <= t; other++) {
        if (rows_in_order(phases, tiles->items, other, t)) continue;
        if (t->stays_inside) return false;
        const uint32_t without =
            may_stay_inside(tiles, t) ? kernels_without_reader(w, kernels, t) : 0;
        if (without > *fewer) *fewer = without;
        if (without == kernels) t->stays_inside = true;
        else if (other == t || !mark_earlier(w, kernels, tiles, other)) return false;
        if (!rows_in_order(phases, tiles->items, other, t)) return false;
    }
    return true;
}

// Finds a way in which the tile, number `at`, has the shape and is in order; rather one in which
// its result may reach LX.
static bool find_way(const rows_window *w, const rows_shape *shape, rows_tiles *tiles,
                     uint32_t at, uint32_t *fewer)
{
    const uint32_t kernels = tiles->items[tiles->count - 1].kernel + 1;
    rows_tile *t = &tiles->items[at], inside;
    rows_tiles earlier = *tiles;
    earlier.count = at;
    bool found = false;
    for (uint32_t way = rows_first_way(shape, t); way < ROWS_WAYS; way++) {
        if (!rows_place_tile(shape, &earlier, way, t) || !loops_are_rows(tiles, t) ||
            !is_in_order(w, kernels, tiles, t, fewer))
            continue;
        if (!t->stays_inside) return true;
        if (!found) inside = *t;
        found = true;
    }
    if (found) *t = inside;
    return found;
}

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
// not be converted, is a norm whose loops keep weights in registers, where fp32 is written, which
// takes longer than what makes it, or where one operand has an element for each stick.
static bool stream_gains_alone(const rows_window *w, const rows_shape *shape, const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const bool narrow = t->operand[0].place.format == SPYRE_FORMAT_SEN169_FP16;
    if (t->role != ROWS_STREAMS || tile_codes(t->tile).run ||
        (uint64_t)shape->rows * shape->sticks < LEAST_STICKS_ALONE)
        return false;
    if (opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY) return cast_gains_alone(w, t);
    if (!narrow || !has_formula(t)) return false;
    for (uint32_t o = 1; o < i->operand_count; o++)
        if (t->operand[o].lane == 0 && !rows_nest_stands(&t->operand[o].place.stick)) return false;
    return true;
}

bool rows_agree(const rows_window *w, const rows_shape *shape, rows_tiles *tiles,
                rows_failure *out_failed)
{
    uint32_t wide = 0, streams = 0, kernels = 0;
    bool reduces = false;
    *out_failed = (rows_failure){UINT32_MAX, 0};
    if (shape->rows < (tiles->items[0].outer ? 1 : 2) || shape->sticks == 0) return false;
    for (uint32_t n = 0; n < tiles->count; n++) {
        rows_tile *t = &tiles->items[n];
        *out_failed = (rows_failure){t->kernel, t->kernel};
        if (!find_way(w, shape, tiles, n, &out_failed->fewer)) return false;
        *out_failed = (rows_failure){UINT32_MAX, 0};
        bool loads = t->tile->instruction->opcode == ISA_LOAD;
        if (loads && n + 1 == tiles->count) return false;
        wide += t->role <= ROWS_REDUCES && !loads;
        streams += t->role == ROWS_STREAMS && !loads;
        kernels = t->kernel + 1;
        reduces = reduces || t->role == ROWS_REDUCES;
    }
    if (kernels > 1) return wide >= 2;
    return (streams >= 1 && wide >= 2) || reduces ||
           (streams == 1 && stream_gains_alone(w, shape, &tiles->items[0]));
}
