// SPDX-License-Identifier: Apache-2.0
//
// A program with every instruction, as text in the printer's own form.
#ifndef UNIT_ISA_SAMPLE_H
#define UNIT_ISA_SAMPLE_H

#include "unit/check.h"

#include "isa/isa.h"

static const char sample_text[] =
    "program\n"
    "argument 0 bytes 65536\n"
    "argument 1 bytes 0\n"
    "kernel 0 \"0_batchmatmul\" at \"model \\\"m\\\".py:12\\x09\" cores 0x00000003 slots 4\n"
    "    core 1: 4096 -128 0 1\n"
    "kernel 1 \"1_sum\" cores 0xffffffff slots 0\n"
    "code\n"
    "loop 3\n"
    "    kernel 0\n"
    "        fill (0) [8, 64]\n"
    "            IEEE_FP32 lx+8192 [256, 4]\n"
    "        count clip (0, 1) [8, 64]\n"
    "            SEN169_FP16 lx+2048 [128, 2]\n"
    "            IEEE_INT32 number+slot0+5 [1, -1] loops [8]\n"
    "        loop 2\n"
    "            load [8, 64]\n"
    "                SEN169_FP16 lx+0 [128, 2] loops [0, 1024]\n"
    "                SEN169_FP16 arg0+slot0-256 [1024, 2] loops [65536, 128]\n"
    "            gather rows 100 stride 512 [8, 64]\n"
    "                SEN169_FP16 lx+2048 [128, 2]\n"
    "                SEN169_FP16 arg1+0 [0, 2]\n"
    "                IEEE_INT32 lx+4096 [4, 0]\n"
    "            signal load 31\n"
    "            wait pt 31\n"
    "            matmul [8, 1, 64]\n"
    "                IEEE_FP32 lx+8192 [256, 0, 0]\n"
    "                SEN169_FP16 lx+0 [128, 0, 8192]\n"
    "                SEN169_FP16 lx+16384 [0, 8192, 128]\n"
    "        endloop\n"
    "        send slot2 [8, 64]\n"
    "            IEEE_FP32 lx+8192 [256, 4]\n"
    "        receive slot3 [8, 64]\n"
    "            IEEE_FP32 lx+24576 [256, 4]\n"
    "        vector clip (-inf, 0.100000001) [8, 64]\n"
    "            SEN169_FP16 lx+0 [128, 2]\n"
    "            IEEE_FP32 lx+8192 [256, 4]\n"
    "        store [8, 64]\n"
    "            SEN169_FP16 arg1+slot1+0 [1024, 2]\n"
    "            SEN169_FP16 lx+0 [128, 2]\n"
    "        scatter rows 100 stride 512 [8, 64]\n"
    "            SEN169_FP16 arg1+0 [0, 2]\n"
    "            SEN169_FP16 lx+2048 [128, 2]\n"
    "            IEEE_INT32 lx+4096 [4, 0]\n"
    "        accumulate sum rows 100 stride 512 lanes 32 [8, 64]\n"
    "            IEEE_FP32 arg1+0 [4096, 0]\n"
    "            SEN169_FP16 lx+2048 [128, 2]\n"
    "            IEEE_INT32 lx+4096 [0, 4]\n"
    "    endkernel\n"
    "endloop\n"
    "kernel 1\n"
    "    reduce max [8, 16, 64]\n"
    "        IEEE_FP32 lx+8192 [256, 0, 4]\n"
    "        SEN169_FP16 lx+32768 [2048, 128, 2]\n"
    "    reducesq [8, 16, 64]\n"
    "        IEEE_FP32 lx+8192 [256, 0, 4]\n"
    "        SEN169_FP16 lx+32768 [2048, 128, 2]\n"
    "    fold sum [8, 64]\n"
    "        IEEE_FP32 lx+8192 [256, 4]\n"
    "    vector layernormscale (9.99999975e-06) [8, 64]\n"
    "        SEN169_FP16 lx+0 [128, 2]\n"
    "        IEEE_FP32 lx+8192 [256, 0]\n"
    "        IEEE_FP32 lx+8196 [256, 0]\n"
    "    rank topkindex [4, 8, 64]\n"
    "        IEEE_INT64 lx+65536 [64, 8, 0]\n"
    "        SEN169_FP16 lx+0 [0, 128, 2]\n"
    "        IEEE_INT32 lx+4096 [0, 0, 0]\n"
    "    ranked topkindex [4, 8]\n"
    "        IEEE_INT32 lx+4224 [4, 128]\n"
    "        IEEE_INT64 lx+65536 [64, 8]\n"
    "    scan cummaxindex [8, 64]\n"
    "        IEEE_INT32 lx+4224 [256, 4]\n"
    "        IEEE_INT64 lx+65536 [8, 0]\n"
    "        SEN169_FP16 lx+0 [128, 2]\n"
    "        IEEE_INT32 lx+4096 [0, 0]\n"
    "endkernel\n"
    "halt\n";

static inline isa_program *sample_program(arena *memory)
{
    isa_program *program = NULL;
    assert_ok(isa_parse(memory, sample_text, "sample", &program));
    return program;
}

static inline isa_instruction *sample_find(isa_program *program, isa_opcode opcode)
{
    for (uint32_t n = 0; n < program->code.count; n++)
        if (program->code.items[n]->opcode == opcode) return program->code.items[n];
    fail_msg("no %s", isa_describe(opcode)->mnemonic);
    return NULL;
}

// A program's text, to compare programs by.
static inline char *sample_print(arena *memory, const isa_program *program)
{
    text t = {0};
    isa_print(program, &t);
    char *copy = arena_strdup(memory, text_string(&t));
    text_free(&t);
    assert_non_null(copy);
    return copy;
}

#endif
