// SPDX-License-Identifier: Apache-2.0
//
// MATMULs along k: in loops, and behind each other where they add to the same sums, as a loop and
// its last iteration do that prefetches nothing. Rows that a LOAD brings from further apart than a
// MATMUL's can be (forward_operand.c) are read where they lie.
#include <string.h>

#include "card/pass/accumulate.h"

// --- Neighbours

static isa_opcode opcode_at(const match *m, uint32_t at)
{
    return m->f->program->code.items[at]->opcode;
}

static bool is_step(const match *m, uint32_t at)
{
    isa_opcode opcode = opcode_at(m, at);
    return m->f->out[at] || opcode == ISA_LOOP || opcode == ISA_END_LOOP;
}

bool match_neighbours(const match *m, uint32_t *before, uint32_t *behind)
{
    uint32_t at = m->first, after = m->last + 1;
    while (at > m->begin && !is_step(m, at - 1)) at--;
    while (after < m->end && !is_step(m, after)) after++;
    if (at == m->begin || after == m->end) return false;
    *before = at - 1;
    *behind = after;
    return true;
}

bool match_inside_loop(const match *m, uint32_t *before, uint32_t *behind)
{
    return match_neighbours(m, before, behind) && opcode_at(m, *before) == ISA_LOOP &&
           opcode_at(m, *behind) == ISA_END_LOOP && !m->f->out[*before];
}

const lx_access *match_access(const match *m, uint32_t at, uint32_t operand)
{
    for (uint32_t n = 0; n < m->f->accesses.count; n++) {
        const lx_access *a = &m->f->accesses.items[n];
        if (a->at == at && a->operand == operand) return a;
    }
    return NULL;
}

// --- Rows in memory

// Whether a run of k of a row lies in memory side by side, and where the row and the run say. A
// begins at `begin` among what the LOAD writes and at `base` in memory.
static bool lies_in_pattern(const tile_nest *load, int64_t begin, int64_t base, int64_t element,
                            const product_index *row, const product_index *run)
{
    const int64_t of_row = row->at[PRODUCT_A], of_run = run->at[PRODUCT_A];
    const int64_t last = element * (run->run - 1);
    int64_t row_at, run_at, at, end;
    return tile_nest_map(load, begin + of_row, &row_at) &&
           tile_nest_map(load, begin + of_run, &run_at) &&
           tile_nest_map(load, begin + of_row + of_run, &at) &&
           tile_nest_map(load, begin + of_row + of_run + last, &end) && end - at == last &&
           at == row_at + run_at - base;
}

static void move_behind(const tile_nest *load, int64_t begin, int64_t base, product_list *list)
{
    for (uint32_t n = 0; n < list->count; n++) {
        int64_t *at = &list->items[n].at[PRODUCT_A], there = base;
        tile_nest_map(load, begin + *at, &there);
        *at = there - base;
    }
}

// Moves A from what the LOAD writes to what it reads. False when rows and runs of k do not lie in
// patterns of their own there.
static bool read_behind(match *m, const plan_tile *load)
{
    product *x = m->product;
    isa_operand *a = &m->work->operand[PRODUCT_A];
    const tile_nest nest = tile_nest_of(load, 0, 1);
    const int64_t element = spyre_format_bytes(x->format);
    const int64_t begin = a->offset - load->instruction->operand[0].offset;
    const spyre_format format = a->format;
    const uint64_t runs = x->runs.count, all = x->rows.count * runs;
    int64_t base;
    if (all > PRODUCT_LONGEST || !tile_nest_map(&nest, begin, &base)) return false;
    for (uint64_t n = 0; n < all; n++)
        if (!lies_in_pattern(&nest, begin, base, element, &x->rows.items[n / runs],
                             &x->runs.items[n % runs]))
            return false;
    move_behind(&nest, begin, base, &x->rows);
    move_behind(&nest, begin, base, &x->runs);
    *a = load->instruction->operand[1];
    a->format = format;
    a->offset += base;
    return true;
}

// The LOAD in front of the MATMUL, in the same loops, whose bytes are all of its A.
static const lx_access *load_before(const match *m)
{
    uint32_t before, behind;
    if (m->work->operand[PRODUCT_A].space != ISA_SPACE_LX ||
        !match_neighbours(m, &before, &behind) || opcode_at(m, before) != ISA_LOAD)
        return NULL;
    const lx_access *load = match_access(m, before, 0);
    const lx_access *read = match_access(m, m->first, PRODUCT_A);
    if (!load || !read || load->depth != read->depth || !plan_injective(m->f->out[before], 0))
        return NULL;
    uint32_t number = (uint32_t)(read - m->f->accesses.items);
    return forward_writer_of(m->f, number) == load ? load : NULL;
}

// --- Terms

// The product that one MATMUL is, by itself, and the LOAD of its rows.
static spyre_status begin_at(match *m, uint32_t at)
{
    m->first = m->last = m->term[0].matmul = at;
    m->terms = 1;
    m->depth = match_access(m, at, PRODUCT_C)->depth;
    m->work = isa_clone(m->f->memory, m->f->out[at]->instruction);
    TRY_ALLOC(m->work);
    TRY(product_of(m->f->memory, m->work, &m->product));
    const lx_access *load = load_before(m);
    if (!load || !read_behind(m, m->f->out[load->at])) return NULL;
    m->term[0].load = load;
    m->first = load->at;
    return NULL;
}

// Loops around the MATMULs alone that add to the same sums.
static spyre_status take_depth_loops(match *m)
{
    uint32_t before, behind;
    while (match_inside_loop(m, &before, &behind)) {
        const isa_operand *operand = m->work->operand;
        uint32_t loop = m->depth - 1, count = m->f->program->code.items[before]->count;
        if (operand[PRODUCT_C].loop_stride[loop] != 0) return NULL;
        int64_t step[PRODUCT_OPERANDS] = {0, operand[PRODUCT_A].loop_stride[loop],
                                          operand[PRODUCT_B].loop_stride[loop]};
        bool done;
        TRY(product_repeat(m->f->memory, &m->product->runs, count, step, &done));
        if (!done) return NULL;
        m->product->depth *= count;
        m->first = before;
        m->last = behind;
        m->depth = loop;
    }
    return NULL;
}

static bool same_places(const product_list *a, const product_list *b)
{
    bool same = a->count == b->count;
    for (uint32_t n = 0; same && n < a->count; n++)
        same = memcmp(a->items[n].at, b->items[n].at, sizeof a->items[n].at) == 0;
    return same;
}

// Operands lie alike in all iterations of the loops around both, at offsets of their own.
static bool lie_alike(const isa_operand *a, const isa_operand *b, uint32_t loops)
{
    return a->space == b->space && a->arg == b->arg && a->slot == b->slot &&
           memcmp(a->loop_stride, b->loop_stride, loops * sizeof *a->loop_stride) == 0;
}

static bool adds_to_same(const match *m, const match *next)
{
    const product *x = m->product, *y = next->product;
    bool same = m->depth == next->depth && x->format == y->format && x->lanes == y->lanes &&
                x->line == y->line && same_places(&x->rows, &y->rows) &&
                same_places(&x->columns, &y->columns);
    for (int o = 0; same && o < PRODUCT_OPERANDS; o++)
        same = lie_alike(&m->work->operand[o], &next->work->operand[o], m->depth);
    return same && m->work->operand[PRODUCT_C].offset == next->work->operand[PRODUCT_C].offset &&
           m->terms + next->terms <= MOST_TERMS &&
           x->runs.count + y->runs.count <= PRODUCT_LONGEST;
}

static spyre_status append_runs(match *m, const match *next)
{
    product *x = m->product;
    for (uint32_t n = 0; n < next->product->runs.count; n++) {
        product_index run = next->product->runs.items[n];
        for (int o = PRODUCT_A; o <= PRODUCT_B; o++)
            run.at[o] += next->work->operand[o].offset - m->work->operand[o].offset;
        TRY(VEC_PUSH(m->f->memory, &x->runs, run));
    }
    for (uint32_t n = 0; n < next->terms; n++) m->term[m->terms++] = next->term[n];
    x->depth += next->product->depth;
    m->last = next->last;
    return NULL;
}

// The MATMUL that is next, or in loops that are.
static bool matmul_behind(const match *m, uint32_t *at)
{
    uint32_t before;
    if (!match_neighbours(m, &before, at)) return false;
    while (*at < m->end && (!is_step(m, *at) || opcode_at(m, *at) == ISA_LOOP ||
                            opcode_at(m, *at) == ISA_LOAD))
        ++*at;
    return *at < m->end && m->f->out[*at] && m->f->out[*at]->product != NULL;
}

spyre_status match_terms(match *m, uint32_t at)
{
    TRY(begin_at(m, at));
    for (uint32_t next_at, before, behind;;) {
        TRY(take_depth_loops(m));
        if (!matmul_behind(m, &next_at)) return NULL;
        match next = {.f = m->f, .begin = m->begin, .end = m->end};
        TRY(begin_at(&next, next_at));
        TRY(take_depth_loops(&next));
        if (!match_neighbours(m, &before, &behind) || next.first != behind) return NULL;
        if (!adds_to_same(m, &next)) return NULL;
        TRY(append_runs(m, &next));
    }
}
