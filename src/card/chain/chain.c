// SPDX-License-Identifier: Apache-2.0
//
// One core through a chain: addresses are found once, then moved from block to block of rows.
#include "card/chain/chain.h"

#include "card/strip/lanes.h"
#include "tensor/numeric.h"

enum { STICK = STRIP_LANES };

typedef struct {
    const chain *c;
    uint8_t *step[CHAIN_MOST_STEPS];        // of elements of row 0
    float (*kept)[STICK];                   // [area][stick][row of the block]
    float (*sums)[CHAIN_MOST_ROWS][STICK];
    float (*rows)[CHAIN_MOST_ROWS];         // one element a row, [step]
    uint8_t *own;                           // of rows of a block, where places say so
    size_t first, count;                    // rows of the block
} progress;

static uint8_t *address_of(const core_run *run, const progress *g, const chain_place *p,
                           const plan_phase *first)
{
    if (p->own) return g->own + p->offset;
    if (p->space == ISA_SPACE_LX) return run->lx + p->offset;
    const isa_kernel *kernel = first[p->kernel].kernel->source;
    int64_t offset = p->offset;
    if (p->slot != ISA_NO_SLOT)
        offset += kernel->parameters[(size_t)run->core * kernel->slot_count + p->slot];
    return run->owner->memory + run->arguments[p->arg].base + offset;
}

// Bytes from row 0 to the block.
static int64_t before_block(const progress *g, const chain_place *p)
{
    size_t row = p->period ? g->first % p->period : g->first;
    return p->own ? 0 : (int64_t)row * p->row;
}

static void fetch_rows(const progress *g, const chain_step *s, const uint8_t *at, float *out)
{
    lanes_load_f32(out, at, s->place.row, SPYRE_FORMAT_SEN169_FP16, g->count);
    for (size_t row = 0; s->inverse && row < g->count; row++) out[row] = 1.0f / out[row];
}

// A sum of x and y, where y is one element a row and the step before has fetched it, may need no
// look at its range.
static void narrow_rounding(const progress *g, walk_step *w)
{
    bool adds = w->verb == WALK_APPLY + OPFUNC_ADD || w->verb == WALK_APPLY + OPFUNC_SUB;
    if (!adds || w->rounding != WALK_ROUND || (w - 1)->verb != WALK_WITH_ROWS) return;
    for (size_t row = 0; row < g->count; row++)
        if (!dl16_sums_stay_within((w - 1)->values[row])) return;
    w->rounding = WALK_SIGNIFICAND;
}

bool chain_takes_elements(uint32_t verb)
{
    return verb == WALK_LOAD || verb == WALK_WITH || verb == WALK_STORE ||
           verb == WALK_STORE_FOUND || verb == WALK_WITH_ROWS || verb == WALK_WITH_LINE;
}

static float *line_of(const progress *g, const chain_step *s)
{
    size_t areas = (size_t)g->c->kept * g->c->block + s->area;
    return g->kept[areas * g->c->sticks];
}

// Lines are the same for all blocks.
static void fetch_line(const progress *g, uint32_t n)
{
    const chain_step *s = &g->c->steps.items[n];
    const walk_step steps[] = {
        {.verb = WALK_LOAD, .at = g->step[n], .stick_stride = s->place.stick},
        {.verb = WALK_KEEP, .values = line_of(g, s)},
    };
    const strip_walk w = {.steps = steps, .count = 2, .rows = 1, .sticks = g->c->sticks};
    strip_in_use()->walk(&w);
}

static walk_step bind(const progress *g, uint32_t n)
{
    const chain_step *s = &g->c->steps.items[n];
    walk_step w = {.verb = s->verb,
                   .rounding = s->rounding,
                   .row_stride = s->place.row,
                   .stick_stride = s->place.stick,
                   .table = s->table,
                   .constant = s->constant,
                   .begins = s->begins,
                   .folds = s->folds,
                   .begin = s->begin};
    if (chain_takes_elements(s->verb)) w.at = g->step[n] + before_block(g, &s->place);
    if (g->first + g->c->block < g->c->rows) w.ahead = s->place.row * g->c->block;
    if (s->verb == WALK_KEEP || s->verb == WALK_LOAD_KEPT || s->verb == WALK_WITH_KEPT)
        w.values = g->kept[(size_t)s->area * g->c->sticks * g->c->block];
    if (s->verb == WALK_WITH_LINE) w.values = line_of(g, s);
    if (s->verb >= WALK_SUM && s->verb <= WALK_LEAST) w.values = g->sums[s->area][0];
    if (s->verb != WALK_WITH_ROWS) return w;
    w.values = g->rows[n];
    fetch_rows(g, s, w.at, w.values);
    return w;
}

static void run_walk(const progress *g, const chain_item *item)
{
    walk_step steps[CHAIN_MOST_STEPS];
    for (uint32_t n = 0; n < item->count; n++) {
        steps[n] = bind(g, item->first + n);
        if (n > 0) narrow_rounding(g, &steps[n]);
    }
    strip_walk w = {.steps = steps, .count = item->count, .rows = g->count, .sticks = g->c->sticks};
    strip_in_use()->walk(&w);
}

static void run_tile(const progress *g, const chain_item *item, uint8_t *const *base,
                     plan_scratch *scratch)
{
    const plan_tile *tile = item->tile[g->count != g->c->block];
    uint8_t *address[ISA_MAX_OPERANDS];
    float constant[ISA_MAX_OPERANDS];
    for (uint32_t o = 0; o < tile->instruction->operand_count; o++) {
        const chain_operand *operand = &item->operand[o];
        constant[o] = operand->value;
        if (operand->constant) address[o] = (uint8_t *)&constant[o];
        else if (operand->sums != CHAIN_NONE) address[o] = (uint8_t *)g->sums[operand->sums];
        else address[o] = base[o] + before_block(g, &operand->place);
    }
    tile->fast(tile, address, scratch);
}

void chain_run(core_run *run, const chain *c, const plan_phase *first, chain_rows rows)
{
    _Alignas(64) float kept[CHAIN_KEPT_FLOATS / STICK][STICK];
    _Alignas(64) float sums[CHAIN_MOST_SUMS][CHAIN_MOST_ROWS][STICK];
    float by_row[CHAIN_MOST_STEPS][CHAIN_MOST_ROWS];
    _Alignas(64) uint8_t own[CHAIN_MOST_OWN * CHAIN_OWN_BYTES];
    progress g = {.c = c, .kept = kept, .sums = sums, .rows = by_row, .own = own};
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const chain_step *s = &c->steps.items[n];
        if (chain_takes_elements(s->verb)) g.step[n] = address_of(run, &g, &s->place, first);
        if (s->verb == WALK_WITH_LINE) fetch_line(&g, n);
    }
    for (g.first = rows.begin; g.first < rows.end; g.first += c->block) {
        if (card_stops(run->owner)) break;
        g.count = rows.end - g.first < c->block ? rows.end - g.first : c->block;
        for (uint32_t n = 0; n < c->items.count; n++) {
            const chain_item *item = &c->items.items[n];
            uint8_t *base[ISA_MAX_OPERANDS] = {NULL};
            if (item->count) {
                run_walk(&g, item);
                continue;
            }
            for (uint32_t o = 0; o < item->tile[0]->instruction->operand_count; o++)
                if (item->operand[o].sums == CHAIN_NONE && !item->operand[o].constant)
                    base[o] = address_of(run, &g, &item->operand[o].place, first);
            run_tile(&g, item, base, run->scratch);
        }
    }
    run->state = ADVANCE_DONE;
}
