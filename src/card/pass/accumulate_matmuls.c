// SPDX-License-Identifier: Apache-2.0
//
// From FILL, MATMULs, VECTOR identity and the loops around them to one product that leaves its sums
// in registers. Which result a sum becomes is read off the rounding: the place of a sum among the
// accumulators has one index for each dim of the VECTOR (tile_nest). MATMULs behind each other that
// add to the same sums, as a loop and its last iteration do that prefetches nothing, go on along k.
// Rows that a LOAD brings from further apart than a MATMUL's can be (forward_operand.c) are read
// where they lie.
#include <string.h>

#include "card/pass/forward.h"

enum { MOST_TERMS = 8 };

// A MATMUL along k, and the LOAD of its rows that goes with it or null.
typedef struct {
    uint32_t matmul;
    const lx_access *load;
} match_term;

typedef struct {
    forwarding *f;
    uint32_t begin, end;                    // the kernel's code
    uint32_t first, last;                   // the instructions that the product stands for
    uint32_t fill, round;
    match_term term[MOST_TERMS];            // in their order along k
    uint32_t terms;
    uint32_t depth;                         // loops that stay around it
    plan_tile result;                       // of the VECTOR; loops taken in are further dims
    isa_instruction *work;
    product *product;
} match;

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

// The nearest steps on both sides. False when there is none on one of them.
static bool neighbours(const match *m, uint32_t *before, uint32_t *behind)
{
    uint32_t at = m->first, after = m->last + 1;
    while (at > m->begin && !is_step(m, at - 1)) at--;
    while (after < m->end && !is_step(m, after)) after++;
    if (at == m->begin || after == m->end) return false;
    *before = at - 1;
    *behind = after;
    return true;
}

// A loop that holds nothing but the match.
static bool inside_loop(const match *m, uint32_t *before, uint32_t *behind)
{
    return neighbours(m, before, behind) && opcode_at(m, *before) == ISA_LOOP &&
           opcode_at(m, *behind) == ISA_END_LOOP && !m->f->out[*before];
}

static const lx_access *access_at(const match *m, uint32_t at, uint32_t operand)
{
    for (uint32_t n = 0; n < m->f->accesses.count; n++) {
        const lx_access *a = &m->f->accesses.items[n];
        if (a->at == at && a->operand == operand) return a;
    }
    return NULL;
}

// --- k

// From bytes of one operand of a copy to bytes of the other. False when it has no element there.
static bool locate(const tile_nest *copy, int64_t from, int64_t *to)
{
    int64_t index[ISA_MAX_DIMS];
    *to = 0;
    if (!tile_nest_find(copy, from, index)) return false;
    for (uint32_t d = 0; d < copy->count; d++) *to += index[d] * copy->to[d];
    return true;
}

// Whether a run of k of a row lies in memory side by side, and where the row and the run say. A
// begins at `begin` among what the LOAD writes and at `base` in memory.
static bool lies_in_pattern(const tile_nest *load, int64_t begin, int64_t base, int64_t element,
                            const product_index *row, const product_index *run)
{
    const int64_t of_row = row->at[PRODUCT_A], of_run = run->at[PRODUCT_A];
    const int64_t last = element * (run->run - 1);
    int64_t row_at, run_at, at, end;
    return locate(load, begin + of_row, &row_at) && locate(load, begin + of_run, &run_at) &&
           locate(load, begin + of_row + of_run, &at) &&
           locate(load, begin + of_row + of_run + last, &end) && end - at == last &&
           at == row_at + run_at - base;
}

static void move_behind(const tile_nest *load, int64_t begin, int64_t base, product_list *list)
{
    for (uint32_t n = 0; n < list->count; n++) {
        int64_t *at = &list->items[n].at[PRODUCT_A], there = base;
        locate(load, begin + *at, &there);
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
    if (all > PRODUCT_LONGEST || !locate(&nest, begin, &base)) return false;
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
    if (m->work->operand[PRODUCT_A].space != ISA_SPACE_LX || !neighbours(m, &before, &behind) ||
        opcode_at(m, before) != ISA_LOAD)
        return NULL;
    const lx_access *load = access_at(m, before, 0);
    const lx_access *read = access_at(m, m->first, PRODUCT_A);
    if (!load || !read || load->depth != read->depth || !plan_injective(m->f->out[before], 0))
        return NULL;
    uint32_t number = (uint32_t)(read - m->f->accesses.items);
    return forward_writer_of(m->f, number) == load ? load : NULL;
}

// The product that one MATMUL is, by itself, and the LOAD of its rows.
static spyre_status begin_at(match *m, uint32_t at)
{
    m->first = m->last = m->term[0].matmul = at;
    m->terms = 1;
    m->depth = access_at(m, at, PRODUCT_C)->depth;
    m->work = ARENA_NEW(m->f->memory, isa_instruction, 1);
    TRY_ALLOC(m->work);
    *m->work = isa_copy(m->f->out[at]->instruction);
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
    while (inside_loop(m, &before, &behind)) {
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
    if (!neighbours(m, &before, at)) return false;
    while (*at < m->end && (!is_step(m, *at) || opcode_at(m, *at) == ISA_LOOP ||
                            opcode_at(m, *at) == ISA_LOAD))
        ++*at;
    return *at < m->end && m->f->out[*at] && m->f->out[*at]->product != NULL;
}

static spyre_status take_terms(match *m)
{
    for (uint32_t at, before, behind;;) {
        TRY(take_depth_loops(m));
        if (!matmul_behind(m, &at)) return NULL;
        match next = {.f = m->f, .begin = m->begin, .end = m->end};
        TRY(begin_at(&next, at));
        TRY(take_depth_loops(&next));
        if (!neighbours(m, &before, &behind) || next.first != behind) return NULL;
        if (!adds_to_same(m, &next)) return NULL;
        TRY(append_runs(m, &next));
    }
}

// --- What becomes of the sums

static bool is_zero_fill(const isa_instruction *i)
{
    const float zero = 0;
    return i->opcode == ISA_FILL && i->operand[0].format == SPYRE_FORMAT_IEEE_FP32 &&
           memcmp(&i->constant[0], &zero, sizeof zero) == 0;
}

static bool is_rounding(const isa_instruction *i)
{
    return i->opcode == ISA_VECTOR && i->op == OPFUNC_IDENTITY &&
           i->operand[1].format == SPYRE_FORMAT_IEEE_FP32 &&
           i->operand[1].space == ISA_SPACE_LX &&
           (i->operand[0].format == SPYRE_FORMAT_SEN169_FP16 ||
            i->operand[0].format == SPYRE_FORMAT_IEEE_FP32);
}

// What a product does without: its sums and the rows that it reads in memory.
typedef struct {
    const lx_access *items[3 * MOST_TERMS + 2];
    uint32_t sums, count;
} gone_accesses;

static gone_accesses list_gone(const match *m)
{
    gone_accesses g = {.items = {access_at(m, m->fill, 0), access_at(m, m->round, 1)}, .count = 2};
    for (uint32_t n = 0; n < m->terms; n++)
        g.items[g.count++] = access_at(m, m->term[n].matmul, PRODUCT_C);
    g.sums = g.count;
    for (uint32_t n = 0; n < m->terms; n++) {
        if (!m->term[n].load) continue;
        g.items[g.count++] = m->term[n].load;
        g.items[g.count++] = access_at(m, m->term[n].matmul, PRODUCT_A);
    }
    return g;
}

static bool are_needed(const forwarding *f, const gone_accesses *g)
{
    for (uint32_t n = 0; n < g->count; n++)
        if (g->items[n]->writes && forward_is_needed(f, g->items[n], NULL)) return true;
    return false;
}

static void set_replaced(forwarding *f, const gone_accesses *g, bool replaced)
{
    for (uint32_t n = 0; n < g->count; n++)
        if (g->items[n]->reads) f->replaced[g->items[n] - f->accesses.items] = replaced;
}

// Neither sums nor rows have another reader.
static bool can_go(const match *m)
{
    const gone_accesses g = list_gone(m);
    for (uint32_t n = 0; n < g.sums; n++)
        if (!g.items[n] || !lx_covers(g.items[0], g.items[n])) return false;
    if (g.items[0]->depth != m->depth || g.items[1]->depth != m->depth) return false;
    set_replaced(m->f, &g, true);
    if (!are_needed(m->f, &g)) return true;
    set_replaced(m->f, &g, false);
    return false;
}

// Results and operands are apart in LX through all iterations of the loops from `depth` on. (In
// memory forward_allowed() sees to it.)
static bool apart(const match *m, uint32_t depth)
{
    const lx_access *write = access_at(m, m->round, 0);
    if (!write || m->result.instruction->operand[0].space != ISA_SPACE_LX) return true;
    for (uint32_t n = 0; n < PRODUCT_OPERANDS * m->terms; n++) {
        uint32_t operand = n % PRODUCT_OPERANDS;
        const lx_access *read = access_at(m, m->term[n / PRODUCT_OPERANDS].matmul, operand);
        bool in_lx = operand != PRODUCT_C && m->work->operand[operand].space == ISA_SPACE_LX;
        if (read && in_lx && lx_overlap(write, read, depth)) return false;
    }
    return true;
}

// How many lanes of each stick become results, side by side; 0 when that is not so.
static uint32_t kept_lanes(const match *m)
{
    const plan_tile *round = &m->result;
    uint32_t lanes = m->product->lanes, columns = m->product->columns.count;
    int64_t element = spyre_format_bytes(round->instruction->operand[0].format);
    for (uint32_t d = 0; d < round->dim_count; d++) {
        if (round->stride[1][d] != 4 || round->extent[d] == 1) continue;
        if (round->stride[0][d] != element) return 0;
        if (round->extent[d] % lanes == 0) return lanes;
        return round->extent[d] < lanes && columns == 1 ? (uint32_t)round->extent[d] : 0;
    }
    return columns == 1 ? 1 : 0;
}

// Fills the C of rows and columns; the result of the first sum goes to the instruction's offset.
static bool place_results(match *m)
{
    product *x = m->product;
    const plan_tile *round = &m->result;
    const isa_operand *sums = &m->work->operand[PRODUCT_C];
    int64_t line = x->lanes * 4, base, at, elements = 1;
    int64_t begin = sums->offset - round->instruction->operand[1].offset;
    x->kept = kept_lanes(m);
    if (x->kept == 0 || begin % line || sums->stride[0] % line || sums->stride[1] % line)
        return false;
    for (uint32_t d = 0; d < round->dim_count; d++) elements *= round->extent[d];
    if (elements != (int64_t)x->rows.count * x->columns.count * x->kept) return false;
    const tile_nest nest = tile_nest_of(round, 1, 0);
    if (!plan_injective(round, 1) || !locate(&nest, begin, &base)) return false;
    for (uint32_t r = 0; r < x->rows.count; r++) {
        if (!locate(&nest, begin + r * sums->stride[0], &at)) return false;
        x->rows.items[r].at[PRODUCT_C] = at - base;
    }
    for (uint32_t c = 0; c < x->columns.count; c++) {
        if (!locate(&nest, begin + c * sums->stride[1], &at)) return false;
        x->columns.items[c].at[PRODUCT_C] = at - base;
        for (uint32_t r = 0; r < x->rows.count; r++) {
            int64_t both = begin + r * sums->stride[0] + c * sums->stride[1], row = 0;
            row = x->rows.items[r].at[PRODUCT_C];
            if (!locate(&nest, both, &at) || at - base != row + x->columns.items[c].at[PRODUCT_C])
                return false;
        }
    }
    m->work->operand[PRODUCT_C] = round->instruction->operand[0];
    m->work->operand[PRODUCT_C].offset += base;
    x->result = round->instruction->operand[0].format;
    x->adds = false;
    return true;
}

// --- Loops around all three

static product_list *list_for(product *x, const int64_t *step)
{
    if (step[PRODUCT_A] && !step[PRODUCT_B]) return &x->rows;
    if (step[PRODUCT_B] && !step[PRODUCT_A]) return &x->columns;
    return &x->batches;
}

static spyre_status take_outer_loops(match *m)
{
    uint32_t before, behind;
    while (inside_loop(m, &before, &behind)) {
        uint32_t loop = m->depth - 1, count = m->f->program->code.items[before]->count;
        int64_t step[PRODUCT_OPERANDS];
        for (int o = 0; o < PRODUCT_OPERANDS; o++) step[o] = m->work->operand[o].loop_stride[loop];
        if (m->result.dim_count == ISA_MAX_DIMS || !apart(m, loop)) return NULL;
        m->result.extent[m->result.dim_count] = count;
        m->result.stride[0][m->result.dim_count++] = step[PRODUCT_C];
        if (!plan_injective(&m->result, 0)) return NULL;
        bool done;
        TRY(product_repeat(m->f->memory, list_for(m->product, step), count, step, &done));
        if (!done) return NULL;
        m->first = before;
        m->last = behind;
        m->depth = loop;
    }
    return NULL;
}

// --- The step

static void widen_span(byte_range *span, const product_list *list, int operand)
{
    byte_range one = *span;
    for (uint32_t n = 0; n < list->count; n++)
        range_add(span, range_shifted(one, list->items[n].at[operand]));
}

// Of one row, column and batch; the last run along k may be shorter than the others.
static byte_range span_along_k(const product *x, int operand)
{
    int64_t element = spyre_format_bytes(x->format);
    byte_range span = RANGE_NONE;
    for (uint32_t n = 0; n < x->runs.count; n++) {
        const product_index *run = &x->runs.items[n];
        const int64_t reach[PRODUCT_OPERANDS] = {
            x->kept * (int64_t)spyre_format_bytes(x->result), element * run->run,
            element * x->lanes + x->line * (run->run - 1)};
        range_add(&span, range_shifted((byte_range){0, reach[operand]}, run->at[operand]));
    }
    return span;
}

static spyre_status replace(const match *m)
{
    forwarding *f = m->f;
    const product *x = m->product;
    plan_tile *tile = ARENA_NEW(f->memory, plan_tile, 1);
    TRY_ALLOC(tile);
    *tile = (plan_tile){.instruction = m->work, .product = m->product, .dim_count = 1,
                        .extent = {1}};
    tile->run = tile_choose(tile);
    for (int o = 0; o < PRODUCT_OPERANDS; o++) {
        tile->span[o] = span_along_k(x, o);
        widen_span(&tile->span[o], &x->batches, o);
        widen_span(&tile->span[o], &x->rows, o);
        widen_span(&tile->span[o], &x->columns, o);
    }
    f->out[m->fill] = f->out[m->round] = NULL;
    for (uint32_t n = 0; n < m->terms; n++) {
        f->out[m->term[n].matmul] = NULL;
        if (m->term[n].load) f->out[m->term[n].load->at] = NULL;
    }
    f->out[m->first] = tile;
    return NULL;
}

// What the MATMUL is part of; its own step stays when it is part of nothing.
static spyre_status fuse_one(match *m, uint32_t at)
{
    forwarding *f = m->f;
    TRY(begin_at(m, at));
    if (m->product->line < 0) return NULL;
    TRY(take_terms(m));
    if (!neighbours(m, &m->fill, &m->round) || !f->out[m->fill] || !f->out[m->round]) return NULL;
    if (!is_zero_fill(f->out[m->fill]->instruction)) return NULL;
    if (!is_rounding(f->out[m->round]->instruction)) return NULL;
    m->result = *f->out[m->round];
    if (!apart(m, m->depth) || !place_results(m) || !can_go(m)) return NULL;
    m->first = m->fill;
    m->last = m->round;
    TRY(take_outer_loops(m));
    return replace(m);
}

static spyre_status accumulate_in(forwarding *f, const plan_kernel *kernel)
{
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        bool is_matmul = f->program->code.items[at]->opcode == ISA_MATMUL;
        if (!is_matmul || !f->out[at] || !f->out[at]->product) continue;
        match m = {.f = f, .begin = kernel->begin, .end = kernel->end};
        TRY(fuse_one(&m, at));
    }
    return NULL;
}

spyre_status card_pass_accumulate_matmuls(translation *t)
{
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        const plan_kernel *kernel = t->loaded->phases.items[n].kernel;
        if (kernel && kernel->in_order) TRY(accumulate_in(&t->kernels[kernel->order], kernel));
    }
    return NULL;
}
