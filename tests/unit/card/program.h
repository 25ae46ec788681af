// SPDX-License-Identifier: Apache-2.0
//
// Building small programs for tests by hand.
#ifndef TESTS_CARD_PROGRAM_H
#define TESTS_CARD_PROGRAM_H

#include "unit/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "card/card.h"

#define DL16 SPYRE_FORMAT_SEN169_FP16
#define FP32 SPYRE_FORMAT_IEEE_FP32

static inline isa_program *new_program(uint32_t arg_count)
{
    arena *memory = arena_create();
    assert_non_null(memory);
    isa_program *p = isa_program_create(memory);
    assert_non_null(p);
    int64_t *bytes = ARENA_NEW(memory, int64_t, arg_count + 1);
    assert_non_null(bytes);
    p->arg_count = arg_count;
    p->arg_bytes = bytes;
    return p;
}

static inline void free_program(isa_program *p)
{
    arena_destroy(p->memory);
}

static inline isa_instruction *emit(isa_program *p, isa_opcode opcode)
{
    isa_instruction *i = ARENA_NEW(p->memory, isa_instruction, 1);  // with room for all operands
    assert_non_null(i);
    i->opcode = opcode;
    i->queue = isa_describe(opcode)->queue;
    assert_ok(VEC_PUSH(p->memory, &p->code, i));
    return i;
}

// Begins a kernel; returns its parameters, [ISA_CORES][slots], to be filled.
static inline int64_t *begin_kernel(isa_program *p, uint32_t active_cores, uint32_t slots)
{
    int64_t *parameters = ARENA_NEW(p->memory, int64_t, (size_t)ISA_CORES * slots + 1);
    assert_non_null(parameters);
    isa_kernel kernel = {.active_cores = active_cores,
                         .slot_count = slots,
                         .parameters = parameters,
                         .name = "0_test",
                         .location = "model.py:7"};
    assert_ok(VEC_PUSH(p->memory, &p->kernels, kernel));
    emit(p, ISA_KERNEL)->count = p->kernels.count - 1;
    return parameters;
}

static inline void end_kernel(isa_program *p)
{
    emit(p, ISA_END_KERNEL);
}

static inline void wait_for(isa_program *p, isa_queue queue, uint16_t token)
{
    isa_instruction *i = emit(p, ISA_WAIT);
    i->queue = queue;
    i->token = token;
}

static inline void signal_to(isa_program *p, isa_queue queue, uint16_t token)
{
    isa_instruction *i = emit(p, ISA_SIGNAL);
    i->queue = queue;
    i->token = token;
}

static inline isa_operand in_lx(int64_t offset, spyre_format format)
{
    return (isa_operand){.space = ISA_SPACE_LX, .format = format, .offset = offset};
}

static inline isa_operand in_memory(uint16_t arg, uint16_t slot, int64_t offset,
                                    spyre_format format)
{
    return (isa_operand){.space = ISA_SPACE_MEMORY,
                         .format = format,
                         .arg = arg,
                         .slot = slot,
                         .offset = offset};
}

// Adds an instruction over one contiguous dim of `count` elements.
static inline isa_instruction *emit_flat(isa_program *p, isa_opcode opcode, uint32_t count,
                                         uint8_t operands, const isa_operand *operand)
{
    isa_instruction *i = emit(p, opcode);
    i->dim_count = 1;
    i->extent[0] = count;
    i->operand_count = operands;
    for (uint8_t o = 0; o < operands; o++) {
        i->operand[o] = operand[o];
        i->operand[o].stride[0] = spyre_format_bytes(operand[o].format);
    }
    return i;
}

static inline card *card_with_threads(uint32_t threads)
{
    char count[8];
    card *c;
    snprintf(count, sizeof count, "%u", threads);
    setenv("SPYRE_THREADS", count, 1);
    assert_ok(card_create(&c));
    unsetenv("SPYRE_THREADS");
    return c;
}

static inline uint32_t next_random(uint64_t *state)
{
    return (uint32_t)(check_random(state) >> 32);
}

#endif
