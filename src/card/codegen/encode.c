// SPDX-License-Identifier: Apache-2.0
//
// An instruction of AVX-512 is 62, three bytes of prefix, opcode, ModRM, for memory SIB and up to
// four bytes of offset, and perhaps one byte more:
//
//     P0  R X B R' 0 map        bits of register numbers are inverted: R' R of the register,
//     P1  W first 1 prefix      X B of the last operand, V' and four bits of `first`
//     P2  z 10 0 V' lanes       10: 512 bits, 00: 128
#include "card/codegen/encode.h"

#include <string.h>

enum { MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A = 3, NO_66 = 0, IS_66 = 1, REGISTER_BYTES = 64 };

static const struct {
    uint8_t map, prefix, w, opcode;
} rows[] = {
#define AVX512(name, map, prefix, w, opcode) [name] = {map, prefix, w, opcode},
#include "card/codegen/avx512.def"
#undef AVX512
};

// --- Bytes

static void put(code_buffer *b, uint32_t byte)
{
    if (b->size == b->capacity) b->overflows = true;
    else b->bytes[b->size++] = (uint8_t)byte;
}

#define PUT(b, ...) \
    put_all(b, (const uint8_t[]){__VA_ARGS__}, sizeof (const uint8_t[]){__VA_ARGS__})
static void put_all(code_buffer *b, const uint8_t *bytes, size_t count)
{
    for (size_t n = 0; n < count; n++) put(b, bytes[n]);
}

static void put_word(code_buffer *b, uint32_t word)
{
    for (uint32_t n = 0; n < 32; n += 8) put(b, word >> n);
}

static void refer(code_buffer *b, uint32_t constant, bool has_byte)
{
    if (b->references == CODE_MOST_REFERENCES) {
        b->overflows = true;
        return;
    }
    const uint32_t at = (uint32_t)b->size;
    b->reference[b->references].at = at;
    b->reference[b->references].end = at + 4 + has_byte;
    b->reference[b->references++].constant = constant;
    put_word(b, 0);
}

// Memory, whose offset is left out when it is 0 and is a byte when it is a few times `unit`; four
// bytes without one, 0.
static void put_memory(code_buffer *b, uint32_t middle, const operand *o, int32_t unit)
{
    enum { OFFSET_BYTE = 0x40, OFFSET_WORD = 0x80, HAS_SIB = 4, NO_SIB_INDEX = 4 };
    const uint32_t scale = (uint32_t)__builtin_ctz(o->scale), base = o->base & 7u;
    const uint32_t index = o->index == NO_INDEX ? NO_SIB_INDEX : o->index;
    const bool none = o->offset == 0 && base != RBP;
    const int32_t units = unit ? o->offset / unit : 0;
    const bool is_byte = units * unit == o->offset && units == (int8_t)units;
    const bool has_sib = o->index != NO_INDEX || base == RSP;
    put(b, (none ? 0u : is_byte ? OFFSET_BYTE : OFFSET_WORD) | middle | (has_sib ? HAS_SIB : base));
    if (has_sib) put(b, scale << 6 | (index & 7) << 3 | base);
    if (!none && is_byte) put(b, (uint8_t)units);
    if (!none && !is_byte) put_word(b, (uint32_t)o->offset);
}

// ModRM and what follows it.
static void put_operand(code_buffer *b, uint8_t reg, const operand *o, bool has_byte, int32_t unit)
{
    const uint32_t middle = (reg & 7u) << 3;
    if (o->kind == OPERAND_ZMM) {
        put(b, 0xC0 | middle | (o->reg & 7u));
    } else if (o->kind == OPERAND_CONSTANT) {
        put(b, middle | 5);
        refer(b, o->constant, has_byte);
    } else {
        put_memory(b, middle, o, unit);
    }
}

// --- Operands

operand in_zmm(zmm reg)
{
    return (operand){.kind = OPERAND_ZMM, .reg = reg};
}

operand at_offset(gpr base, int32_t offset)
{
    return at_index(base, NO_INDEX, 1, offset);
}

operand at_index(gpr base, gpr index, uint8_t scale, int32_t offset)
{
    return (operand){.kind = OPERAND_MEMORY, .base = base, .index = index, .scale = scale,
                     .offset = offset};
}

operand constant_words(code_buffer *b, const uint32_t *words)
{
    operand o = {.kind = OPERAND_CONSTANT};
    for (; o.constant < b->constants; o.constant++)
        if (!memcmp(b->constant[o.constant].word, words, CODE_CONSTANT_BYTES)) return o;
    if (b->constants == CODE_MOST_CONSTANTS) {
        b->overflows = true;
        o.constant = 0;
        return o;
    }
    memcpy(b->constant[b->constants++].word, words, CODE_CONSTANT_BYTES);
    return o;
}

operand constant_of(code_buffer *b, uint32_t bits)
{
    uint32_t words[CODE_CONSTANT_BYTES / 4];
    for (uint32_t n = 0; n < CODE_CONSTANT_BYTES / 4; n++) words[n] = bits;
    return constant_words(b, words);
}

// --- AVX-512

static uint32_t inverted(uint32_t number, uint32_t bit)
{
    return (number >> bit & 1) ^ 1;
}

void encode(code_buffer *b, avx512 op, uint8_t reg, zmm first, operand last, encoding e)
{
    const bool plain = last.kind == OPERAND_MEMORY;
    const uint32_t index = plain && last.index != NO_INDEX ? last.index : 0;
    const uint32_t b_bit = last.kind == OPERAND_ZMM ? last.reg : plain ? last.base : 0;
    const uint32_t x = last.kind == OPERAND_ZMM ? inverted(last.reg, 4) : inverted(index, 3);
    const uint32_t bits = op == VPINSRW ? 0 : 2;
    const bool moves = op == VMOVUPS || op == VMOVUPS_STORE || op == VMOVNTPS;
    put(b, 0x62);
    put(b, inverted(reg, 3) << 7 | x << 6 | inverted(b_bit, 3) << 5 | inverted(reg, 4) << 4 |
               rows[op].map);
    put(b, (uint32_t)rows[op].w << 7 | (~(uint32_t)first & 15) << 3 | 4 | rows[op].prefix);
    put(b, (uint32_t)e.zeroes << 7 | bits << 5 | inverted(first, 4) << 3 | e.lanes);
    put(b, rows[op].opcode);
    put_operand(b, reg, &last, e.has_byte, moves ? REGISTER_BYTES : 0);
    if (e.has_byte) put(b, e.byte);
}

// --- Scalar

// With the prefix for 64 bits and the upper halves of register numbers.
static void scalar(code_buffer *b, uint32_t opcode, uint32_t reg, operand last)
{
    const bool indexed = last.kind == OPERAND_MEMORY && last.index != NO_INDEX;
    const uint32_t base = last.kind == OPERAND_ZMM ? last.reg : last.base;
    put(b, 0x48 | (reg >> 3) << 2 | (indexed ? last.index >> 3 : 0u) << 1 | base >> 3);
    if (opcode > 0xFF) put(b, opcode >> 8);
    put(b, opcode);
    put_operand(b, (uint8_t)reg, &last, false, 1);
}

static operand in_gpr(gpr r)
{
    return in_zmm((zmm)r);
}

#define OF_REGISTERS(name, opcode)                            \
    void encode_##name(code_buffer *b, gpr to, gpr from)      \
    {                                                         \
        scalar(b, opcode, to, in_gpr(from));                  \
    }
OF_REGISTERS(move, 0x8B)
OF_REGISTERS(add, 0x03)
OF_REGISTERS(subtract, 0x2B)
OF_REGISTERS(and, 0x23)
OF_REGISTERS(compare, 0x3B)
OF_REGISTERS(low_word, 0x0FB7)              // MOVZX
OF_REGISTERS(move_if_equal, 0x0F44)

#define OF_MEMORY(name, opcode)                               \
    void encode_##name(code_buffer *b, gpr to, operand from)  \
    {                                                         \
        scalar(b, opcode, to, from);                          \
    }
OF_MEMORY(load, 0x8B)
OF_MEMORY(add_memory, 0x03)
OF_MEMORY(load_address, 0x8D)

void encode_save(code_buffer *b, operand to, gpr from)
{
    scalar(b, 0x89, from, to);
}

void encode_add_number(code_buffer *b, gpr to, int32_t number)
{
    scalar(b, 0x81, 0, in_gpr(to));
    put_word(b, (uint32_t)number);
}

void encode_and_number(code_buffer *b, gpr to, int32_t number)
{
    scalar(b, 0x81, 4, in_gpr(to));
    put_word(b, (uint32_t)number);
}

void encode_shift_left(code_buffer *b, gpr to, uint8_t bits)
{
    scalar(b, 0xC1, 4, in_gpr(to));
    put(b, bits);
}

void encode_shift_right(code_buffer *b, gpr to, uint8_t bits)
{
    scalar(b, 0xC1, 5, in_gpr(to));
    put(b, bits);
}

void encode_number(code_buffer *b, gpr to, uint32_t number)
{
    if (to > RDI) put(b, 0x41);
    put(b, 0xB8 | (to & 7u));
    put_word(b, number);
}

void encode_address(code_buffer *b, gpr to, uintptr_t address)
{
    put(b, to > RDI ? 0x49 : 0x48);
    put(b, 0xB8 | (to & 7u));
    put_word(b, (uint32_t)address);
    put_word(b, (uint32_t)((uint64_t)address >> 32));
}

void encode_call(code_buffer *b, gpr function)
{
    if (function > RDI) put(b, 0x41);
    put(b, 0xFF);
    put(b, 0xD0 | (function & 7u));
}

void encode_push(code_buffer *b, gpr r)
{
    if (r > RDI) put(b, 0x41);
    put(b, 0x50 | (r & 7u));
}

void encode_pop(code_buffer *b, gpr r)
{
    if (r > RDI) put(b, 0x41);
    put(b, 0x58 | (r & 7u));
}

void encode_return(code_buffer *b)
{
    // Registers go back to how other code wants to find them (VZEROUPPER).
    PUT(b, 0xC5, 0xF8, 0x77, 0xC3);
}

// SFENCE.
void encode_store_fence(code_buffer *b)
{
    PUT(b, 0x0F, 0xAE, 0xF8);
}

void encode_prefetch(code_buffer *b, operand at)
{
    scalar(b, 0x0F18, 1, at);
}

// KMOVD k, eax.
void encode_mask_from_rax(code_buffer *b, mask to)
{
    PUT(b, 0xC5, 0xFB, 0x92, (uint8_t)(0xC0 | to << 3));
}

// KORTESTD, of 32 lanes.
void encode_test_mask(code_buffer *b, mask m)
{
    PUT(b, 0xC4, 0xE1, 0xF9, 0x98, (uint8_t)(0xC0 | m << 3 | m));
}

// KORD.
void encode_either(code_buffer *b, mask to, mask one, mask two)
{
    PUT(b, 0xC4, 0xE1, (uint8_t)(0x85 | (~one & 15) << 3), 0x45, (uint8_t)(0xC0 | to << 3 | two));
}

// --- Jumps

size_t encode_jump(code_buffer *b, jump_kind kind)
{
    if (kind == JUMP) {
        put(b, 0xE9);
    } else {
        put(b, 0x0F);
        put(b, 0x80u | kind);
    }
    put_word(b, 0);
    return b->size;
}

static void set_word(code_buffer *b, size_t at, size_t word)
{
    for (uint32_t n = 0; n < 4 && !b->overflows; n++)
        b->bytes[at + n] = (uint8_t)((uint32_t)word >> 8 * n);
}

void set_jump(code_buffer *b, size_t jump, size_t label)
{
    set_word(b, jump - 4, label - jump);
}

void finish_code(code_buffer *b)
{
    while (b->size % CODE_CONSTANT_BYTES && !b->overflows) put(b, 0xCC);
    const size_t first = b->size;
    for (uint32_t n = 0; n < b->constants; n++)
        for (uint32_t w = 0; w < CODE_CONSTANT_BYTES / 4; w++)
            put_word(b, b->constant[n].word[w]);
    for (uint32_t n = 0; n < b->references; n++)
        set_word(b, b->reference[n].at,
                 first + b->reference[n].constant * CODE_CONSTANT_BYTES - b->reference[n].end);
}
