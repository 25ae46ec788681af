// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/temporary_arguments.h"

#include "card/footprint/footprint.h"

bool temporary_has(const temporaries *t, uint16_t arg)
{
    return arg < 32 && t->arguments >> arg & 1u;
}

spyre_status temporary_collect(arena *memory, const isa_program *program,
                               const plan_kernel *kernel, temporaries *out)
{
    loop_nest place = kernel->around;
    for (uint32_t at = kernel->begin; at < kernel->end && out->arguments; at++) {
        const isa_instruction *i = program->code.items[at];
        loop_nest_follow(&place, i, at);
        for (uint32_t o = 0; o < i->operand_count; o++) {
            const uint16_t arg = i->operand[o].arg;
            if (i->operand[o].space != ISA_SPACE_MEMORY || !temporary_has(out, arg) ||
                !isa_reads(i->opcode, o))
                continue;
            const temporary_read read = {
                .kernel = kernel->order, .arg = arg,
                .bytes = footprint_range(kernel->source, i, o, &place)};
            TRY(VEC_PUSH(memory, &out->reads, read));
        }
    }
    return NULL;
}

bool temporary_read_after(const temporaries *t, uint32_t kernel, uint16_t arg, byte_range bytes)
{
    for (uint32_t n = 0; n < t->reads.count; n++)
        if (t->reads.items[n].kernel > kernel && t->reads.items[n].arg == arg &&
            ranges_overlap(t->reads.items[n].bytes, bytes))
            return true;
    return false;
}
