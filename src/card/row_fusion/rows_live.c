// SPDX-License-Identifier: Apache-2.0
//
// What may still be read behind a row fusion. The loops of one kernel are rows, or stay around the
// row fusion: what is in LX then may be handed from iteration to iteration, and is live as long as
// something may read it before it is written again.
#include "card/footprint/footprint.h"
#include "card/row_fusion/rows_agree.h"

// All that is written from the place on.
static byte_range range_of(const rows_tiles *tiles, const rows_place *place)
{
    byte_range range = RANGE_NONE;
    for (uint32_t n = 0; n < tiles->count; n++) {
        const rows_access *a = &tiles->items[n].operand[0];
        if (a->place.space == place->space && a->place.offset == place->offset &&
            a->place.kernel == place->kernel && a->sums == ROWS_NONE)
            range_add(&range, tiles->items[n].reach[0]);
    }
    return range.low <= range.high ? range : (byte_range){0, ISA_LX_BYTES};
}

// Cores whose LX the row fusion writes.
static uint32_t cores_of(const rows_window *w, uint32_t last)
{
    uint32_t cores = w->phases[last].kernel->source->active_cores;
    for (uint32_t n = w->first; n < last && w->joined; n++)
        cores |= w->phases[n].kernel->source->active_cores;
    return cores;
}

bool rows_is_live(const rows_window *w, uint32_t last, byte_range range)
{
    return lx_read_after(w->lx, w->phases[last].kernel->order, cores_of(w, last), range);
}

static bool is_read(const rows_window *w, uint32_t last, uint32_t writer, byte_range range)
{
    return lx_read_behind(w->lx, w->phases[w->first + writer].kernel->order,
                          w->phases[last].kernel->order, cores_of(w, last), range);
}

bool rows_is_read(const rows_window *w, uint32_t last, const rows_tile *t)
{
    return is_read(w, last, t->kernel, t->reach[0]);
}

// In front of instruction `at` of the same iteration something has written what it reads there.
static bool written_before(const rows_window *w, const rows_tiles *tiles, uint32_t at,
                           const rows_place *place)
{
    const plan_phase *first = w->phases + w->first;
    for (uint32_t n = 0; n < at; n++)
        if (rows_same_place(first, &tiles->items[n].operand[0].place, place)) return true;
    return false;
}

// --- Temporary arguments

// The bytes of an argument that an instruction writes, over all cores and iterations.
static byte_range written_by(const rows_window *w, const rows_tile *t)
{
    const plan_kernel *kernel = w->phases[w->first + t->kernel].kernel;
    loop_nest place = kernel->around;
    for (uint32_t at = kernel->begin; at <= t->at; at++)
        loop_nest_follow(&place, w->program->code.items[at], at);
    return footprint_range(kernel->source, t->tile->instruction, 0, &place);
}

// A step loads from the argument, or a tile takes something there.
static bool is_loaded(const rows_builder *b, uint16_t arg)
{
    for (uint32_t n = 0; n < b->c->steps.count; n++) {
        const rows_step *s = &b->c->steps.items[n];
        if (vector_takes_elements(s->op) && !vector_stores(s->op) &&
            s->place.space == ISA_SPACE_MEMORY && s->place.arg == arg)
            return true;
    }
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        const rows_item *item = &b->c->items.items[n];
        for (uint32_t o = 0; o < item->operands; o++) {
            const rows_place *p = &item->operand[o].place;
            if (p->space == ISA_SPACE_MEMORY && p->arg == arg) return true;
        }
    }
    return false;
}

// Neither the row fusion nor anything behind it reads the value from memory.
static bool stays_unread(const rows_window *w, uint32_t last, const rows_builder *b,
                         const rows_place *place)
{
    if (!temporary_has(w->temporary, place->arg) || is_loaded(b, place->arg)) return false;
    for (uint32_t n = 0; n < b->tiles->count; n++) {
        const rows_tile *t = &b->tiles->items[n];
        if (rows_same_place(b->first, &t->operand[0].place, place) &&
            temporary_read_after(w->temporary, w->phases[last].kernel->order, place->arg,
                                 written_by(w, t)))
            return false;
    }
    return true;
}

// --- Values

// With loops around the row fusion: the bytes may be read in a later iteration, by a tile in front
// of which nothing has written them anew.
static bool is_handed_on(const rows_window *w, const rows_tiles *tiles, byte_range range)
{
    for (uint32_t n = 0; n < tiles->count && tiles->items[0].outer; n++) {
        const rows_tile *t = &tiles->items[n];
        for (uint32_t o = 1; o < t->tile->instruction->operand_count; o++) {
            const rows_access *a = &t->operand[o];
            if (a->place.space != ISA_SPACE_LX || a->sums != ROWS_NONE || a->constant) continue;
            if (ranges_overlap(a->range, range) && !written_before(w, tiles, n, &a->place))
                return true;
        }
    }
    return false;
}

// --- Parts of a row fusion

// An operand that has other elements in other rows.
static bool moves_along(const rows_tile *t, uint32_t o)
{
    const rows_access *a = &t->operand[o];
    return a->sums == ROWS_NONE && !a->constant && t->role != ROWS_CONSTANT &&
           !rows_nest_stands(&a->place.row);
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

bool rows_sums_die(const rows_window *w, uint32_t last, const rows_tiles *tiles)
{
    for (uint32_t n = 0; n < tiles->count; n++) {
        const rows_tile *t = &tiles->items[n];
        const bool left_out = t->operand[0].sums != ROWS_NONE || t->role == ROWS_CONSTANT;
        if (left_out && rows_is_live(w, last, t->reach[0])) return false;
    }
    return true;
}

void rows_find_live(const rows_window *w, uint32_t last, const rows_builder *b,
                    rows_live *live)
{
    for (uint32_t v = 0; v < b->value_count; v++) {
        const rows_value *value = &b->values[v];
        byte_range range = range_of(b->tiles, &value->place);
        live->value[v] = value->stored && !value->overwritten;
        if (!live->value[v]) continue;
        if (value->place.space == ISA_SPACE_LX)
            live->value[v] = is_read(w, last, value->place.kernel, range) ||
                             is_handed_on(w, b->tiles, range);
        else live->value[v] = !stays_unread(w, last, b, &value->place);
    }
    for (uint32_t n = 0; n < b->tiles->count; n++) {
        const rows_access *a = &b->tiles->items[n].operand[0];
        live->tile[n] = a->place.space != ISA_SPACE_LX ||
                        rows_is_read(w, last, &b->tiles->items[n]) ||
                        is_handed_on(w, b->tiles, a->range);
    }
}
