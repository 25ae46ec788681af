// SPDX-License-Identifier: Apache-2.0
//
// Registers, instructions and addresses of units.
#include "card/codegen/unit_code.h"

#include <string.h>

// --- Registers

zmm code_share(unit_code *c, zmm reg)
{
    if (reg < CODE_REGISTERS) c->users[reg]++;
    return reg;
}

void code_release(unit_code *c, zmm reg)
{
    if (reg < CODE_REGISTERS) c->users[reg]--;
}

// Stores a slot and releases its registers; false when no slot has any.
static bool store_a_slot(unit_code *c)
{
    for (uint32_t slot = 0; slot < VECTOR_SLOTS && !c->paired; slot++) {
        if (!c->now.slot[slot].held) continue;
        for (uint32_t q = 0; q < code_parts(c); q++) {
            code_store(c, code_slot_at(slot, q), c->now.slot[slot].at.reg[q]);
            code_release(c, c->now.slot[slot].at.reg[q]);
        }
        c->now.slot[slot].held = false;
        return true;
    }
    return false;
}

zmm code_new(unit_code *c)
{
    do {
        for (zmm reg = 0; reg < CODE_REGISTERS; reg++)
            if (!c->users[reg]) return code_share(c, reg);
    } while (store_a_slot(c));
    c->fails = true;
    return code_share(c, 0);
}

void code_set(unit_code *c, quarters *to, uint32_t quarter, zmm reg)
{
    code_release(c, to->reg[quarter]);
    to->reg[quarter] = reg;
}

void code_set_all(unit_code *c, quarters *to, zmm reg)
{
    for (uint32_t q = 0; q < code_parts(c); q++) code_set(c, to, q, q ? code_share(c, reg) : reg);
}

// They have nothing any more, but are there: one register for all.
void code_release_all(unit_code *c, quarters *q)
{
    for (uint32_t n = 1; n < code_parts(c); n++) code_set(c, q, n, code_share(c, q->reg[0]));
}

// --- Instructions

void code_load_constants(unit_code *c)
{
    for (uint32_t n = 0; n < CODE_CONSTANT_REGISTERS; n++)
        code_load(c, (zmm)(CODE_FIRST_CONSTANT + n),
                  (operand){.kind = OPERAND_CONSTANT, .constant = n});
}

operand code_constant(unit_code *c, uint32_t bits)
{
    const operand o = constant_of(&c->b, bits);
    if (o.constant >= CODE_CONSTANT_REGISTERS) return o;
    return in_zmm((zmm)(CODE_FIRST_CONSTANT + o.constant));
}

operand code_number(unit_code *c, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return code_constant(c, bits);
}

operand code_words(unit_code *c, uint32_t bits)
{
    return code_constant(c, (bits & 0xFFFF) | bits << 16);
}

void code_op(unit_code *c, avx512 op, zmm to, zmm first, operand last)
{
    encode(&c->b, op, to, first, last, (encoding){.lanes = 0});
}

void code_op_byte(unit_code *c, avx512 op, zmm to, zmm first, operand last, uint8_t byte)
{
    encode(&c->b, op, to, first, last, (encoding){.has_byte = true, .byte = byte});
}

void code_masked(unit_code *c, avx512 op, zmm to, mask lanes, zmm first, operand last)
{
    encode(&c->b, op, to, first, last, (encoding){.lanes = lanes});
}

void code_zeroed(unit_code *c, avx512 op, zmm to, mask lanes, zmm first, operand last)
{
    encode(&c->b, op, to, first, last, (encoding){.lanes = lanes, .zeroes = true});
}

void code_load(unit_code *c, zmm to, operand from)
{
    code_op(c, VMOVUPS, to, 0, from);
}

void code_store(unit_code *c, operand to, zmm from)
{
    code_op(c, VMOVUPS_STORE, from, 0, to);
}

void code_store_unit(unit_code *c, operand to, zmm from)
{
    code_op(c, c->step->streams ? VMOVNTPS : VMOVUPS_STORE, from, 0, to);
}

void code_compare(unit_code *c, mask to, code_order order, zmm first, operand last)
{
    code_op_byte(c, VCMPPS, to, first, last, (uint8_t)order);
}

void code_shift(unit_code *c, avx512 op, code_shift_kind kind, zmm to, zmm from, uint8_t bits)
{
    code_op_byte(c, op, (zmm)kind, to, in_zmm(from), bits);
}

zmm code_in_register(unit_code *c, operand o)
{
    if (o.kind == OPERAND_ZMM) return code_share(c, o.reg);
    const zmm reg = code_new(c);
    code_load(c, reg, o);
    return reg;
}

// --- Addresses

operand code_quarter_at(gpr base, int32_t offset, uint32_t quarter)
{
    return at_offset(base, offset + (int32_t)quarter * QUARTER_BYTES);
}

operand code_slot_at(uint32_t slot, uint32_t quarter)
{
    return at_offset(SLOTS, (int32_t)(slot * UNIT_BYTES + quarter * QUARTER_BYTES));
}

static bool has_elements(uint32_t op)
{
    return vector_describe(op)->at <= VECTOR_SPREAD;
}

const vector_step *code_leading_step(const vector_program *w)
{
    for (uint32_t n = 0; n < w->count; n++)
        if (has_elements(w->steps[n].op)) return &w->steps[n];
    return NULL;
}

bool code_follows(const vector_step *s, const vector_step *leading)
{
    return has_elements(s->op) && s->row_at == leading->row_at && s->stick_at == leading->stick_at;
}

static operand begin_of(const unit_code *c, bool ahead)
{
    return at_offset(SLOTS, CODE_BEGINS + (int32_t)(c->step - c->program->steps) * 16 + ahead * 8);
}

// to += where the stick `at`, or by rows the row, begins.
static void add_begin(unit_code *c, gpr to, gpr at)
{
    encode_load(&c->b, RCX, c->by_rows ? CODE_FIELD(row_at) : CODE_FIELD(stick_at));
    encode_add_memory(&c->b, to, at_index(RCX, at, 8, 0));
}

void code_find_elements(unit_code *c)
{
    code_buffer *b = &c->b;
    for (uint32_t n = 0; n < c->program->count; n++) {
        c->step = &c->program->steps[n];
        if (!has_elements(c->step->op)) continue;
        encode_load(b, RAX, CODE_FIELD(at));
        encode_move(b, RDX, RAX);
        add_begin(c, RAX, c->by_rows ? ROW : STICK);
        encode_save(b, begin_of(c, false), RAX);
        add_begin(c, RDX, NEXT);
        if (!c->by_rows) {
            encode_load(b, RAX, CODE_FIELD(ahead));
            encode_and(b, RAX, TURNS);
            encode_add(b, RDX, RAX);
        }
        encode_save(b, begin_of(c, true), RDX);
    }
}

static void load_further(unit_code *c, gpr to)
{
    encode_load(&c->b, to, c->by_rows ? CODE_FIELD(stick_at) : CODE_FIELD(row_at));
    encode_load(&c->b, to, at_index(to, c->by_rows ? STICK : ROW, 8, c->second ? 8 : 0));
}

void code_go_further(unit_code *c)
{
    c->step = code_leading_step(c->program);
    if (c->step) load_further(c, FURTHER);
}

void code_elements(unit_code *c, bool ahead)
{
    const bool follows = !c->second && code_follows(c->step, code_leading_step(c->program));
    c->further = follows ? FURTHER : RCX;
    if (!follows) load_further(c, RCX);
    encode_load(&c->b, RAX, begin_of(c, false));
    if (ahead) encode_load(&c->b, RDX, begin_of(c, true));
}

operand code_element_at(const unit_code *c, int32_t offset)
{
    return at_index(RAX, c->further, 1, offset);
}

operand code_pair_at(const unit_code *c, uint32_t pair)
{
    return code_element_at(c, (int32_t)pair * 64);
}

void code_values(unit_code *c, gpr offset)
{
    encode_load(&c->b, RAX, CODE_FIELD(values));
    encode_add(&c->b, RAX, offset);
    if (c->second && offset != STICK_BYTES) encode_add_number(&c->b, RAX, UNIT_BYTES);
}

// --- What happens seldom

void code_add_cold(unit_code *c, cold_code cold)
{
    cold.from = encode_jump(&c->b, JUMP_IF_NOT_ZERO);
    cold.back = c->b.size;
    if (c->colds == CODE_MOST_COLD) c->fails = true;
    else c->cold[c->colds++] = cold;
}
