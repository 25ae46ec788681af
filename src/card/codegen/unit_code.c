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
    for (uint32_t slot = 0; slot < VECTOR_SLOTS; slot++) {
        if (!c->slot[slot].held) continue;
        for (uint32_t q = 0; q < QUARTERS; q++) {
            code_store(c, code_slot_at(slot, q), c->slot[slot].at.reg[q]);
            code_release(c, c->slot[slot].at.reg[q]);
        }
        c->slot[slot].held = false;
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
    for (uint32_t q = 0; q < QUARTERS; q++) code_set(c, to, q, q ? code_share(c, reg) : reg);
}

// They have nothing any more, but are there: one register for all.
void code_release_all(unit_code *c, quarters *q)
{
    for (uint32_t n = 1; n < QUARTERS; n++) code_set(c, q, n, code_share(c, q->reg[0]));
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

operand code_slot_at(uint32_t slot, uint32_t quarter)
{
    return at_offset(SLOTS, (int32_t)(slot * UNIT_BYTES + quarter * QUARTER_BYTES));
}

void code_elements(unit_code *c, bool ahead)
{
    code_buffer *b = &c->b;
    encode_load(b, RAX, CODE_FIELD(at));
    encode_load(b, RCX, CODE_FIELD(row_at));
    if (ahead && c->by_rows) {
        encode_move(b, RDX, RAX);
        encode_add_memory(b, RDX, at_index(RCX, NEXT, 8, 0));
    }
    encode_add_memory(b, RAX, at_index(RCX, ROW, 8, 0));
    encode_load(b, RCX, CODE_FIELD(stick_at));
    if (ahead && !c->by_rows) {
        encode_load(b, RDX, CODE_FIELD(ahead));
        encode_and(b, RDX, TURNS);
        encode_add(b, RDX, RAX);
    }
    if (ahead) encode_add_memory(b, RDX, at_index(RCX, c->by_rows ? STICK : NEXT, 8, 0));
    encode_add_memory(b, RAX, at_index(RCX, STICK, 8, 0));
}

operand code_pair_at(uint32_t pair)
{
    return at_offset(RAX, (int32_t)pair * 64);
}

void code_values(unit_code *c, gpr offset)
{
    encode_load(&c->b, RAX, CODE_FIELD(values));
    encode_add(&c->b, RAX, offset);
}
