// SPDX-License-Identifier: Apache-2.0
//
// Walks the statements of a bundle: its loops become loops around kernels, its steps kernels.
#include "back/allocate.h"
#include "back/back.h"
#include "back/select_emitter.h"
#include "bundle/step_facts.h"

static spyre_status compile_step(emitter *e, uint32_t number)
{
    const bundle_step *step = &e->b->steps.items[number];
    if (e->options->at_step) *e->options->at_step = number;
    TRY(lx_check_step(e->b, step, e->options));
    nest_zones zones;
    if (step->window_count == 0) TRY(select_emitter(step)(e, step));
    if (step->window_count == 0 && !bundle_fills_masked(step)) return NULL;
    TRY(nest_find_zones(e->memory, step, &zones));
    for (uint32_t z = 0; z < zones.count; z++) {
        e->zone = &zones.items[z];
        TRY(select_emitter(step)(e, step));
    }
    e->zone = NULL;
    return NULL;
}

static spyre_status compile_body(emitter *e)
{
    for (uint32_t s = 0; s < e->b->body.count; s++) {
        const bundle_statement *statement = &e->b->body.items[s];
        switch (statement->kind) {
        case BUNDLE_LOOP: TRY(emit_loop(e, statement->count)); break;
        case BUNDLE_END: TRY(emit_end_loop(e)); break;
        case BUNDLE_EXECUTE:
            TRY(bundle_at_step(compile_step(e, statement->step), statement->step,
                               &e->b->steps.items[statement->step]));
            break;
        }
    }
    return isa_append(e->program, &(isa_instruction){.opcode = ISA_HALT});
}

spyre_status back_compile(const bundle *b, const back_options *options, arena *memory,
                          isa_program **out_program)
{
    if (options->at_step) *options->at_step = UINT32_MAX;
    isa_program *program = isa_program_create(memory);
    TRY_ALLOC(program);
    int64_t *bytes = ARENA_NEW(memory, int64_t, b->args.count);
    TRY_ALLOC(bytes);
    for (uint32_t a = 0; a < b->args.count; a++) bytes[a] = b->args.items[a].bytes;
    program->arg_count = b->args.count;
    program->arg_bytes = bytes;
    emitter e = {.memory = memory, .b = b, .options = options, .program = program};
    TRY(compile_body(&e));
    spyre_status broken = isa_verify(program);
    if (broken) {
        spyre_status internal = status_new(SPYRE_INTERNAL, "the back-end wrote a wrong program: %s",
                                           spyre_status_message(broken));
        spyre_status_free(broken);
        return internal;
    }
    *out_program = program;
    return NULL;
}
