// SPDX-License-Identifier: Apache-2.0
//
// From a program to a plan: it goes through the passes of pass.def.
#include "card/machine.h"
#include "card/plan/pass.h"

// Of a program; what of its plan goes to `out`, which may be null.
typedef struct {
    const isa_program *program;
    uint32_t temporary, threads;
    text *out;
} source;

static spyre_status translate(card_program *p, const source *from)
{
    p->program = from->program;
    translation t = {.loaded = p, .program = from->program, .memory = p->memory,
                     .threads = from->threads, .temporary.arguments = from->temporary,
                     .scratch = arena_create()};
    TRY_ALLOC(t.scratch);
    spyre_status status = plan_run_passes(&t, from->out);
    arena_destroy(t.scratch);
    return status;
}

static spyre_status make_program(const source *from, card_program **out_program)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    card_program *p = ARENA_NEW(memory, card_program, 1);
    spyre_status status = p ? NULL : status_no_memory();
    if (p) {
        p->memory = memory;
        status = translate(p, from);
    }
    if (status) arena_destroy(memory);
    else *out_program = p;
    return status;
}

spyre_status card_load(card *c, const isa_program *program, card_program **out_program)
{
    return card_load_with(c, program, 0, out_program);
}

spyre_status card_load_with(card *c, const isa_program *program, uint32_t temporary,
                            card_program **out_program)
{
    const source from = {.program = program, .temporary = temporary,
                         .threads = pool_threads(c->workers)};
    return make_program(&from, out_program);
}

spyre_status card_print_plan(const isa_program *program, uint32_t threads, text *out)
{
    const source from = {.program = program, .threads = threads, .out = out};
    card_program *p = NULL;
    TRY(make_program(&from, &p));
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
