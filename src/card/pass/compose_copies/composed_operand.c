// SPDX-License-Identifier: Apache-2.0
//
// Places of an operand's elements (contents.h) as one affine operand: its offset and strides
// are those of the first elements along each dim, and all others must agree. Where element n of a
// dim is the first that does not, the dim may be two, the inner one of n elements; or what is in
// front of it is a piece, and so the piece behind it:
//
//     lx+0 .. holds arg0+0, +2, .., +126, arg0+1024, ..    [4096]  ->  [64, 64], strides 1024, 2
#include <stdlib.h>

#include "base/odometer.h"
#include "card/pass/compose_copies/compose.h"
#include "isa/dims.h"

// The strides of an operand in places, and the first index that has another place: `index` of dim
// `dim`, with 0 in the dims outside of it.
typedef struct {
    uint32_t first;
    int64_t stride[ISA_MAX_DIMS];
    uint32_t dim;
    int64_t index;
} places;

isa_instruction compose_merge_dims(const plan_tile *tile)
{
    isa_instruction i = isa_copy(tile->instruction);
    i.dim_count = (uint8_t)tile->dim_count;
    for (uint32_t d = 0; d < tile->dim_count; d++) {
        i.extent[d] = (uint32_t)tile->extent[d];
        for (uint32_t o = 0; o < i.operand_count; o++)
            i.operand[o].stride[d] = tile->stride[o][d];
    }
    return i;
}

static uint32_t place_at(const uint32_t *unit, int64_t bytes)
{
    return unit[bytes / CONTENTS_UNIT_BYTES] & ~CONTENTS_MOVED;
}

static void set_strides(const uint32_t *unit, const isa_instruction *i, const isa_operand *o,
                        places *out)
{
    out->first = place_at(unit, 0);
    for (uint32_t d = 0; d < i->dim_count; d++)
        out->stride[d] = i->extent[d] < 2 ? 0 : (int64_t)place_at(unit, o->stride[d]) -
                                                    (int64_t)out->first;
}

// Of a run; the elements before the first that lies elsewhere.
static int64_t count_alike(const uint32_t *place, int64_t step, int64_t first, int64_t stride,
                           int64_t count, uint32_t units)
{
    for (int64_t n = 0; n < count; n++, place += step, first += stride)
        for (uint32_t k = 0; k < units; k++)
            if ((int64_t)(place[k] & ~CONTENTS_MOVED) != first + k) return n;
    return count;
}

static void note_break(const int64_t *index, uint32_t inner, int64_t at, places *out)
{
    out->dim = inner;
    out->index = at;
    for (uint32_t d = inner; d-- > 0;)
        if (index[d]) {
            out->dim = d;
            out->index = index[d];
        }
}

// True when all elements lie where the strides say. `unit` is of element 0.
static bool are_affine(const uint32_t *unit, const isa_instruction *i, const isa_operand *o,
                       places *out)
{
    const uint32_t inner = i->dim_count - 1u;
    const uint32_t units = spyre_format_bytes(o->format) / CONTENTS_UNIT_BYTES;
    int64_t extent[ISA_MAX_DIMS], index[ISA_MAX_DIMS] = {0};
    for (uint32_t d = 0; d <= inner; d++) extent[d] = i->extent[d];
    set_strides(unit, i, o, out);
    odometer_place at[] = {{o->stride, 0}, {out->stride, out->first}};
    do {
        const int64_t alike = count_alike(unit + at[0].at / CONTENTS_UNIT_BYTES,
                                          o->stride[inner] / CONTENTS_UNIT_BYTES, at[1].at,
                                          out->stride[inner], extent[inner], units);
        if (alike == extent[inner]) continue;
        note_break(index, inner, alike, out);
        return false;
    } while (odometer_next(inner, extent, index, at, 2));
    return true;
}

// The dim of neighbours in the result.
static uint32_t innermost(const isa_instruction *i)
{
    uint32_t inner = i->dim_count - 1u;
    for (uint32_t d = i->dim_count; d-- > 0;)
        if (i->extent[d] > 1 && llabs(i->operand[0].stride[d]) <
                                    llabs(i->operand[0].stride[inner]))
            inner = d;
    return inner;
}

// What is computed reads neighbours; what a copy takes is composed_times.c's.
static bool is_worth_it(const isa_instruction *i, const isa_operand *o, const places *p)
{
    const uint32_t inner = innermost(i);
    return contents_is_copy(i) || i->extent[inner] == 1 ||
           p->stride[inner] * CONTENTS_UNIT_BYTES == spyre_format_bytes(o->format);
}

// The bytes that the places are, in the space of their source.
static bool find_bytes(const contents *c, const isa_instruction *i, const isa_operand *o,
                       const places *p, composed_piece *out)
{
    const content_source *s = contents_source(c, p->first);
    if (!s) return false;
    out->source = s;
    out->low = s->bytes.low + (int64_t)(p->first - s->begin) * CONTENTS_UNIT_BYTES;
    byte_range all = {out->low, out->low + spyre_format_bytes(o->format)};
    for (uint32_t d = 0; d < i->dim_count; d++) {
        out->stride[d] = p->stride[d] * CONTENTS_UNIT_BYTES;
        range_repeat(&all, out->stride[d], i->extent[d]);
    }
    return range_covers(s->bytes, all);
}

// Whether the dim goes on as it breaks: the next block is as far away, and of the same length.
static bool is_periodic(const uint32_t *unit, const isa_operand *o, const places *p,
                        uint32_t extent)
{
    const int64_t block = p->index, step = o->stride[p->dim];
    if (2 * block >= extent) return 2 * block == extent;
    const int64_t second = place_at(unit, block * step), third = place_at(unit, 2 * block * step);
    return third - second == second - p->first &&
           third - place_at(unit, (2 * block - 1) * step) != p->stride[p->dim];
}

// How much of a dim stays in front of a cut: all whole blocks, or one; but whole sticks of what is
// computed. A block of two that are no neighbours is one of one, and part of what follows.
static uint32_t kept_of(const isa_instruction *i, const places *p, bool periodic)
{
    const uint32_t dim = p->dim, extent = i->extent[dim], block = (uint32_t)p->index;
    const int64_t bytes = spyre_format_bytes(i->operand[0].format);
    const bool single = block == 2 && p->stride[dim] * CONTENTS_UNIT_BYTES != bytes;
    const uint32_t kept = periodic ? extent / block * block : single ? 1 : block;
    const uint32_t lanes = SPYRE_STICK_BYTES / (uint32_t)bytes;
    return i->operand[0].stride[dim] == bytes && !contents_is_copy(i) ? kept / lanes * lanes : kept;
}

// Cuts the dim at the break, or what is behind it off; false where neither can be done.
static bool cut_at(const uint32_t *unit, uint32_t operand, const places *p, composed_piece *out)
{
    isa_instruction *i = &out->piece;
    const uint32_t extent = i->extent[p->dim], inner = (uint32_t)p->index;
    const bool periodic = inner > 1 && i->dim_count < ISA_MAX_DIMS &&
                          is_periodic(unit, &i->operand[operand], p, extent);
    if (periodic && extent % inner == 0) {
        isa_split_dim(i, p->dim, inner);
        return true;
    }
    for (uint32_t d = 0; d < p->dim; d++)
        if (i->extent[d] > 1 && !contents_is_copy(i)) return false;
    const uint32_t kept = kept_of(i, p, periodic);
    if (!kept || out->has_rest) return false;
    isa_instruction rest = *i;
    rest.extent[p->dim] = extent - kept;
    for (uint32_t o = 0; o < rest.operand_count; o++)
        rest.operand[o].offset += kept * rest.operand[o].stride[p->dim];
    i->extent[p->dim] = kept;
    out->rest = rest;
    out->has_rest = true;
    return true;
}

bool compose_operand(const contents *c, const isa_kernel *kernel, const isa_instruction *i,
                     uint32_t operand, composed_piece *out)
{
    enum { MOST_CUTS = 12 };
    const isa_operand *o = &out->piece.operand[operand];
    places p;
    *out = (composed_piece){.piece = *i};
    const content_map *map = content_map_of(c->map, c->map_count, o->space, o->arg);
    const int64_t first = contents_first(c, kernel, o);
    const byte_range all = range_shifted(plan_span(i, operand), first);
    if (!map || first % CONTENTS_UNIT_BYTES || !range_covers(map->bytes, all)) return false;
    const uint32_t *unit = content_unit(map, first);
    for (uint32_t n = 0; n < MOST_CUTS && *unit & CONTENTS_MOVED; n++) {
        if (are_affine(unit, &out->piece, o, &p))
            return is_worth_it(&out->piece, o, &p) && find_bytes(c, &out->piece, o, &p, out);
        if (!cut_at(unit, operand, &p, out)) return false;
    }
    return false;
}
