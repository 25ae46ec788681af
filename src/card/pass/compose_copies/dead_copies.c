// SPDX-License-Identifier: Apache-2.0
//
// Copies that nothing reads once their readers read elsewhere: for each unit of LX and of temporary
// arguments the cores that still read it, which choose_composed.c asks from the last kernel to the
// first.
#include <string.h>

#include "base/odometer.h"
#include "base/target_clones.h"
#include "card/pass/compose_copies/compose.h"

static const content_map *needed_of(const composer *c, const isa_operand *o)
{
    return content_map_of(c->needed, c->map_count, o->space, o->arg);
}

// Nothing reads what the cores of a kernel, which is not one of tiles, surely overwrite.
static void forget_replaced(composer *c, const plan_kernel *kernel)
{
    const content_map *map = &c->needed[0];
    const lx_ranges *replaced = &c->t->lx.items[kernel->order].replaced;
    for (uint32_t n = 0; n < replaced->count; n++) {
        const lx_range r = replaced->items[n];
        if (!range_covers(r.lanes, LX_WHOLE_STICKS) || !range_covers(map->bytes, r.bytes)) continue;
        for (int64_t at = r.bytes.low + r.bytes.low % CONTENTS_UNIT_BYTES; at < r.bytes.high - 1;
             at += CONTENTS_UNIT_BYTES)
            *content_unit(map, at) &= ~kernel->source->active_cores;
    }
}

BASE_CLONES
static void add_cores(uint32_t *unit, int64_t count, uint32_t cores)
{
    for (int64_t n = 0; n < count; n++) unit[n] |= cores;
}

// The cores of any of the units, which lose these.
BASE_CLONES
static uint32_t take_cores(uint32_t *unit, int64_t count, uint32_t cores)
{
    uint32_t any = 0;
    for (int64_t n = 0; n < count; n++) {
        any |= unit[n];
        unit[n] &= ~cores;
    }
    return any;
}

// In memory any core may read what one has written.
static void need_range(composer *c, const isa_operand *o, byte_range r, uint32_t cores)
{
    const content_map *map = needed_of(c, o);
    if (!map) return;
    if (o->space == ISA_SPACE_MEMORY) cores = UINT32_MAX;
    if (r.low < map->bytes.low) r.low = map->bytes.low;
    if (r.high > map->bytes.high) r.high = map->bytes.high;
    if (r.low >= r.high) return;
    uint32_t *unit = content_unit(map, r.low);
    add_cores(unit, content_unit(map, r.high - 1) - unit + 1, cores);
}

// Whether any of the cores reads what a tile writes from `first` on; from here backwards none does.
static bool take_needed(const content_map *map, const plan_tile *tile, int64_t first,
                        uint32_t cores)
{
    const uint32_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    const int64_t units = bytes / CONTENTS_UNIT_BYTES;
    uint32_t outer = tile->dim_count, any = 0;
    int64_t run = units, index[ISA_MAX_DIMS] = {0};
    odometer_place at = {tile->stride[0], first};
    if (outer && tile->stride[0][outer - 1] == bytes) run = units * tile->extent[--outer];
    do any |= take_cores(content_unit(map, at.at), run, cores);
    while (odometer_next(outer, tile->extent, index, &at, 1));
    return any & cores;
}

static bool writes_units(const isa_instruction *i)
{
    const isa_operand *result = &i->operand[0];
    if (i->opcode != ISA_VECTOR && !contents_is_copy(i)) return false;
    for (uint32_t d = 0; d < i->dim_count; d++)
        if (result->stride[d] % CONTENTS_UNIT_BYTES) return false;
    return spyre_format_bytes(result->format) % CONTENTS_UNIT_BYTES == 0 &&
           result->offset % CONTENTS_UNIT_BYTES == 0;
}

// Whether something reads what a tile writes. Nothing does what was there before.
static bool result_is_read(composer *c, const composed_kernel *k, const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const isa_operand *result = &i->operand[0];
    const isa_kernel *kernel = k->kernel->source;
    const content_map *map = needed_of(c, result);
    bool read = false;
    if (!map || !writes_units(i) || !range_covers(map->bytes, compose_range(k, i, 0))) return true;
    if (result->space == ISA_SPACE_LX)
        return take_needed(map, tile, result->offset, kernel->active_cores);
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        const int64_t first = result->offset + isa_parameter(kernel, core, result->slot);
        if (!isa_is_active(kernel, core)) continue;
        if (first % CONTENTS_UNIT_BYTES) return true;
        read = take_needed(map, tile, first, UINT32_MAX) || read;
    }
    return read;
}

static void need_inputs(composer *c, const composed_kernel *k, const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (isa_reads(i->opcode, o))
            need_range(c, &i->operand[o], compose_range(k, i, o), k->kernel->source->active_cores);
}

void compose_need_of_tile(composer *c, const composed_kernel *k, composed_tile *tile)
{
    tile->dropped = !result_is_read(c, k, tile->tile) && contents_is_copy(tile->tile->instruction);
    if (tile->dropped) return;
    if (!tile->elsewhere) need_inputs(c, k, tile->tile);
    for (uint32_t n = 0; n < tile->instead.count && tile->elsewhere; n++)
        need_inputs(c, k, tile->instead.items[n]);
}

static spyre_status need_in_memory(void *context, const isa_instruction *i, uint32_t o,
                                   byte_range bytes)
{
    if (isa_reads(i->opcode, o)) need_range(context, &i->operand[o], bytes, UINT32_MAX);
    return NULL;
}

spyre_status compose_need_of_code(composer *c, const plan_kernel *kernel)
{
    const lx_access_list *accesses = &c->t->accesses[kernel->order];
    forget_replaced(c, kernel);
    for (uint32_t n = 0; n < accesses->count; n++) {
        const lx_access *a = &accesses->items[n];
        if (a->reads) need_range(c, &a->i->operand[a->operand], lx_over_loops(a, 0),
                                 kernel->source->active_cores);
    }
    return compose_each_in_memory(c->t, kernel, need_in_memory, c);
}

static spyre_status begin_needed(composer *c)
{
    const byte_range lx = {0, c->lx_bytes};
    c->map_count = 1;
    TRY(content_map_make(c->scratch, ISA_SPACE_LX, 0, lx, &c->needed[0]));
    for (uint16_t a = 0; c->temporary >> a && c->map_count < CONTENTS_MOST_MAPS; a++)
        if (c->temporary >> a & 1u)
            TRY(content_map_make(c->scratch, ISA_SPACE_MEMORY, a, c->arguments[a],
                                 &c->needed[c->map_count++]));
    return NULL;
}

static void begin_again(composer *c)
{
    for (uint32_t n = 0; n < c->map_count; n++) {
        const content_map *map = &c->needed[n];
        const int64_t units = (map->bytes.high - map->bytes.low) / CONTENTS_UNIT_BYTES;
        memset(map->unit, 0, (size_t)units * sizeof *map->unit);
    }
}

spyre_status compose_begin_needed(composer *c)
{
    if (!c->map_count) return begin_needed(c);
    begin_again(c);
    return NULL;
}
