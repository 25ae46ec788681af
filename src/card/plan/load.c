// SPDX-License-Identifier: Apache-2.0
//
// From a program to a plan: a private copy of it goes through the passes of pass.def.
#include <string.h>

#include "card/machine.h"
#include "card/plan/pass.h"

// --- The card's own copy, so that the caller may free the program

static spyre_status copy_kernels(arena *memory, const isa_program *program, isa_program *copy)
{
    TRY(VEC_ROOM(memory, &copy->kernels, program->kernels.count));
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        isa_kernel kernel = program->kernels.items[k];
        size_t values = (size_t)ISA_CORES * kernel.slot_count;
        int64_t *parameters = ARENA_NEW(memory, int64_t, values);
        TRY_ALLOC(parameters);
        if (values) memcpy(parameters, kernel.parameters, values * sizeof *parameters);
        kernel.parameters = parameters;
        kernel.name = arena_strdup(memory, kernel.name ? kernel.name : "");
        kernel.location = arena_strdup(memory, kernel.location ? kernel.location : "");
        if (!kernel.name || !kernel.location) return status_no_memory();
        TRY(VEC_PUSH(memory, &copy->kernels, kernel));
    }
    return NULL;
}

static spyre_status copy_program(arena *memory, const isa_program *program,
                                 const isa_program **out_copy)
{
    isa_program *copy = isa_program_create(memory);
    TRY_ALLOC(copy);
    copy->arg_count = program->arg_count;
    int64_t *bytes = ARENA_NEW(memory, int64_t, program->arg_count);
    TRY_ALLOC(bytes);
    if (program->arg_bytes && program->arg_count)
        memcpy(bytes, program->arg_bytes, program->arg_count * sizeof *bytes);
    copy->arg_bytes = bytes;
    TRY(VEC_ROOM(memory, &copy->code, program->code.count));
    copy->code.count = program->code.count;
    if (copy->code.count)
        memcpy(copy->code.items, program->code.items, copy->code.count * sizeof *copy->code.items);
    TRY(copy_kernels(memory, program, copy));
    *out_copy = copy;
    return NULL;
}

// --- Loading

static spyre_status translate(card_program *p, const isa_program *program, uint32_t threads,
                              text *out)
{
    TRY(isa_verify(program));
    TRY(copy_program(p->memory, program, &p->program));
    translation t = {.loaded = p, .program = p->program, .memory = p->memory, .threads = threads,
                     .scratch = arena_create()};
    TRY_ALLOC(t.scratch);
    spyre_status status = plan_translate(&t, out);
    arena_destroy(t.scratch);
    return status;
}

static spyre_status make_program(const isa_program *program, uint32_t threads, text *out,
                                 card_program **out_program)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    card_program *p = ARENA_NEW(memory, card_program, 1);
    spyre_status status = p ? NULL : status_no_memory();
    if (p) {
        p->memory = memory;
        status = translate(p, program, threads, out);
    }
    if (status) arena_destroy(memory);
    else *out_program = p;
    return status;
}

spyre_status card_load(card *c, const isa_program *program, card_program **out_program)
{
    return make_program(program, pool_threads(c->workers), NULL, out_program);
}

spyre_status card_print_plan(const isa_program *program, uint32_t threads, text *out)
{
    card_program *p;
    TRY(make_program(program, threads, out, &p));
    arena_destroy(p->memory);
    return NULL;
}

void card_program_forget_lx(card_program *program)
{
    program->lx_dead_after = true;
}

void card_unload(card *c, card_program *program)
{
    (void)c;
    if (program) arena_destroy(program->memory);
}

size_t card_program_bytes(const card_program *program)
{
    return arena_host_bytes(program->memory);
}
