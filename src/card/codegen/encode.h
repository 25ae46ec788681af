// SPDX-License-Identifier: Apache-2.0
//
// Machine code of x86-64 with AVX-512, instruction by instruction, into a buffer. What does not fit
// is dropped; `overflows` says so at the end.
#ifndef CARD_CODEGEN_ENCODE_H
#define CARD_CODEGEN_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CODE_MOST_CONSTANTS = 64, CODE_MOST_REFERENCES = 4096 };

// Constants stand behind the code: so many bytes each, all lanes of a register.
enum { CODE_CONSTANT_BYTES = 64 };

typedef struct {
    uint8_t *bytes;
    size_t size, capacity;
    bool overflows;
    struct {
        uint32_t word[CODE_CONSTANT_BYTES / 4];
    } constant[CODE_MOST_CONSTANTS];
    uint32_t constants;
    struct {
        uint32_t at, end, constant;         // 4 bytes of an address; where its instruction ends
    } reference[CODE_MOST_REFERENCES];
    uint32_t references;
} code_buffer;

typedef enum {
    RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, NO_INDEX,
} gpr;

// zmm0 to zmm31; k1 to k7, of which 0 means none.
typedef uint8_t zmm;
typedef uint8_t mask;

// The last operand of an instruction: a register, memory at base + index * scale + offset, or a
// constant behind the code.
typedef struct {
    enum { OPERAND_ZMM, OPERAND_MEMORY, OPERAND_CONSTANT } kind;
    zmm reg;
    gpr base, index;
    uint8_t scale;                          // 1, 2, 4 or 8
    int32_t offset;
    uint32_t constant;
} operand;

typedef enum {
#define AVX512(name, map, prefix, w, opcode) name,
#include "card/codegen/avx512.def"
#undef AVX512
} avx512;

operand in_zmm(zmm reg);
operand at_offset(gpr base, int32_t offset);
operand at_index(gpr base, gpr index, uint8_t scale, int32_t offset);

// The same 32 bits in all lanes, or 16 of them; equal ones stand there once.
operand constant_of(code_buffer *b, uint32_t bits);
operand constant_words(code_buffer *b, const uint32_t *words);

// reg = op(first, last); a shift has its kind in `reg` and its result in `first`. Lanes out of
// `lanes` keep what they have, or become zero.
typedef struct {
    mask lanes;
    bool zeroes, has_byte;
    uint8_t byte;                           // the immediate operand
} encoding;
void encode(code_buffer *b, avx512 op, uint8_t reg, zmm first, operand last, encoding e);

// --- Scalar

void encode_load(code_buffer *b, gpr to, operand from);             // to = 64 bits of memory
void encode_low_word(code_buffer *b, gpr to, gpr from);             // to = 16 bits of it
void encode_save(code_buffer *b, operand to, gpr from);             // 64 bits of memory = from
void encode_add_memory(code_buffer *b, gpr to, operand from);
void encode_load_address(code_buffer *b, gpr to, operand from);
void encode_move(code_buffer *b, gpr to, gpr from);
void encode_add(code_buffer *b, gpr to, gpr from);
void encode_subtract(code_buffer *b, gpr to, gpr from);
void encode_and(code_buffer *b, gpr to, gpr from);
void encode_add_number(code_buffer *b, gpr to, int32_t number);
void encode_and_number(code_buffer *b, gpr to, int32_t number);
void encode_shift_left(code_buffer *b, gpr to, uint8_t bits);
void encode_shift_right(code_buffer *b, gpr to, uint8_t bits);
void encode_number(code_buffer *b, gpr to, uint32_t number);        // without its flags
void encode_address(code_buffer *b, gpr to, uintptr_t address);
void encode_call(code_buffer *b, gpr function);
void encode_compare(code_buffer *b, gpr one, gpr two);
void encode_move_if_equal(code_buffer *b, gpr to, gpr from);
void encode_push(code_buffer *b, gpr r);
void encode_pop(code_buffer *b, gpr r);
void encode_return(code_buffer *b);
void encode_store_fence(code_buffer *b);                            // for streams
void encode_prefetch(code_buffer *b, operand at);                   // to the first cache
void encode_mask_from_rax(code_buffer *b, mask to);                 // 32 bits of it
void encode_test_mask(code_buffer *b, mask m);                      // for JUMP_IF_ZERO and its like
void encode_either(code_buffer *b, mask to, mask one, mask two);    // 32 lanes of both

// --- Jumps. A label is the size of the code where it stands; a jump forward is set later.

typedef enum {
    JUMP_BELOW = 2, JUMP_NOT_BELOW = 3, JUMP_IF_ZERO = 4, JUMP_IF_NOT_ZERO = 5, JUMP = 16,
} jump_kind;
size_t encode_jump(code_buffer *b, jump_kind kind);                 // returns what set_jump takes
void set_jump(code_buffer *b, size_t jump, size_t label);

// Puts constants behind the code and their addresses into it.
void finish_code(code_buffer *b);

#endif
