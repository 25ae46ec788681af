// SPDX-License-Identifier: Apache-2.0
//
// A launch from the inside. Kernels follow each other on the card, so each begins where the one
// before it ended. What stands in a loop is one part with all its runs: iterations interleave its
// kernels, and there may be thousands.
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "runtime/profile.h"

typedef struct {
    const char *name, *source;      // "1_exp..4_mul"; of the first kernel
    double us, pt_busy_us;
    int64_t bytes, runs;
} part;

struct profile_outline {
    arena *memory;
    VEC(part) parts;
};

static void add_kernel(part *p, const card_counters *work)
{
    p->us += work->us;
    p->pt_busy_us += work->busy_us[CARD_PT];
    p->bytes += work->memory_read_bytes + work->memory_written_bytes;
    p->runs += work->runs;
}

static spyre_status add_part(profile_outline *outline, part p, const isa_kernel *first,
                             const isa_kernel *last)
{
    arena *memory = outline->memory;
    p.source = arena_strdup(memory, first->location);
    p.name = first == last ? arena_strdup(memory, first->name)
                           : arena_printf(memory, "%s..%s", first->name, last->name);
    if (!p.source || !p.name) return status_no_memory();
    return VEC_PUSH(memory, &outline->parts, p);
}

static spyre_status divide(profile_outline *outline, const isa_program *program,
                           const card_counters *kernels)
{
    const isa_kernel *first = NULL, *last = NULL;
    part p = {0};
    uint32_t depth = 0;
    for (uint32_t at = 0; at < program->code.count; at++) {
        const isa_instruction *i = program->code.items[at];
        if (i->opcode == ISA_LOOP) depth++;
        if (i->opcode == ISA_END_LOOP) depth--;
        if (i->opcode == ISA_KERNEL) {
            last = &program->kernels.items[i->count];
            if (!first) first = last;
            add_kernel(&p, &kernels[i->count]);
            while (program->code.items[at]->opcode != ISA_END_KERNEL) at++;
        }
        if (depth > 0 || !first) continue;
        TRY(add_part(outline, p, first, last));
        first = NULL;
        p = (part){0};
    }
    return NULL;
}

spyre_status profile_outline_create(const isa_program *program, const card_counters *kernels,
                                     profile_outline **out_outline)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    profile_outline *outline = ARENA_NEW(memory, profile_outline, 1);
    spyre_status status = outline ? NULL : status_no_memory();
    if (!status) {
        outline->memory = memory;
        status = divide(outline, program, kernels);
    }
    if (status) arena_destroy(memory);
    else *out_outline = outline;
    return status;
}

void profile_outline_destroy(profile_outline *outline)
{
    if (outline) arena_destroy(outline->memory);
}

// The launch's name is cut where there is no room for both.
static void put_name(char out[SPYRE_PROFILE_NAME], const char *launch, const char *kernel)
{
    int room = SPYRE_PROFILE_NAME - 2 - (int)strlen(kernel);
    snprintf(out, SPYRE_PROFILE_NAME, "%.*s#%s", room > 0 ? room : 0, launch, kernel);
}

void profile_kernel_rows(const profile_outline *outline, const spyre_activity *launch,
                         profile_list *records)
{
    spyre_activity r = *launch;
    r.kind = SPYRE_ACTIVITY_KERNEL;
    r.card_end_us = launch->card_begin_us;
    for (uint32_t n = 0; n < outline->parts.count; n++) {
        const part *p = &outline->parts.items[n];
        r.card_begin_us = r.card_end_us;
        r.card_end_us += p->us;
        // Sums of fractions may end a bit beyond the launch.
        if (r.card_end_us > launch->card_end_us) r.card_end_us = launch->card_end_us;
        r.bytes = p->bytes;
        r.runs = p->runs;
        r.pt_busy_us = p->pt_busy_us;
        put_name(r.name, launch->name, p->name);
        snprintf(r.source, sizeof r.source, "%s", p->source);
        profile_append(records, &r);
    }
}
