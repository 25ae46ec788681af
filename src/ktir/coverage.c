// SPDX-License-Identifier: Apache-2.0
//
// What a STORE writes is nested levels of runs, the same on every core from another base on. Stores
// that share their outer level are united inside of it first, where the runs of all cores close
// each other's gaps: what becomes as long as the level's stride has no gap over the whole level
// either. Only what keeps gaps is repeated run by run. (Bits for all bytes, set run by run, take
// fifty times as long as lowering the kernel.)
#include "ktir/coverage.h"

#include <stdlib.h>

#include "card/footprint/byte_set.h"
#include "card/footprint/range.h"

typedef struct {
    const isa_kernel *kernel;
    const isa_operand *target;
    byte_set levels;
} store;

typedef struct {
    arena *memory;
    VEC(store) stores;                  // those that share outer levels side by side
    byte_ranges ranges;                 // rising and apart, but for those last added
} coverage;

// --- Stores

static spyre_status collect(coverage *c, const isa_program *program, uint32_t argument)
{
    const isa_kernel *kernel = NULL;
    uint32_t depth = 0, trips[ISA_MAX_LOOPS];
    for (uint32_t n = 0; n < program->code.count; n++) {
        const isa_instruction *i = program->code.items[n];
        if (i->opcode == ISA_KERNEL) kernel = &program->kernels.items[i->count];
        if (i->opcode == ISA_LOOP) trips[depth++] = i->count;
        if (i->opcode == ISA_END_LOOP) depth--;
        const isa_operand *o = &i->operand[0];
        if (i->opcode != ISA_STORE || o->arg != argument) continue;
        store s = {.kernel = kernel, .target = o,
                   .levels = {.bytes = spyre_format_bytes(o->format)}};
        for (uint32_t d = 0; d < i->dim_count; d++)
            byte_set_add(&s.levels, o->stride[d], i->extent[d]);
        for (uint32_t l = 0; l < depth; l++) byte_set_add(&s.levels, o->loop_stride[l], trips[l]);
        byte_set_merge(&s.levels);
        TRY(VEC_PUSH(c->memory, &c->stores, s));
    }
    return NULL;
}

static bool has_level(const store *s, uint32_t depth)
{
    return depth < s->levels.count;
}

// Of two levels, the depth-th from outside.
static int compare_level(const store *a, const store *b, uint32_t depth)
{
    const byte_set *l = &a->levels, *m = &b->levels;
    uint32_t x = l->count - 1 - depth, y = m->count - 1 - depth;
    if (l->stride[x] != m->stride[y]) return l->stride[x] < m->stride[y] ? -1 : 1;
    return (l->extent[x] > m->extent[y]) - (l->extent[x] < m->extent[y]);
}

static int compare_stores(const void *left, const void *right)
{
    const store *a = left, *b = right;
    int order = 0;
    uint32_t depth = 0;
    for (; !order && has_level(a, depth) && has_level(b, depth); depth++)
        order = compare_level(a, b, depth);
    return order ? order : (int)has_level(a, depth) - (int)has_level(b, depth);
}

// --- Ranges

static int compare_ranges(const void *left, const void *right)
{
    const byte_range *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

// Ranges from `begin` on, in order; those that touch become one.
static void unite(byte_ranges *ranges, uint32_t begin)
{
    byte_range *r = ranges->items + begin;
    uint32_t count = ranges->count - begin, kept = 0;
    if (count < 2) return;
    qsort(r, count, sizeof *r, compare_ranges);
    for (uint32_t n = 1; n < count; n++)
        if (r[n].low <= r[kept].high) range_add(&r[kept], r[n]);
        else r[++kept] = r[n];
    ranges->count = begin + kept + 1;
}

static spyre_status add_runs(coverage *c, const store *s)
{
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!isa_is_active(s->kernel, core)) continue;
        const isa_operand *o = s->target;
        int64_t low = o->offset + s->levels.low + isa_parameter(s->kernel, core, o->slot);
        const byte_range run = {low, low + s->levels.bytes};
        TRY(VEC_PUSH(c->memory, &c->ranges, run));
    }
    return NULL;
}

static spyre_status repeat(coverage *c, uint32_t begin, int64_t stride, int64_t extent)
{
    for (uint32_t n = begin, end = c->ranges.count; n < end; n++) {
        const byte_range r = c->ranges.items[n];
        if (r.high - r.low >= stride) {
            range_repeat(&c->ranges.items[n], stride, extent);
            continue;
        }
        for (int64_t k = 1; k < extent && c->ranges.count < COVERAGE_MOST_RANGES; k++)
            TRY(VEC_PUSH(c->memory, &c->ranges, range_shifted(r, k * stride)));
    }
    return NULL;
}

// Adds what stores [first, end) write, which share their `depth` outer levels, inside of those.
static spyre_status add_ranges(coverage *c, uint32_t first, uint32_t end, uint32_t depth)
{
    uint32_t begin = c->ranges.count;
    for (uint32_t n = first, next; n < end; n = next) {
        const store *s = &c->stores.items[n];
        uint32_t inner = c->ranges.count, level = s->levels.count - 1 - depth;
        next = n + 1;
        if (!has_level(s, depth)) {
            TRY(add_runs(c, s));
            continue;
        }
        while (next < end && compare_level(s, &c->stores.items[next], depth) == 0) next++;
        TRY(add_ranges(c, n, next, depth + 1));
        TRY(repeat(c, inner, s->levels.stride[level], s->levels.extent[level]));
    }
    unite(&c->ranges, begin);
    return NULL;
}

// --- Arguments

static bool is_read(const isa_program *program, uint32_t argument)
{
    for (uint32_t n = 0; n < program->code.count; n++) {
        const isa_instruction *i = program->code.items[n];
        for (uint32_t o = i->opcode == ISA_STORE; o < i->operand_count; o++)
            if (i->operand[o].space == ISA_SPACE_MEMORY && i->operand[o].arg == argument)
                return true;
    }
    return false;
}

spyre_status coverage_is_whole(arena *memory, const isa_program *program, uint32_t argument,
                               int64_t bytes, bool *out_whole)
{
    coverage c = {.memory = memory};
    *out_whole = false;
    if (bytes < 1 || is_read(program, argument)) return NULL;
    TRY(collect(&c, program, argument));
    if (!c.stores.count) return NULL;
    qsort(c.stores.items, c.stores.count, sizeof *c.stores.items, compare_stores);
    TRY(add_ranges(&c, 0, c.stores.count, 0));
    const byte_range *r = c.ranges.items;
    *out_whole = c.ranges.count == 1 && r->low == 0 && r->high == bytes;
    return NULL;
}
