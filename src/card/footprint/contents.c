// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/contents.h"

#include <string.h>

#include "base/odometer.h"
#include "base/target_clones.h"

enum { MOST_SOURCES = 4096, UNIT = CONTENTS_UNIT_BYTES };

// --- Maps

spyre_status content_map_make(arena *memory, isa_space space, uint16_t arg, byte_range bytes,
                              content_map *out)
{
    bytes.low -= ((bytes.low % UNIT) + UNIT) % UNIT;
    bytes.high += bytes.high % UNIT;
    *out = (content_map){.space = space, .arg = arg, .bytes = bytes};
    TRY_NEW(memory, out->unit, (size_t)((bytes.high - bytes.low) / UNIT) + 1);
    return NULL;
}

const content_map *content_map_of(const content_map *maps, uint32_t count, isa_space space,
                                  uint16_t arg)
{
    for (uint32_t n = 0; n < count; n++)
        if (maps[n].space == space && (space == ISA_SPACE_LX || maps[n].arg == arg))
            return &maps[n];
    return NULL;
}

static const content_map *map_of(const contents *c, isa_space space, uint16_t arg)
{
    return content_map_of(c->map, c->map_count, space, arg);
}

// --- Sources

static uint32_t units_of(byte_range r)
{
    return (uint32_t)((r.high - r.low) / UNIT);
}

static spyre_status add_source(contents *c, const content_source *source, uint32_t *out)
{
    const int64_t units = (source->bytes.high - source->bytes.low) / UNIT;
    *out = c->sources.count;
    c->full = c->full || c->sources.count == MOST_SOURCES || units >= CONTENTS_MOVED - c->next;
    if (c->full) return NULL;
    TRY(VEC_PUSH(c->memory, &c->sources, *source));
    c->sources.items[*out].begin = c->next;
    c->sources.items[*out].behind = c->behind;
    c->next += (uint32_t)units;
    return NULL;
}

static void lose(contents *c, isa_space space, uint16_t arg, byte_range range)
{
    for (uint32_t n = 0; n < c->sources.count; n++) {
        content_source *s = &c->sources.items[n];
        const bool same = s->space == space && (space == ISA_SPACE_LX || s->arg == arg);
        if (same && ranges_overlap(s->used, range)) s->gone = true;
    }
}

const content_source *contents_source(const contents *c, uint32_t place)
{
    uint32_t low = 0, high = c->sources.count;
    place &= ~CONTENTS_MOVED;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->sources.items[middle].begin <= place) low = middle;
        else high = middle;
    }
    const content_source *s = &c->sources.items[low];
    return c->full || s->gone || place - s->begin >= units_of(s->bytes) ? NULL : s;
}

BASE_CLONES
static void number_units(uint32_t *unit, uint32_t count, uint32_t begin)
{
    for (uint32_t n = 0; n < count; n++) unit[n] = begin + n;
}

spyre_status contents_replace(contents *c, isa_space space, uint16_t arg, byte_range range)
{
    const content_map *map = map_of(c, space, arg);
    content_source s = {.space = space, .arg = arg, .bytes = range};
    uint32_t number;
    lose(c, space, arg, range);
    if (!map) return NULL;
    s.bytes.low -= ((range.low % UNIT) + UNIT) % UNIT;
    s.bytes.high += range.high % UNIT;
    if (s.bytes.low < map->bytes.low) s.bytes.low = map->bytes.low;
    if (s.bytes.high > map->bytes.high) s.bytes.high = map->bytes.high;
    if (s.bytes.low >= s.bytes.high) return NULL;
    s.used = s.bytes;
    TRY(add_source(c, &s, &number));
    if (c->full) return NULL;
    number_units(content_unit(map, s.bytes.low), units_of(s.bytes),
                 c->sources.items[number].begin);
    return NULL;
}

spyre_status contents_forget(contents *c)
{
    for (uint32_t n = 0; n < c->sources.count; n++) c->sources.items[n].gone = true;
    for (uint32_t n = 0; n < c->map_count; n++)
        TRY(contents_replace(c, c->map[n].space, c->map[n].arg, c->map[n].bytes));
    return NULL;
}

spyre_status contents_begin(arena *memory, uint32_t cores, uint32_t lx_bytes,
                            const byte_range *arguments, uint32_t temporary, contents *out)
{
    *out = (contents){.memory = memory, .cores = cores, .arguments = arguments, .map_count = 1};
    TRY(content_map_make(memory, ISA_SPACE_LX, 0, (byte_range){0, lx_bytes}, &out->map[0]));
    for (uint16_t a = 0; temporary >> a && out->map_count < CONTENTS_MOST_MAPS; a++)
        if (temporary >> a & 1u)
            TRY(content_map_make(memory, ISA_SPACE_MEMORY, a, arguments[a],
                                 &out->map[out->map_count++]));
    return contents_forget(out);
}

// --- Copies

int64_t contents_first(const contents *c, const isa_kernel *kernel, const isa_operand *o)
{
    if (o->space == ISA_SPACE_LX) return o->offset;
    return o->offset + isa_parameter(kernel, (uint32_t)__builtin_ctz(c->cores), o->slot);
}

bool contents_is_copy(const isa_instruction *i)
{
    const bool copies = i->opcode == ISA_LOAD || i->opcode == ISA_STORE ||
                        (i->opcode == ISA_VECTOR && i->op == OPFUNC_IDENTITY &&
                         i->operand_count == 2 && i->operand[0].format == i->operand[1].format);
    if (!copies || spyre_format_bytes(i->operand[0].format) % UNIT) return false;
    for (uint32_t o = 0; o < 2; o++) {
        if (i->operand[o].offset % UNIT || i->operand[o].space == ISA_SPACE_NUMBER) return false;
        for (uint32_t d = 0; d < i->dim_count; d++)
            if (i->operand[o].stride[d] % UNIT) return false;
    }
    return true;
}

// Memory that is not followed.
static content_source source_of(const contents *c, const isa_kernel *kernel, const isa_operand *o)
{
    const int64_t first = contents_first(c, kernel, o) - o->offset;
    content_source s = {.space = ISA_SPACE_MEMORY, .arg = o->arg, .bytes = c->arguments[o->arg],
                        .used = RANGE_NONE};
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (c->cores >> core & 1u) s.shift[core] = isa_parameter(kernel, core, o->slot) - first;
    return s;
}

static spyre_status find_source(contents *c, const content_source *like, uint32_t *out)
{
    for (*out = 0; *out < c->sources.count; ++*out) {
        const content_source *s = &c->sources.items[*out];
        if (!s->gone && s->space == like->space && s->arg == like->arg &&
            memcmp(s->shift, like->shift, sizeof s->shift) == 0)
            return NULL;
    }
    return add_source(c, like, out);
}

// Bytes of memory that are now held elsewhere, on all cores.
static void note_used(const contents *c, content_source *s, byte_range first)
{
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (c->cores >> core & 1u) range_add(&s->used, range_shifted(first, s->shift[core]));
}

// Units of a run of elements, copied; `from` null: those from `begin` on.
static void copy_run(uint32_t *to, int64_t to_step, const uint32_t *from, uint32_t begin,
                     int64_t from_step, int64_t count, uint32_t units)
{
    for (int64_t n = 0; n < count; n++, to += to_step)
        for (uint32_t k = 0; k < units; k++)
            to[k] = from ? from[n * from_step + k] | CONTENTS_MOVED
                         : begin + (uint32_t)(n * from_step) + k;
}

static void copy_units(const plan_tile *t, uint32_t *to, const uint32_t *from, uint32_t begin)
{
    const uint32_t inner = t->dim_count - 1;
    const uint32_t units = spyre_format_bytes(t->instruction->operand[0].format) / UNIT;
    int64_t step[2][ISA_MAX_DIMS], index[ISA_MAX_DIMS] = {0};
    for (uint32_t n = 0; n < 2; n++)
        for (uint32_t d = 0; d <= inner; d++) step[n][d] = t->stride[n][d] / UNIT;
    odometer_place at[] = {{step[0], 0}, {step[1], 0}};
    do copy_run(to + at[0].at, step[0][inner], from ? from + at[1].at : NULL,
                begin + (uint32_t)at[1].at, step[1][inner], t->extent[inner], units);
    while (odometer_next(inner, t->extent, index, at, 2));
}

// The place of element 0 in a source of memory that is not followed; false where there is none.
static spyre_status begin_in_memory(contents *c, const isa_kernel *kernel, const isa_operand *o,
                                    byte_range range, uint32_t *out_begin, bool *out_found)
{
    const content_source like = source_of(c, kernel, o);
    const int64_t first = contents_first(c, kernel, o);
    uint32_t number;
    *out_found = first % UNIT == 0 && like.bytes.low % UNIT == 0 && range_covers(like.bytes, range);
    if (!*out_found) return NULL;
    TRY(find_source(c, &like, &number));
    *out_found = !c->full;
    if (c->full) return NULL;
    content_source *s = &c->sources.items[number];
    note_used(c, s, range);
    *out_begin = s->begin + (uint32_t)((first - s->bytes.low) / UNIT);
    return NULL;
}

spyre_status contents_copy(contents *c, const isa_kernel *kernel, const plan_tile *t)
{
    const isa_operand *to = &t->instruction->operand[0], *from = &t->instruction->operand[1];
    const content_map *map = map_of(c, to->space, to->arg);
    const content_map *read = map_of(c, from->space, from->arg);
    const int64_t first[] = {contents_first(c, kernel, to), contents_first(c, kernel, from)};
    const byte_range written = range_shifted(t->span[0], first[0]);
    const byte_range taken = range_shifted(t->span[1], first[1]);
    uint32_t begin = 0;
    bool known = map && range_covers(map->bytes, written) && first[0] % UNIT == 0;
    if (known && read)
        known = range_covers(read->bytes, taken) && first[1] % UNIT == 0 &&
                (read != map || !ranges_overlap(written, taken));
    else if (known)
        TRY(begin_in_memory(c, kernel, from, taken, &begin, &known));
    if (!known) return contents_replace(c, to->space, to->arg, written);
    lose(c, to->space, to->arg, written);
    copy_units(t, content_unit(map, first[0]), read ? content_unit(read, first[1]) : NULL, begin);
    return NULL;
}
