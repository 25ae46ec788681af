// SPDX-License-Identifier: Apache-2.0
//
// Values of rows (maxima, scales) that a chain makes and takes, without a reader behind it: a few
// bytes a row of a block in the first cache, instead of a stick a row in LX.
#include "card/chain/chain_build.h"

// The bytes of LX that a step touches, whole sticks.
static lx_range range_of_step(const chain *c, const chain_step *s)
{
    int64_t rows = s->place.row * (c->rows - 1), sticks = s->place.stick * ((int64_t)c->sticks - 1);
    lx_range r = {s->place.offset, s->place.offset + STRIP_LANES * 2};
    if (rows < 0) r.low += rows;
    else r.high += rows;
    if (sticks < 0) r.low += sticks;
    else r.high += sticks;
    return r;
}

static spyre_format format_of(const chain_item *item, uint32_t o)
{
    return item->made_of->tile->instruction->operand[o].format;
}

static bool in_lx(const chain_operand *o)
{
    return o->sums == CHAIN_NONE && !o->constant && o->place.space == ISA_SPACE_LX &&
           !o->place.own;
}

static bool steps_in_lx(const chain_step *s)
{
    return chain_takes_elements(s->verb) && s->place.space == ISA_SPACE_LX && !s->place.own;
}

// A walk takes the value as it is, or leaves its bytes alone.
static bool walk_suits(const chain_builder *b, const chain_item *walk, const chain_item *maker,
                       lx_range range)
{
    for (uint32_t n = walk->first; n < walk->first + walk->count; n++) {
        const chain_step *s = &b->c->steps.items[n];
        if (!steps_in_lx(s) || !lx_ranges_meet(range_of_step(b->c, s), range)) continue;
        if (maker > walk || s->verb != WALK_WITH_ROWS ||
            format_of(maker, 0) != SPYRE_FORMAT_SEN169_FP16 ||
            !chain_same_place(b->first, &s->place, &maker->operand[0].place))
            return false;
    }
    return true;
}

static bool tile_suits(const chain_builder *b, const chain_item *tile, const chain_item *maker,
                       lx_range range)
{
    const chain_tile *t = tile->made_of;
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++) {
        const chain_access *a = &t->operand[o];
        if (!in_lx(&tile->operand[o]) || !lx_ranges_meet((lx_range){a->low, a->high}, range))
            continue;
        if (tile < maker || (tile == maker && o > 0) || t->lanes != 1 ||
            format_of(tile, o) != format_of(maker, 0) ||
            !chain_same_place(b->first, &a->place, &maker->operand[0].place))
            return false;
    }
    return true;
}

// The first to touch these bytes writes them, and all others mean the same values.
static bool suits(const chain_builder *b, const chain_item *maker)
{
    const chain_access *result = &maker->made_of->operand[0];
    const lx_range range = {result->low, result->high};
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        const chain_item *item = &b->c->items.items[n];
        if (item->count ? !walk_suits(b, item, maker, range)
                        : !tile_suits(b, item, maker, range))
            return false;
    }
    return true;
}

static void move(chain_builder *b, chain_place was, chain_place now)
{
    for (uint32_t n = 0; n < b->c->steps.count; n++) {
        chain_step *s = &b->c->steps.items[n];
        if (steps_in_lx(s) && chain_same_place(b->first, &s->place, &was)) s->place = now;
    }
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        chain_item *item = &b->c->items.items[n];
        for (uint32_t o = 0; item->count == 0 && o < ISA_MAX_OPERANDS; o++) {
            chain_operand *operand = &item->operand[o];
            if (in_lx(operand) && chain_same_place(b->first, &operand->place, &was))
                operand->place = now;
        }
    }
}

void chain_own_rows(chain_builder *b, const bool *tile_live)
{
    int64_t areas = 0;
    for (uint32_t n = 0; n < b->c->items.count && areas < CHAIN_MOST_OWN; n++) {
        const chain_item *item = &b->c->items.items[n];
        if (item->count || tile_live[item->made_of - b->tiles->items]) continue;
        if (!in_lx(&item->operand[0]) || item->made_of->lanes != 1 || !suits(b, item)) continue;
        chain_place own = item->operand[0].place;
        own.own = true;
        own.offset = areas++ * CHAIN_OWN_BYTES;
        own.row = (int64_t)spyre_format_bytes(format_of(item, 0));
        move(b, item->operand[0].place, own);
    }
}

bool chain_divides(const chain *c)
{
    const int64_t bytes = STRIP_LANES * 2;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const chain_step *s = &c->steps.items[n];
        if (s->verb != WALK_STORE && s->verb != WALK_STORE_FOUND) continue;
        int64_t row = s->place.row, stick = s->place.stick;
        bool rows_outside = stick >= 0 && row >= stick * ((int64_t)c->sticks - 1) + bytes;
        bool rows_inside = row >= bytes && stick >= row * (c->rows - 1) + bytes;
        if (!rows_outside && !rows_inside) return false;
    }
    return true;
}
