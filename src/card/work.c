// SPDX-License-Identifier: Apache-2.0
//
// Work of a program, counted by walking its code: loops multiply, nothing is executed. Time is the
// larger of memory and compute of each kernel, with the constants of cost.def; queues of a core
// overlap, kernels do not.
#include <string.h>

#include "card/card.h"
#include "card/plan.h"
#include "isa/constants.h"

typedef struct {
    const isa_program *program;
    const isa_kernel *kernel;
    double repeats[ISA_MAX_LOOPS + 1];
    uint32_t depth;
    // Of the present kernel, over all its runs.
    double read, written, macs, elements, ring;
} count;

static double tile_elements(const isa_instruction *i)
{
    double elements = 1;
    for (uint32_t d = 0; d < i->dim_count; d++) elements *= i->extent[d];
    return elements;
}

// A dim along which memory does not move is read or written once.
static double memory_bytes(const isa_instruction *i, uint32_t operand)
{
    double bytes = spyre_format_bytes(i->operand[operand].format);
    for (uint32_t d = 0; d < i->dim_count; d++)
        if (i->operand[operand].stride[d] || operand == 0) bytes *= i->extent[d];
    return bytes;
}

// Cores that name different places. Cores that read the same place share one transfer ("cm": a
// broadcast operand is loaded once for all cores).
static double distinct_places(const count *c, const isa_operand *operand)
{
    const isa_kernel *kernel = c->kernel;
    if (operand->slot == ISA_NO_SLOT) return 1;
    int64_t seen[ISA_CORES];
    uint32_t places = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!(kernel->active_cores >> core & 1u)) continue;
        int64_t place = kernel->parameters[core * kernel->slot_count + operand->slot];
        uint32_t n = 0;
        while (n < places && seen[n] != place) n++;
        if (n == places) seen[places++] = place;
    }
    return places;
}

static void count_instruction(count *c, const isa_instruction *i)
{
    double repeats = c->repeats[c->depth];
    double cores = __builtin_popcount(c->kernel->active_cores);
    switch (i->opcode) {
    case ISA_LOAD:
        c->read += repeats * memory_bytes(i, 1) * distinct_places(c, &i->operand[1]);
        return;
    case ISA_GATHER: c->read += repeats * cores * memory_bytes(i, 0); return;
    case ISA_STORE: c->written += repeats * cores * memory_bytes(i, 0); return;
    case ISA_VECTOR:
    case ISA_FILL:
    case ISA_REDUCE:
    case ISA_REDUCESQ:
    case ISA_FOLD: c->elements += repeats * cores * tile_elements(i); return;
    case ISA_MATMUL: c->macs += repeats * cores * tile_elements(i) * matmul_lanes(i); return;
    case ISA_SEND:
        c->ring += repeats * cores * tile_elements(i) * spyre_format_bytes(i->operand[0].format);
        return;
    case ISA_RECEIVE:
    case ISA_HALT:
    case ISA_KERNEL:
    case ISA_END_KERNEL:
    case ISA_LOOP:
    case ISA_END_LOOP:
    case ISA_WAIT:
    case ISA_SIGNAL:
    case ISA_OPCODE_COUNT: return;
    }
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void end_kernel(count *c, card_work *work)
{
    double cores = __builtin_popcount(c->kernel->active_cores);
    if (cores == 0) cores = 1;
    double turned = c->read < c->written ? c->read : c->written;
    double memory = (c->read + c->written) / MEMORY_BANDWIDTH + turned * MEMORY_TURNAROUND;
    double compute = larger(c->macs / (MATMUL_RATE * cores), c->elements / (VECTOR_RATE * cores));
    compute = larger(compute, c->ring / (RING_BANDWIDTH * cores));
    work->modelled_us += larger(memory, compute);
    work->memory_read_bytes += (int64_t)c->read;
    work->memory_written_bytes += (int64_t)c->written;
    work->mac_count += (int64_t)c->macs;
    work->vector_element_count += (int64_t)c->elements;
    work->ring_bytes += (int64_t)c->ring;
    c->read = c->written = c->macs = c->elements = c->ring = 0;
    c->kernel = NULL;
}

void card_count_work(const isa_program *program, card_work *out_work)
{
    count c = {.program = program, .repeats = {1}};
    memset(out_work, 0, sizeof *out_work);
    for (uint32_t at = 0; at < program->code.count; at++) {
        const isa_instruction *i = &program->code.items[at];
        if (i->opcode == ISA_LOOP) {
            c.repeats[c.depth + 1] = c.repeats[c.depth] * i->count;
            c.depth++;
        } else if (i->opcode == ISA_END_LOOP) {
            c.depth--;
        } else if (i->opcode == ISA_KERNEL) {
            c.kernel = &program->kernels.items[i->count];
        } else if (i->opcode == ISA_END_KERNEL) {
            end_kernel(&c, out_work);
        } else if (c.kernel) {
            count_instruction(&c, i);
        }
    }
}
