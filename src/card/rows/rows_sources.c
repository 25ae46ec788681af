// SPDX-License-Identifier: Apache-2.0
//
// Which messages brought what a tile reads, in kernels that are followed in their order: each stick
// of LX has what its own core made, or what the messages of one kernel brought. A read of the
// latter is one of where they came from, as long as nothing else has been written there since.
#include <string.h>

#include "card/rows/rows_build.h"

enum { OWN = 0, MIXED = UINT8_MAX };

static uint32_t stick_after(int64_t byte)
{
    return (uint32_t)((byte + SPYRE_STICK_BYTES - 1) / SPYRE_STICK_BYTES);
}

// Who brought all sticks of a range; MIXED: several did.
static uint8_t find_bringer(const rows_sources *s, byte_range range)
{
    const uint32_t first = (uint32_t)(range.low / SPYRE_STICK_BYTES);
    for (uint32_t n = first; n < stick_after(range.high); n++)
        if (s->brought_by[n] != s->brought_by[first]) return MIXED;
    return s->brought_by[first];
}

static void set_bringer(rows_sources *s, byte_range range, uint8_t bringer)
{
    for (int64_t n = range.low / SPYRE_STICK_BYTES; n < stick_after(range.high); n++)
        s->brought_by[n] = bringer;
}

static void write_over(rows_sources *s, byte_range range)
{
    for (uint32_t n = 0; n < s->count; n++)
        s->maps[n]->stale = s->maps[n]->stale || ranges_overlap(s->maps[n]->sent, range);
    for (int64_t n = range.low / SPYRE_STICK_BYTES; n < stick_after(range.high); n++)
        if (s->brought_by[n] != OWN) s->brought_by[n] = MIXED;
}

spyre_status rows_receive(rows_sources *s, arena *scratch, const plan_kernel *kernel,
                          uint32_t number, bool *out_good)
{
    *out_good = s->count < ROWS_MOST_MAPS;
    if (!*out_good) return NULL;
    rows_messages *map = ARENA_NEW(scratch, rows_messages, 1);
    TRY_ALLOC(map);
    TRY(rows_map_messages(scratch, kernel->messages, map, out_good));
    if (!*out_good) return NULL;
    map->kernel = number;
    *out_good = find_bringer(s, map->sent) == OWN;
    write_over(s, map->received);
    s->maps[s->count++] = map;
    s->receivers |= kernel->source->active_cores;
    set_bringer(s, map->received, (uint8_t)s->count);
    return NULL;
}

// What a tile reads, before it writes; false where that is not one source.
static bool find_reads(const rows_sources *s, rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const bool in_lx = i->operand[0].space == ISA_SPACE_LX;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        if (i->operand[o].space != ISA_SPACE_LX || !isa_reads(i->opcode, o)) continue;
        const uint8_t bringer = find_bringer(s, t->reach[o]);
        if (bringer == OWN) continue;
        if (bringer == MIXED || o == 0 || s->maps[bringer - 1]->stale) return false;
        if (in_lx && ranges_overlap(t->reach[0], t->reach[o])) return false;
        t->sent[o] = s->maps[bringer - 1];
        t->reach[o] = t->sent[o]->sent;
    }
    return true;
}

bool rows_find_sources(rows_sources *s, uint32_t first, rows_tiles *tiles)
{
    for (uint32_t n = first; n < tiles->count; n++) {
        rows_tile *t = &tiles->items[n];
        const bool in_lx = t->tile->instruction->operand[0].space == ISA_SPACE_LX;
        if (!find_reads(s, t)) return false;
        if (in_lx) write_over(s, t->reach[0]);
    }
    return true;
}

void rows_replace(rows_sources *s, const plan_kernel *kernel, const byte_ranges *replaced)
{
    if (s->receivers & ~kernel->source->active_cores) return;
    for (uint32_t n = 0; n < replaced->count; n++) {
        const byte_range r = replaced->items[n];
        const int64_t low = (int64_t)stick_after(r.low) * SPYRE_STICK_BYTES;
        const int64_t high = r.high / SPYRE_STICK_BYTES * SPYRE_STICK_BYTES;
        if (low < high) set_bringer(s, (byte_range){low, high}, OWN);
    }
}
