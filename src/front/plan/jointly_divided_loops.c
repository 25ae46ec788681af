// SPDX-License-Identifier: Apache-2.0
//
// Two loops are joined when a buffer that is written once carries the elements of one to the other:
// equal strides and extents from the start of a dim. Joining is union-find over all loops, and over
// ops for the parts; a set of loops is then one joint loop, with at most one loop of each op.
#include "front/plan/jointly_divided_loops.h"

#include <stdlib.h>
#include <string.h>

// --- Sets of loops and of ops, joined along the data

typedef struct {
    const loop_graph *loops;
    const def_use *f;
    uint32_t *loop_set, *op_set; // by op * LOOP_MAX_VARS + var; by op
} joiner;

static uint32_t find(uint32_t *set, uint32_t i)
{
    while (set[i] != i) i = set[i] = set[set[i]];
    return i;
}

// The smaller number stands for the set, so that numbering follows the order of ops.
static void join(uint32_t *set, uint32_t a, uint32_t b)
{
    a = find(set, a);
    b = find(set, b);
    if (a < b)
        set[b] = a;
    else
        set[a] = b;
}

static void join_use(const joiner *j, uint32_t writer, const def_use_use *use)
{
    const loop_op *from = &j->loops->ops.items[writer], *to = &j->loops->ops.items[use->op];
    const loop_access *written = loop_result(from);
    const loop_access *read = &to->operand[use->operand];
    const loop_buffer *buffer = &j->loops->buffers.items[read->buffer];
    join(j->op_set, writer, use->op);
    for (uint32_t u = 0; u < from->var_count; u++)
        for (uint32_t v = 0; v < to->var_count; v++) {
            int64_t stride = written->stride[u];
            if (!stride || read->stride[v] != stride || from->extent[u] != to->extent[v]) continue;
            if (!loop_starts_dim(buffer, read->offset, stride)) continue;
            join(j->loop_set, writer * LOOP_MAX_VARS + u, use->op * LOOP_MAX_VARS + v);
        }
}

static void join_all(const joiner *j)
{
    for (uint32_t i = 0; i < j->loops->ops.count; i++) {
        j->op_set[i] = i;
        for (uint32_t v = 0; v < LOOP_MAX_VARS; v++)
            j->loop_set[i * LOOP_MAX_VARS + v] = i * LOOP_MAX_VARS + v;
    }
    for (uint32_t b = 0; b < j->loops->buffers.count; b++) {
        if (!def_use_is_written_once(j->f, b)) continue;
        for (uint32_t u = j->f->first_use[b]; u < j->f->first_use[b + 1]; u++)
            join_use(j, j->f->writer[b], &j->f->uses[u]);
    }
}

// --- Joint loops from sets

// An op's loop takes part when it can be divided and no earlier loop of the op is in the same set:
// the rows of scores and their columns both come from the sequence. Loops along the stick come
// last.
static uint32_t pick_members(const joiner *j, const cost_basis *const *basis, uint32_t index,
                             uint8_t out_var[LOOP_MAX_VARS])
{
    const loop_op *op = &j->loops->ops.items[index];
    const loop_access *result = loop_result(op);
    uint32_t count = 0;
    for (int along_stick = 0; along_stick < 2; along_stick++)
        for (uint8_t v = 0; v < op->var_count; v++) {
            if ((v == op->stick) != (along_stick == 1)) continue;
            if (!result->stride[v] || basis[index]->sizes.units[v] < 2) continue;
            uint32_t set = find(j->loop_set, index * LOOP_MAX_VARS + v), i = 0;
            while (i < count && find(j->loop_set, index * LOOP_MAX_VARS + out_var[i]) != set) i++;
            if (i == count) out_var[count++] = v;
        }
    return count;
}

static void add_member(joint_loop *a, const cost_basis *basis, const loop_op *op, uint32_t part,
                       uint8_t var)
{
    double bytes = 0;
    for (uint32_t k = 0; k < op->operand_count; k++) bytes += basis->bytes[k];
    if (a->count == 0 || var < a->depth) a->depth = var;
    a->part = part;
    a->bytes += bytes;
    a->count++;
    if (basis->sizes.units[var] > a->units) a->units = basis->sizes.units[var];
}

static int compare_loops(const void *left, const void *right)
{
    const joint_loop *a = left, *b = right;
    if (a->part != b->part) return a->part < b->part ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
    return a->first < b->first ? -1 : 1;
}

// Numbers the roots of a set in order; out[i] is the number of i's root.
static uint32_t number_sets(uint32_t *set, uint32_t count, uint32_t *out)
{
    uint32_t numbers = 0;
    for (uint32_t i = 0; i < count; i++) out[i] = set[i] == i ? numbers++ : out[find(set, i)];
    return numbers;
}

static spyre_status collect(const joiner *j, const cost_basis *const *basis, joint_loops *out)
{
    arena *memory = loop_scratch(j->loops);
    uint32_t ops = j->loops->ops.count, loops = ops * LOOP_MAX_VARS, members = 0;
    uint32_t *number = ARENA_NEW(memory, uint32_t, loops), *next;
    TRY_NEW(memory, out->part, ops);
    TRY_NEW(memory, out->members, loops);
    TRY_ALLOC(number);
    out->part_count = number_sets(j->op_set, ops, out->part);
    out->count = number_sets(j->loop_set, loops, number);
    TRY_NEW(memory, out->items, out->count);
    TRY_NEW(memory, next, out->count);
    uint8_t vars[LOOP_MAX_VARS];
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t count = pick_members(j, basis, i, vars);
        for (uint32_t m = 0; m < count; m++)
            add_member(&out->items[number[i * LOOP_MAX_VARS + vars[m]]], basis[i],
                       &j->loops->ops.items[i], out->part[i], vars[m]);
    }
    for (uint32_t n = 0; n < out->count; n++) {
        next[n] = out->items[n].first = members;
        members += out->items[n].count;
    }
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t count = pick_members(j, basis, i, vars);
        for (uint32_t m = 0; m < count; m++)
            out->members[next[number[i * LOOP_MAX_VARS + vars[m]]]++] = (joint_member){i, vars[m]};
    }
    return NULL;
}

static spyre_status sort(arena *memory, joint_loops *a)
{
    uint32_t used = 0;
    for (uint32_t n = 0; n < a->count; n++)
        if (a->items[n].count) a->items[used++] = a->items[n];
    a->count = used;
    qsort(a->items, a->count, sizeof a->items[0], compare_loops);
    TRY_NEW(memory, a->first_of_part, a->part_count + 1);
    for (uint32_t n = 0; n < a->count; n++) a->first_of_part[a->items[n].part + 1]++;
    for (uint32_t p = 0; p < a->part_count; p++) a->first_of_part[p + 1] += a->first_of_part[p];
    return NULL;
}

spyre_status joint_loops_build(const loop_graph *loops, const def_use *f,
                               const cost_basis *const *basis, joint_loops *out)
{
    const uint32_t ops = loops->ops.count;
    joiner j = {loops, f, ARENA_NEW(loop_scratch(loops), uint32_t, ops * LOOP_MAX_VARS),
                ARENA_NEW(loop_scratch(loops), uint32_t, ops)};
    TRY_ALLOC(j.loop_set);
    TRY_ALLOC(j.op_set);
    join_all(&j);
    TRY(collect(&j, basis, out));
    return sort(loop_scratch(loops), out);
}

// --- A division along joint loops

static void divide_along(const loop_graph *loops, const joint_loops *a, const joint_loop *along,
                         const cost_basis *const *basis, int64_t limit, division *plan)
{
    int64_t most = 1; // cores that the members have left
    const joint_member *members = &a->members[along->first];
    for (uint32_t i = 0; i < along->count; i++) {
        const loop_op *op = &loops->ops.items[members[i].op];
        int64_t left = loops->cores / division_cores(op, &plan[members[i].op]);
        if (left > most) most = left;
    }
    bool uneven = loops->settings.uneven_splits;
    int32_t slices = division_largest(along->units, most < limit ? most : limit, uneven);
    if (slices == 1) return;
    for (uint32_t i = 0; i < along->count; i++) {
        uint32_t index = members[i].op;
        int64_t used = division_cores(&loops->ops.items[index], &plan[index]);
        const division_sizes *sizes = &basis[index]->sizes;
        uint8_t v = members[i].var;
        if (!division_cuts(sizes->units[v], slices, sizes->uneven[v])) continue;
        if (used * slices > loops->cores) continue;
        plan[index].split[members[i].var] = slices;
        plan[index].core_stride[members[i].var] = (int32_t)used;
    }
}

void joint_loops_divide(const loop_graph *loops, const joint_loops *a,
                        const cost_basis *const *basis, const joint_plan *plan, division *out_plan)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) out_plan[i] = division_whole();
    for (uint32_t p = 0; p < a->part_count; p++) {
        const joint_loop *items = &a->items[a->first_of_part[p]];
        uint32_t count = a->first_of_part[p + 1] - a->first_of_part[p];
        uint32_t start = plan->first < count ? plan->first : 0;
        if (count) divide_along(loops, a, &items[start], basis, plan->most, out_plan);
        for (uint32_t n = 0; n < count && !plan->alone; n++)
            if (n != start) divide_along(loops, a, &items[n], basis, loops->cores, out_plan);
    }
}
