// SPDX-License-Identifier: Apache-2.0
//
// Per-row values (maxima, scales) that a row fusion makes and takes, without a reader behind it: a
// few bytes a row of a block in the first cache, instead of a stick a row in LX.
#include <string.h>

#include "card/rows/rows_build.h"

// The bytes of LX that a step touches, whole sticks.
static byte_range range_of_step(const row_fusion *c, const rows_step *s)
{
    byte_range r = {s->place.offset, s->place.offset + SIMD_LANES * 2};
    range_repeat(&r, s->place.row, c->rows);
    range_repeat(&r, s->place.stick, c->sticks);
    for (uint32_t n = 0; n < c->loops; n++)
        range_repeat(&r, s->place.outer[n], c->iterations[n]);
    return r;
}

static spyre_format format_of(const rows_item *item, uint32_t o)
{
    return item->made_of->tile->instruction->operand[o].format;
}

static bool in_lx(const rows_operand *o)
{
    return o->sums == ROWS_NONE && !o->constant && o->place.space == ISA_SPACE_LX &&
           !o->place.own;
}

static bool steps_in_lx(const rows_step *s)
{
    return rows_takes_elements(s->op) && s->place.space == ISA_SPACE_LX && !s->place.own;
}

// A vector program takes the value as it is, or leaves its bytes alone.
static bool program_suits(const rows_builder *b, const rows_item *program, const rows_item *maker,
                       byte_range range)
{
    for (uint32_t n = program->first; n < program->first + program->count; n++) {
        const rows_step *s = &b->c->steps.items[n];
        if (!steps_in_lx(s) || !ranges_overlap(range_of_step(b->c, s), range)) continue;
        if (maker > program || s->op != VECTOR_ROWS_Y ||
            format_of(maker, 0) != SPYRE_FORMAT_SEN169_FP16 ||
            !rows_same_place(b->first, &s->place, &maker->operand[0].place))
            return false;
    }
    return true;
}

static bool tile_suits(const rows_builder *b, const rows_item *tile, const rows_item *maker,
                       byte_range range)
{
    const rows_tile *t = tile->made_of;
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++) {
        const rows_access *a = &t->operand[o];
        if (!in_lx(&tile->operand[o]) || !ranges_overlap(a->range, range))
            continue;
        if (tile < maker || (tile == maker && o > 0) || t->lanes != 1 ||
            format_of(tile, o) != format_of(maker, 0) ||
            !rows_same_place(b->first, &a->place, &maker->operand[0].place))
            return false;
    }
    return true;
}

// The first to touch these bytes writes them, and all others mean the same values.
static bool suits(const rows_builder *b, const rows_item *maker)
{
    const rows_access *result = &maker->made_of->operand[0];
    const byte_range range = result->range;
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        const rows_item *item = &b->c->items.items[n];
        if (item->count ? !program_suits(b, item, maker, range)
                        : !tile_suits(b, item, maker, range))
            return false;
    }
    return true;
}

static void move(rows_builder *b, rows_place was, rows_place now)
{
    for (uint32_t n = 0; n < b->c->steps.count; n++) {
        rows_step *s = &b->c->steps.items[n];
        if (steps_in_lx(s) && rows_same_place(b->first, &s->place, &was)) s->place = now;
    }
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        rows_item *item = &b->c->items.items[n];
        for (uint32_t o = 0; item->count == 0 && o < ISA_MAX_OPERANDS; o++) {
            rows_operand *operand = &item->operand[o];
            if (in_lx(operand) && rows_same_place(b->first, &operand->place, &was))
                operand->place = now;
        }
    }
}

void rows_make_private(rows_builder *b, const bool *tile_live)
{
    int64_t areas = 0;
    for (uint32_t n = 0; n < b->c->items.count && areas < ROWS_MOST_OWN; n++) {
        const rows_item *item = &b->c->items.items[n];
        if (item->count || tile_live[item->made_of - b->tiles->items]) continue;
        if (!in_lx(&item->operand[0]) || item->made_of->lanes != 1 || !suits(b, item)) continue;
        rows_place own = item->operand[0].place;
        own.own = true;
        own.offset = areas++ * ROWS_OWN_BYTES;
        memset(own.outer, 0, sizeof own.outer);
        own.row = (int64_t)spyre_format_bytes(format_of(item, 0));
        move(b, item->operand[0].place, own);
    }
}

bool rows_divides(const row_fusion *c)
{
    if (c->loops) return false;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const rows_step *s = &c->steps.items[n];
        if (s->op != VECTOR_STORE && s->op != VECTOR_STORE_LOOK_UP) continue;
        if (!rows_lie_apart(&s->place, c->rows, c->sticks)) return false;
    }
    return true;
}
