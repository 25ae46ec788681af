// SPDX-License-Identifier: Apache-2.0
#include "runtime/spyrecode_job.h"

static job_argument argument_of(const spyrecode_argument *from)
{
    job_argument out = {.index = from->index, .bytes = (int64_t)from->byte_count};
    switch (from->kind) {
    case SPYRECODE_LAUNCH: out.kind = JOB_INPUT; break;
    case SPYRECODE_POOL: out.kind = JOB_POOL; break;
    case SPYRECODE_CONSTANTS:
        out.kind = JOB_CONSTANTS;
        out.data = from->bytes;
        break;
    }
    return out;
}

spyre_status code_create_job(arena *memory, const isa_program *program,
                             const spyrecode_argument *from, const char *name, job **out_job,
                             uint32_t *out_inputs)
{
    job_argument *arguments = ARENA_NEW(memory, job_argument, program->arg_count);
    TRY_ALLOC(arguments);
    *out_inputs = 0;
    for (uint32_t k = 0; k < program->arg_count; k++) {
        arguments[k] = argument_of(&from[k]);
        if (arguments[k].kind != JOB_INPUT) continue;
        arguments[k].bytes = program->arg_bytes[k];
        if (arguments[k].index >= *out_inputs) *out_inputs = arguments[k].index + 1;
    }
    const job_plan plan = {.program = program,
                           .argument_count = program->arg_count,
                           .arguments = arguments,
                           .name = name};
    return job_create(&plan, out_job);
}
