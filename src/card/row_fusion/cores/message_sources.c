// SPDX-License-Identifier: Apache-2.0
//
// Which messages brought what a tile reads, in kernels that are followed in their order: each stick
// of LX has what its own core made, or what the messages of one kernel brought. A read of the
// latter is one of where they came from, as long as nothing else has been written there since.
#include "card/row_fusion/cores/message_sources.h"

#include <string.h>

enum { OWN = 0, MIXED = UINT8_MAX };

static uint32_t stick_after(int64_t byte)
{
    return (uint32_t)((byte + SPYRE_STICK_BYTES - 1) / SPYRE_STICK_BYTES);
}

static uint32_t sticks_of(byte_range range, uint32_t *out_first)
{
    *out_first = (uint32_t)(range.low / SPYRE_STICK_BYTES);
    return stick_after(range.high) - *out_first;
}

// Who brought all sticks of a range; MIXED: several did.
static uint8_t find_bringer(const rows_sources *s, byte_range range)
{
    uint32_t first;
    const uint32_t count = sticks_of(range, &first);
    const uint8_t *by = s->brought_by + first;
    return count < 2 || memcmp(by, by + 1, count - 1) == 0 ? by[0] : MIXED;
}

static void set_bringer(rows_sources *s, byte_range range, uint8_t bringer)
{
    uint32_t first;
    const uint32_t count = sticks_of(range, &first);
    memset(s->brought_by + first, bringer, count);
}

static void write_over(rows_sources *s, byte_range range)
{
    if (!s->count) return;
    for (uint32_t n = 0; n < s->count; n++)
        s->maps[n]->stale = s->maps[n]->stale || ranges_overlap(s->maps[n]->sent, range);
    if (find_bringer(s, range) == OWN) return;
    for (int64_t n = range.low / SPYRE_STICK_BYTES; n < stick_after(range.high); n++)
        if (s->brought_by[n] != OWN) s->brought_by[n] = MIXED;
}

bool rows_receive(rows_sources *s, rows_messages *map, uint32_t cores, uint32_t number)
{
    if (s->count == ROWS_MOST_MAPS || find_bringer(s, map->sent) != OWN) return false;
    map->kernel = number;
    map->stale = false;
    write_over(s, map->received);
    s->maps[s->count++] = map;
    s->receivers |= cores;
    set_bringer(s, map->received, (uint8_t)s->count);
    return true;
}

// What a tile reads, before it writes; false where that is not one source.
static bool find_reads(const rows_sources *s, rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const bool in_lx = i->operand[0].space == ISA_SPACE_LX;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        t->sent[o] = NULL;
        if (i->operand[o].space != ISA_SPACE_LX || !isa_reads(i->opcode, o)) continue;
        const uint8_t bringer = find_bringer(s, t->reach[o]);
        if (bringer == OWN) continue;
        if (bringer == MIXED || o == 0 || s->maps[bringer - 1]->stale) return false;
        if (in_lx && ranges_overlap(t->reach[0], t->reach[o])) return false;
        t->sent[o] = s->maps[bringer - 1];
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

void rows_replace(rows_sources *s, const plan_kernel *kernel, const lx_ranges *replaced)
{
    if (!s->count || s->receivers & ~kernel->source->active_cores) return;
    for (uint32_t n = 0; n < replaced->count; n++) {
        const byte_range r = replaced->items[n].bytes;
        if (!range_covers(replaced->items[n].lanes, LX_WHOLE_STICKS)) continue;
        const int64_t low = (int64_t)stick_after(r.low) * SPYRE_STICK_BYTES;
        const int64_t high = r.high / SPYRE_STICK_BYTES * SPYRE_STICK_BYTES;
        if (low < high) set_bringer(s, (byte_range){low, high}, OWN);
    }
}
