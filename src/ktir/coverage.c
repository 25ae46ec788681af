// SPDX-License-Identifier: Apache-2.0
//
// A bit for every grain of the argument is set, run by run of what the program's STOREs write on
// every core in every iteration: strides may be any, so counting bytes would miss overlaps. A grain
// is what divides all places and lengths of runs.
#include "ktir/coverage.h"

#include <stdlib.h>

enum { WORD = 64 };

typedef struct {
    int64_t grain, grains;              // bytes of a grain; how many
    uint64_t *bits;
    int64_t runs;                       // that may still be looked at
} coverage;

// Dims and loops around a store; the innermost dim is a run when its elements touch.
typedef struct {
    uint32_t count;
    int64_t extent[ISA_MAX_DIMS + ISA_MAX_LOOPS], stride[ISA_MAX_DIMS + ISA_MAX_LOOPS];
    int64_t run;
} walk;

static void mark(coverage *c, int64_t at, int64_t bytes)
{
    int64_t first = at / c->grain, end = (at + bytes) / c->grain;
    if (at < 0 || end > c->grains) c->runs = 0;         // a fault of the program: left to the card
    for (int64_t g = first; g < end && c->runs > 0;) {
        int64_t bit = g % WORD, count = WORD - bit < end - g ? WORD - bit : end - g;
        uint64_t ones = count == WORD ? ~0ULL : ((1ULL << count) - 1) << bit;
        c->bits[g / WORD] |= ones;
        g += count;
    }
}

static void mark_all(coverage *c, const walk *w, uint32_t level, int64_t at)
{
    if (level == w->count) {
        if (c->runs > 0) mark(c, at, w->run);
        c->runs--;
        return;
    }
    for (int64_t n = 0; n < w->extent[level] && c->runs > 0; n++)
        mark_all(c, w, level + 1, at + n * w->stride[level]);
}

static walk walk_of(const isa_instruction *i, uint32_t depth, const uint32_t *trips)
{
    const isa_operand *o = &i->operand[0];
    walk w = {.run = spyre_format_bytes(o->format)};
    for (uint32_t n = 0; n < depth; n++) {
        w.extent[w.count] = trips[n];
        w.stride[w.count++] = o->loop_stride[n];
    }
    for (uint32_t d = 0; d < i->dim_count; d++) {
        w.extent[w.count] = i->extent[d];
        w.stride[w.count++] = o->stride[d];
    }
    while (w.count > depth && w.stride[w.count - 1] == w.run) w.run *= w.extent[--w.count];
    return w;
}

// Does something with what a store writes from `at` on.
typedef void visit(coverage *c, const walk *w, int64_t at);

static bool is_all_marked(const coverage *c)
{
    int64_t words = c->grains / WORD;
    for (int64_t n = 0; n < words; n++)
        if (c->bits[n] != ~0ULL) return false;
    return c->bits[words] == (1ULL << c->grains % WORD) - 1;
}

static void mark_walk(coverage *c, const walk *w, int64_t at)
{
    mark_all(c, w, 0, at);
}

static void divide_grain(coverage *c, int64_t by)
{
    while (by) {
        int64_t rest = c->grain % by;
        c->grain = by;
        by = rest;
    }
    if (c->grain < 0) c->grain = -c->grain;
}

static void find_grain(coverage *c, const walk *w, int64_t at)
{
    divide_grain(c, at);
    divide_grain(c, w->run);
    for (uint32_t n = 0; n < w->count; n++) divide_grain(c, w->stride[n]);
}

static void visit_store(coverage *c, const isa_kernel *kernel, const isa_instruction *i,
                        const walk *w, visit *each)
{
    const isa_operand *o = &i->operand[0];
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!(kernel->active_cores >> core & 1u)) continue;
        int64_t slot = o->slot == ISA_NO_SLOT
                           ? 0 : kernel->parameters[core * kernel->slot_count + o->slot];
        each(c, w, o->offset + slot);
    }
}

static bool is_read(const isa_program *program, uint32_t argument)
{
    for (uint32_t n = 0; n < program->code.count; n++) {
        const isa_instruction *i = &program->code.items[n];
        for (uint32_t o = i->opcode == ISA_STORE; o < i->operand_count; o++)
            if (i->operand[o].space == ISA_SPACE_MEMORY && i->operand[o].arg == argument)
                return true;
    }
    return false;
}

static void visit_stores(coverage *c, const isa_program *program, uint32_t argument, visit *each)
{
    const isa_kernel *kernel = NULL;
    uint32_t depth = 0, trips[ISA_MAX_LOOPS];
    for (uint32_t n = 0; n < program->code.count && c->runs > 0; n++) {
        const isa_instruction *i = &program->code.items[n];
        if (i->opcode == ISA_KERNEL) kernel = &program->kernels.items[i->count];
        if (i->opcode == ISA_LOOP) trips[depth++] = i->count;
        if (i->opcode == ISA_END_LOOP) depth--;
        if (i->opcode != ISA_STORE || i->operand[0].arg != argument) continue;
        const walk w = walk_of(i, depth, trips);
        visit_store(c, kernel, i, &w, each);
    }
}

spyre_status coverage_is_whole(const isa_program *program, uint32_t argument, int64_t bytes,
                               bool *out_whole)
{
    coverage c = {.grain = bytes, .runs = COVERAGE_MOST_RUNS};
    *out_whole = false;
    if (bytes < 1 || is_read(program, argument)) return NULL;
    visit_stores(&c, program, argument, find_grain);
    c.grains = bytes / c.grain;
    c.bits = calloc((size_t)(c.grains / WORD + 1), sizeof *c.bits);
    TRY_ALLOC(c.bits);
    visit_stores(&c, program, argument, mark_walk);
    *out_whole = c.runs > 0 && is_all_marked(&c);
    free(c.bits);
    return NULL;
}
