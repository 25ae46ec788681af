// SPDX-License-Identifier: Apache-2.0
//
// Scratch for per-row values (maxima, scales) that a row fusion makes and takes, without a reader
// behind it: a few bytes a row of a block in the first cache, instead of a stick a row in LX.
#include <string.h>

#include "base/integer.h"
#include "card/row_fusion/conditions/dependences.h"
#include "card/row_fusion/program/program_builder.h"

static spyre_format format_of(const rows_item *item, uint32_t o)
{
    return item->made_of->tile->instruction->operand[o].format;
}

// Bytes from a row's first element that the item's tile makes to the end of its last.
static int64_t bytes_made(const rows_item *item)
{
    const rows_access *a = &item->made_of->operand[0];
    const bool runs = item->lanes == SIMD_LANES;
    const uint32_t lanes = runs ? SIMD_LANES / 2 : item->lanes;
    const int64_t second = runs ? rows_second_run(a) : 0;
    return second + a->lane * (lanes - 1) + (int64_t)spyre_format_bytes(format_of(item, 0));
}

// A result says nothing of where its element lies.
static bool is_of_values_alone(const isa_instruction *i)
{
    const opfunc_kind kind = opfunc_describe(i->op)->kind;
    return i->opcode == ISA_VECTOR && kind != OPFUNC_KIND_MASK && kind != OPFUNC_KIND_SCAN &&
           kind != OPFUNC_KIND_RANK && !opfunc_makes_pairs(i->op);
}

// The tile makes one element a row, or the same in all lanes.
static bool makes_one(const rows_item *item)
{
    const rows_access *a = item->made_of->operand;
    bool same = is_of_values_alone(item->made_of->tile->instruction) && a[0].lane != 0;
    for (uint32_t o = 1; o < item->operands; o++) same = same && (a[o].constant || a[o].lane == 0);
    return item->lanes == 1 || same;
}

// What divides all strides of the place, those of loops around, and `others`.
static int64_t common_stride(const rows_place *p, int64_t others)
{
    for (uint32_t level = 0; level < p->row.levels; level++)
        others = common_divisor(p->row.stride[level], others);
    for (uint32_t loop = 0; loop < ISA_MAX_LOOPS; loop++)
        others = common_divisor(p->outer[loop], others);
    return others;
}

// Both have one element a row, and none of these is one of the other's.
static bool lie_between(const rows_place *a, int64_t a_bytes, const rows_place *b, int64_t b_bytes)
{
    const int64_t row = common_stride(b, common_stride(a, 0));
    if (row == 0) return false;
    const int64_t behind = ((b->offset - a->offset) % row + row) % row;
    return behind >= a_bytes && behind + b_bytes <= row;
}

// A value of a row, and the bytes of all results at its place, of which one may have more lanes.
typedef struct {
    const rows_item *maker;
    int64_t bytes;                          // from a row's first element on
    byte_range range;                       // of all rows
} row_value;

static row_value value_of(const rows_builder *b, const rows_item *maker)
{
    row_value v = {maker, bytes_made(maker), maker->made_of->reach[0]};
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        const rows_item *item = &b->c->items.items[n];
        if (item->count || !rows_operand_in_lx(&item->operand[0]) ||
            !rows_same_place(b->first, &item->operand[0].place, &maker->operand[0].place))
            continue;
        const byte_range r = item->made_of->reach[0];
        if (bytes_made(item) > v.bytes) v.bytes = bytes_made(item);
        if (r.low < v.range.low) v.range.low = r.low;
        if (r.high > v.range.high) v.range.high = r.high;
    }
    return v;
}

// Loops of its kernel, which come back to bytes of LX; each core has its own.
static bool has_loops(const rows_tile *t)
{
    return t->loops.depth > t->cores;
}

// The one element a row there is the result of a tile between the maker and this item.
static bool is_made_between(const rows_builder *b, const rows_item *maker, const rows_item *item,
                            const rows_place *place)
{
    for (const rows_item *i = maker + 1; i < item; i++)
        if (!i->count && rows_same_place(b->first, &i->operand[0].place, place)) return true;
    return false;
}

// Behind the maker, another result lies over its bytes; fusible_tiles.c has looked whether it may.
static bool stores_over(const rows_builder *b, const rows_item *maker, const rows_item *item,
                      const rows_place *place)
{
    return item > maker && maker->made_of->stays_inside &&
           !rows_same_place(b->first, place, &maker->operand[0].place);
}

// What lies over the maker's bytes is read, one element a row.
static bool reads_over(const rows_builder *b, const rows_item *maker, const rows_item *item,
                       const rows_place *place)
{
    return item > maker && !rows_same_place(b->first, place, &maker->operand[0].place) &&
           is_made_between(b, maker, item, place);
}

// A vector program behind the maker takes the value as it is, or leaves its bytes alone.
static bool program_suits(const rows_builder *b, const rows_item *program, const rows_item *maker,
                          byte_range range)
{
    const bool before = maker > program && !has_loops(maker->made_of);
    for (uint32_t n = program->first; n < program->first + program->count; n++) {
        const rows_step *s = &b->c->steps.items[n];
        if (!rows_step_in_lx(s) || !ranges_overlap(rows_step_range(b->c, s), range)) continue;
        if (before && !rows_same_place(b->first, &s->place, &maker->operand[0].place)) continue;
        if (vector_stores(s->op) && stores_over(b, maker, program, &s->place)) continue;
        if (vector_takes_rows(s->op) && reads_over(b, maker, program, &s->place)) continue;
        if (maker > program || (s->op != VECTOR_ROWS_Y && s->op != VECTOR_ROWS_X) ||
            !rows_same_place(b->first, &s->place, &maker->operand[0].place))
            return false;
    }
    return true;
}

// The item takes what is at the value's place.
static bool takes(const rows_builder *b, const rows_item *item, const rows_item *maker)
{
    const rows_place *made = &maker->operand[0].place;
    for (uint32_t n = item->first; n < item->first + item->count; n++) {
        const rows_step *s = &b->c->steps.items[n];
        if (rows_step_in_lx(s) && rows_same_place(b->first, &s->place, made)) return true;
    }
    for (uint32_t o = 1; !item->count && o < item->operands; o++)
        if (rows_operand_in_lx(&item->operand[o]) &&
            rows_same_place(b->first, &item->operand[o].place, made))
            return true;
    return false;
}

// The item stores over bytes of the value, other than at its place.
static bool overwrites(const rows_builder *b, const rows_item *item, const row_value *v)
{
    const rows_item *maker = v->maker;
    const byte_range range = v->range;
    for (uint32_t n = item->first; n < item->first + item->count; n++) {
        const rows_step *s = &b->c->steps.items[n];
        if (vector_stores(s->op) && rows_step_in_lx(s) && stores_over(b, maker, item, &s->place) &&
            ranges_overlap(rows_step_range(b->c, s), range))
            return true;
    }
    return !item->count && rows_operand_in_lx(&item->operand[0]) &&
           stores_over(b, maker, item, &item->operand[0].place) &&
           ranges_overlap(item->made_of->reach[0], range) &&
           !lie_between(&maker->operand[0].place, v->bytes, &item->operand[0].place,
                        bytes_made(item));
}

static bool tile_suits(const rows_builder *b, const rows_item *tile, const row_value *v)
{
    const rows_tile *t = tile->made_of;
    const rows_item *maker = v->maker;
    const rows_place *made = &maker->operand[0].place;
    for (uint32_t o = 0; o < tile->operands; o++) {
        const rows_access *a = &t->operand[o];
        const bool earlier = tile < maker || (tile == maker && o > 0);
        if (tile == maker && o == 0) continue;
        if (!rows_operand_in_lx(&tile->operand[o]) || !ranges_overlap(t->reach[o], v->range))
            continue;
        const bool same = rows_same_place(b->first, &a->place, made);
        if (earlier && !has_loops(maker->made_of) && !same) continue;
        const bool one = a->lane == 0 || (o == 0 ? makes_one(tile) : t->lanes == 1);
        if (o == 0 && stores_over(b, maker, tile, &a->place)) continue;
        if (o > 0 && one && reads_over(b, maker, tile, &a->place)) continue;
        const int64_t own_bytes =
            o == 0 ? bytes_made(tile) : (int64_t)spyre_format_bytes(format_of(tile, o));
        if (one && lie_between(made, v->bytes, &a->place, own_bytes)) continue;
        if (earlier || !one || !same || format_of(tile, o) != format_of(maker, 0)) return false;
    }
    return true;
}

// Another tile makes a value at the same place that LX must have.
static bool is_made_for_lx(const rows_builder *b, const rows_item *item, const rows_item *maker,
                           const bool *tile_live)
{
    return !item->count && tile_live[item->made_of - b->tiles->items] &&
           rows_operand_in_lx(&item->operand[0]) &&
           rows_same_place(b->first, &item->operand[0].place, &maker->operand[0].place);
}

// Nothing behind the maker touches these bytes but to take the value, or to lie over it when all
// have taken it: a tile may write before it has. What came before took others there, unless a loop
// comes back to it.
static bool suits(const rows_builder *b, const rows_item *maker, const bool *tile_live)
{
    const row_value v = value_of(b, maker);
    bool over = false;
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        const rows_item *item = &b->c->items.items[n];
        over = over || overwrites(b, item, &v);
        if (over && takes(b, item, maker)) return false;
        if (is_made_for_lx(b, item, maker, tile_live)) return false;
        if (item->count ? !program_suits(b, item, maker, v.range) : !tile_suits(b, item, &v))
            return false;
    }
    return true;
}

static void move(rows_builder *b, rows_place was, rows_place now)
{
    for (uint32_t n = 0; n < b->c->steps.count; n++) {
        rows_step *s = &b->c->steps.items[n];
        if (rows_step_in_lx(s) && rows_same_place(b->first, &s->place, &was)) s->place = now;
    }
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        rows_item *item = &b->c->items.items[n];
        for (uint32_t o = 0; o < item->operands; o++) {
            rows_operand *operand = &item->operand[o];
            if (!rows_operand_in_lx(operand) || !rows_same_place(b->first, &operand->place, &was))
                continue;
            operand->place = now;
            if (o == 0) item->lanes = 1;
        }
    }
}

static void move_out(rows_builder *b, const rows_item *item, int64_t area)
{
    rows_place own = item->operand[0].place;
    own.own = true;
    own.offset = area * ROWS_OWN_BYTES;
    memset(own.outer, 0, sizeof own.outer);
    own.row = nested_strides_even(b->c->rows, (int64_t)spyre_format_bytes(format_of(item, 0)));
    move(b, item->operand[0].place, own);
}

// One that goes may make room for another, over whose bytes it lay.
void rows_move_to_scratch(rows_builder *b, const bool *tile_live)
{
    int64_t areas = 0, before = -1;
    while (areas > before && areas < ROWS_MOST_OWN) {
        before = areas;
        for (uint32_t n = 0; n < b->c->items.count && areas < ROWS_MOST_OWN; n++) {
            const rows_item *item = &b->c->items.items[n];
            if (item->count || tile_live[item->made_of - b->tiles->items]) continue;
            if (!rows_operand_in_lx(&item->operand[0]) || !makes_one(item)) continue;
            if (suits(b, item, tile_live)) move_out(b, item, areas++);
        }
    }
}
