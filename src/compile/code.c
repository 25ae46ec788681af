// SPDX-License-Identifier: Apache-2.0
#include "compile/code.h"

spyre_status code_of_segment(arena *memory, const bundle *b, const isa_program *program,
                             spyrecode **out_code)
{
    spyrecode_argument *arguments = ARENA_NEW(memory, spyrecode_argument, b->args.count);
    uint32_t launch = 0;
    TRY_ALLOC(arguments);
    for (uint32_t i = 0; i < b->args.count; i++) {
        const bundle_arg *arg = &b->args.items[i];
        spyrecode_argument *out = &arguments[i];
        out->byte_count = (uint64_t)arg->bytes;
        switch (arg->kind) {
        case BUNDLE_ARG_TENSOR:
            *out = (spyrecode_argument){.kind = SPYRECODE_LAUNCH, .index = launch++};
            break;
        case BUNDLE_ARG_POOL: out->kind = SPYRECODE_POOL; break;
        case BUNDLE_ARG_CONSTANTS:
            out->kind = SPYRECODE_CONSTANTS;
            out->byte_count = (uint64_t)b->constants_bytes;
            out->bytes = b->constants;
            break;
        }
    }
    return spyrecode_build(memory, program, arguments, out_code);
}

spyre_status code_of_bundle(arena *memory, const bundle *b, const isa_program *program,
                            spyrecode **out_code)
{
    spyrecode_argument *arguments = ARENA_NEW(memory, spyrecode_argument, b->args.count);
    TRY_ALLOC(arguments);
    for (uint32_t i = 0; i < b->args.count; i++)
        arguments[i] = (spyrecode_argument){.kind = SPYRECODE_LAUNCH, .index = i};
    return spyrecode_build(memory, program, arguments, out_code);
}
