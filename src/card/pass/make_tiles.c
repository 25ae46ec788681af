// SPDX-License-Identifier: Apache-2.0
#include "card/plan/pass.h"

static spyre_status list_stored(card_program *p)
{
    for (uint32_t at = 0; at < p->program->code.count; at++) {
        const isa_instruction *i = p->program->code.items[at];
        if (!isa_stores(i->opcode)) continue;
        bool known = false;
        for (uint32_t n = 0; n < p->stored.count; n++)
            known = known || p->stored.items[n] == i->operand[0].arg;
        if (!known) TRY(VEC_PUSH(p->memory, &p->stored, i->operand[0].arg));
    }
    return NULL;
}

spyre_status card_pass_make_tiles(translation *t)
{
    size_t count = t->program->code.count;
    t->tiles = ARENA_NEW(t->scratch, plan_tile *, count);
    TRY_ALLOC(t->tiles);
    for (uint32_t at = 0; at < count; at++) {
        const isa_instruction *i = t->program->code.items[at];
        bool steers = isa_describe(i->opcode)->queue == ISA_QUEUE_SEQ;
        if (steers || i->opcode == ISA_WAIT || i->opcode == ISA_SIGNAL) continue;
        TRY(status_at(plan_make_tile(t->memory, i, &t->tiles[at]), "instruction %u %s", at,
                      isa_describe(i->opcode)->mnemonic));
    }
    return list_stored(t->loaded);
}
