// SPDX-License-Identifier: Apache-2.0
//
// A launch from the inside. Kernels follow each other on the card, so each begins where the one
// before it ended. What stands in a loop is one record with all its runs: iterations interleave its
// kernels, and there may be thousands.
#include <stdio.h>

#include "runtime/activity.h"

typedef struct {
    const isa_program *program;
    const card_counters *kernels;
    activity_list *records;
    spyre_activity record;          // of the part that is being put together
    uint32_t first, last, count;    // its kernels
    double launch_end_us;
} part;

static void part_begin(part *p)
{
    p->record.card_begin_us = p->record.card_end_us;
    p->record.bytes = p->record.runs = 0;
    p->record.pt_busy_us = 0;
    p->count = 0;
}

static void part_add(part *p, uint32_t kernel)
{
    const card_counters *work = &p->kernels[kernel];
    if (p->count++ == 0) p->first = kernel;
    p->last = kernel;
    p->record.card_end_us += work->us;
    p->record.bytes += work->memory_read_bytes + work->memory_written_bytes;
    p->record.runs += work->runs;
    p->record.pt_busy_us += work->busy_us[CARD_PT];
}

static void part_end(part *p, const char *launch)
{
    if (p->count == 0) return;
    const isa_kernel *first = &p->program->kernels.items[p->first];
    const isa_kernel *last = &p->program->kernels.items[p->last];
    spyre_activity *r = &p->record;
    // Sums of fractions may end a bit beyond the launch.
    if (r->card_end_us > p->launch_end_us) r->card_end_us = p->launch_end_us;
    if (p->count == 1) snprintf(r->name, sizeof r->name, "%s#%s", launch, first->name);
    else snprintf(r->name, sizeof r->name, "%s#%s..%s", launch, first->name, last->name);
    snprintf(r->source, sizeof r->source, "%s", first->location);
    activity_append(p->records, r);
}

void activity_kernels(const isa_program *program, const card_counters *kernels,
                    const spyre_activity *launch, activity_list *records)
{
    part p = {.program = program,
              .kernels = kernels,
              .records = records,
              .record = *launch,
              .launch_end_us = launch->card_end_us};
    uint32_t depth = 0;
    p.record.kind = SPYRE_ACTIVITY_KERNEL;
    p.record.card_end_us = launch->card_begin_us;
    for (uint32_t at = 0; at < program->code.count; at++) {
        const isa_instruction *i = &program->code.items[at];
        if (i->opcode == ISA_LOOP && depth++ == 0) part_begin(&p);
        if (i->opcode == ISA_END_LOOP && --depth == 0) part_end(&p, launch->name);
        if (i->opcode != ISA_KERNEL) continue;
        if (depth == 0) part_begin(&p);
        part_add(&p, i->count);
        if (depth == 0) part_end(&p, launch->name);
        while (program->code.items[at].opcode != ISA_END_KERNEL) at++;
    }
}
