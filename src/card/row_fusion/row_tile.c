// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/row_tile.h"

spyre_status rows_set_tile(arena *memory, const isa_instruction *i, rows_tile *t)
{
    plan_tile *tile;
    TRY(plan_copy_tile(memory, i, &tile));
    t->tile = tile;
    return NULL;
}

bool rows_writes_into(const rows_tile *from, const rows_tile *t, uint32_t o)
{
    const isa_operand *result = &from->tile->instruction->operand[0];
    const isa_operand *other = &t->tile->instruction->operand[o];
    const bool same = result->space == other->space &&
                      (result->space == ISA_SPACE_LX || result->arg == other->arg);
    return same && ranges_overlap(from->reach[0], t->reach[o]);
}

void rows_find_reach(rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        t->reach[o] = plan_range(t->tile, o);
        for (uint32_t n = 0; n < t->loops.depth; n++)
            range_repeat(&t->reach[o], i->operand[o].loop_stride[n], t->loops.iterations[n]);
    }
}
