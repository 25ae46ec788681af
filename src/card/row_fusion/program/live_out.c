// SPDX-License-Identifier: Apache-2.0
//
// Live-out values: what may still be read behind a row fusion. The loops of one kernel are rows, or
// stay around the row fusion: what is in LX then may be handed from iteration to iteration, and is
// live as long as something may read it before it is written again.
#include "card/row_fusion/program/live_out.h"

#include "card/footprint/footprint.h"
#include "card/row_fusion/conditions/dependences.h"
#include "card/row_fusion/conditions/later_readers.h"

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

// The bytes of an argument that a tile writes, over all cores and iterations, as it stands in the
// row fusion: where it is joined, cores are loops of its own, and no parameters.
static byte_range written_by(const rows_window *w, const rows_tile *t)
{
    const plan_kernel *kernel = w->phases[w->first + t->kernel].kernel;
    return footprint_range(kernel->source, t->tile->instruction, 0, &t->loops);
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
    if (!temporary_has(w->temporary, place->arg) || is_loaded(b, place->arg) ||
        rows_part_follows(w, last))
        return false;
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

void rows_find_live_out(const rows_window *w, uint32_t last, const rows_builder *b,
                    rows_live *live)
{
    for (uint32_t v = 0; v < b->value_count; v++) {
        const rows_value *value = &b->values[v];
        byte_range range = range_of(b->tiles, &value->place);
        live->value[v] = value->stored && !value->overwritten;
        if (!live->value[v]) continue;
        if (value->place.space == ISA_SPACE_LX)
            live->value[v] = rows_bytes_are_read(w, last, value->place.kernel, range) ||
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
