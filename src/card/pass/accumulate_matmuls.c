// SPDX-License-Identifier: Apache-2.0
//
// From FILL, MATMULs, VECTOR identity and the loops around them to one product that leaves its sums
// in registers. Which result a sum becomes is read off the rounding: the place of a sum among the
// accumulators has one index for each dim of the VECTOR (tile_nest).
#include <string.h>

#include "card/pass/accumulate.h"

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
    gone_accesses g = {.items = {match_access(m, m->fill, 0), match_access(m, m->round, 1)},
                       .count = 2};
    for (uint32_t n = 0; n < m->terms; n++)
        g.items[g.count++] = match_access(m, m->term[n].matmul, PRODUCT_C);
    g.sums = g.count;
    for (uint32_t n = 0; n < m->terms; n++) {
        if (!m->term[n].load) continue;
        g.items[g.count++] = m->term[n].load;
        g.items[g.count++] = match_access(m, m->term[n].matmul, PRODUCT_A);
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
// memory tiles_allowed() sees to it.)
static bool apart(const match *m, uint32_t depth)
{
    const lx_access *write = match_access(m, m->round, 0);
    if (!write || m->result.instruction->operand[0].space != ISA_SPACE_LX) return true;
    for (uint32_t n = 0; n < PRODUCT_OPERANDS * m->terms; n++) {
        uint32_t operand = n % PRODUCT_OPERANDS;
        const lx_access *read = match_access(m, m->term[n / PRODUCT_OPERANDS].matmul, operand);
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
    if (!plan_injective(round, 1) || !tile_nest_map(&nest, begin, &base)) return false;
    for (uint32_t r = 0; r < x->rows.count; r++) {
        if (!tile_nest_map(&nest, begin + r * sums->stride[0], &at)) return false;
        x->rows.items[r].at[PRODUCT_C] = at - base;
    }
    for (uint32_t c = 0; c < x->columns.count; c++) {
        if (!tile_nest_map(&nest, begin + c * sums->stride[1], &at)) return false;
        x->columns.items[c].at[PRODUCT_C] = at - base;
        for (uint32_t r = 0; r < x->rows.count; r++) {
            int64_t both = begin + r * sums->stride[0] + c * sums->stride[1], row = 0;
            row = x->rows.items[r].at[PRODUCT_C];
            if (!tile_nest_map(&nest, both, &at) ||
                at - base != row + x->columns.items[c].at[PRODUCT_C])
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
    while (match_inside_loop(m, &before, &behind)) {
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
    tile->executor = tile_choose(tile);
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
    TRY(match_terms(m, at));
    if (m->product->line < 0) return NULL;
    if (!match_neighbours(m, &m->fill, &m->round)) return NULL;
    if (!f->out[m->fill] || !f->out[m->round]) return NULL;
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
