// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "isa/field_counts.h"
#include "tensor/accumulate.h"

const isa_info isa_table[ISA_OPCODE_COUNT] = {
#define ISA_ROW(opcode, mnemonic_, queue_, roles_, uses_, summary_) \
    [ISA_##opcode] = {.mnemonic = (mnemonic_),                      \
                      .queue = ISA_QUEUE_##queue_,                  \
                      .roles = (roles_),                            \
                      .uses = ISA_USES_##uses_,                     \
                      .summary = (summary_)},
#include "isa/isa.def"
#undef ISA_ROW
};

const char *isa_queue_name(isa_queue queue)
{
    switch (queue) {
    case ISA_QUEUE_SEQ: return "seq";
    case ISA_QUEUE_LOAD: return "load";
    case ISA_QUEUE_STORE: return "store";
    case ISA_QUEUE_RING: return "ring";
    case ISA_QUEUE_PT: return "pt";
    case ISA_QUEUE_SFP: return "sfp";
    case ISA_QUEUE_ANY: return "any";
    }
    return "?";
}

isa_program *isa_program_create(arena *memory)
{
    isa_program *program = ARENA_NEW(memory, isa_program, 1);
    if (program) program->memory = memory;
    return program;
}

static size_t bytes_of(const isa_instruction *i)
{
    return offsetof(isa_instruction, operand) + i->operand_count * sizeof *i->operand;
}

isa_instruction *isa_clone(arena *memory, const isa_instruction *instruction)
{
    isa_instruction *copy = arena_alloc(memory, bytes_of(instruction));
    if (copy) memcpy(copy, instruction, bytes_of(instruction));
    return copy;
}

spyre_status isa_append(isa_program *program, const isa_instruction *instruction)
{
    isa_instruction *copy = isa_clone(program->memory, instruction);
    TRY_ALLOC(copy);
    return VEC_PUSH(program->memory, &program->code, copy);
}

isa_instruction isa_copy(const isa_instruction *instruction)
{
    isa_instruction copy = {0};
    memcpy(&copy, instruction, bytes_of(instruction));
    return copy;
}

uint32_t isa_constant_count(const isa_instruction *instruction)
{
    if (instruction->opcode == ISA_FILL) return 1;
    if (instruction->opcode != ISA_VECTOR && instruction->opcode != ISA_COUNT) return 0;
    return opfunc_constant_count(instruction->op, 1);
}

void isa_operand_limits(const isa_instruction *instruction, uint32_t *out_least, uint32_t *out_most)
{
    *out_least = *out_most = (uint32_t)strlen(isa_describe(instruction->opcode)->roles);
    if (instruction->opcode == ISA_RANK) *out_least = 3;
    if (instruction->opcode == ISA_SCAN)
        *out_least = *out_most = opfunc_gives_positions(instruction->op) ? 4 : 3;
    if (instruction->opcode != ISA_VECTOR) return;
    const opfunc_info *info = opfunc_describe(instruction->op);
    *out_least = info->least_inputs + 1u;
    *out_most = info->most_inputs + 1u;
    // In a bundle both moments share one stick, and two neighbours a byte; here each is an operand.
    bool two = instruction->op == OPFUNC_LAYERNORMSCALE || opfunc_makes_pairs(instruction->op);
    if (two) *out_least = *out_most = 3;
}

uint32_t isa_loop_stride_count(const isa_operand *operand)
{
    uint32_t count = ISA_MAX_LOOPS;
    while (count && operand->loop_stride[count - 1] == 0) count--;
    return count;
}

bool isa_accumulates_integers(const isa_instruction *i)
{
    if (i->opcode != ISA_REDUCE && i->opcode != ISA_FOLD) return false;
    spyre_format to = i->operand[0].format;
    return to == SPYRE_FORMAT_IEEE_INT32 &&
           accumulate_takes(i->op, to, i->operand[i->operand_count - 1u].format);
}
