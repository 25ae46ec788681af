// SPDX-License-Identifier: Apache-2.0
//
// One core that makes values of rows for all: its kernel is a row fusion by itself, messages hand
// the rows to other cores, and a row fusion takes them there. On a host every core's thread makes
// the rows that the core will receive and goes on with them: no core waits, and what both fusions
// read is still in the cache. Messages between other kernels go with the row fusion behind alone.
#include "card/plan.h"

#include "card/machine/messages.h"
#include "card/plan/pass.h"
#include "card/rows/rows.h"

static const row_fusion *rows_at(const plan_phase *phases, uint32_t at, uint32_t count)
{
    if (at >= count || !plan_is_plain(&phases[at])) return NULL;
    const row_fusion *c = phases[at].kernel->rows;
    return c && !c->loops && c->kernels <= count - at ? c : NULL;
}

// --- What a row fusion touches in LX

static byte_range reach(const rows_place *p, int64_t bytes)
{
    byte_range r = {p->offset, p->offset + bytes};
    rows_nest_reach(&p->row, &r);
    rows_nest_reach(&p->stick, &r);
    return r;
}

// Bytes of a row of an operand, from the row's first element on.
static int64_t row_bytes(const plan_tile *tile, uint32_t o, const rows_place *p)
{
    int64_t rows = tile->instruction->extent[0] - 1;
    return tile->span[o].high - rows_nest_stride(&p->row) * rows;
}

static byte_range lx_of(const row_fusion *c)
{
    byte_range all = RANGE_NONE;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const rows_step *s = &c->steps.items[n];
        if (rows_step_in_lx(s)) range_add(&all, rows_step_range(c, s));
    }
    for (uint32_t n = 0; n < c->items.count; n++) {
        const rows_item *item = &c->items.items[n];
        for (uint32_t o = 0; !item->count && o < item->tile[0]->instruction->operand_count; o++) {
            const rows_operand *operand = &item->operand[o];
            int64_t bytes = row_bytes(item->tile[0], o, &operand->place);
            if (rows_operand_in_lx(operand)) range_add(&all, reach(&operand->place, bytes));
        }
    }
    return all;
}

// --- Rows

// The rows of a place that lie in a range.
static row_range rows_in(const row_fusion *c, const rows_place *p, int64_t bytes, byte_range range)
{
    int64_t begin = range.low - p->offset - bytes + 1, end = range.high - p->offset;
    const int64_t row = rows_nest_stride(&p->row);
    begin = begin <= 0 ? 0 : (begin + row - 1) / row;
    end = end <= 0 ? 0 : (end + row - 1) / row;
    if (end > c->rows) end = c->rows;
    return begin < end ? (row_range){(uint32_t)begin, (uint32_t)end} : (row_range){0, 0};
}

static void add_rows(row_range *to, row_range rows)
{
    if (rows.begin == rows.end) return;
    if (to->begin == to->end) *to = rows;
    if (rows.begin < to->begin) to->begin = rows.begin;
    if (rows.end > to->end) to->end = rows.end;
}

// The rows whose results lie in a range of LX. False when results are anything but values of rows
// there.
static bool rows_behind(const row_fusion *c, byte_range range, row_range *rows)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        if (c->steps.items[n].op == VECTOR_STORE || c->steps.items[n].op == VECTOR_STORE_LOOK_UP)
            return false;
    for (uint32_t n = 0; n < c->items.count; n++) {
        const rows_item *item = &c->items.items[n];
        const rows_operand *result = &item->operand[0];
        if (item->count || result->sums != ROWS_NONE || result->place.own) continue;
        if (result->place.space != ISA_SPACE_LX || rows_nest_stride(&result->place.row) <= 0 ||
            !rows_nest_is_even(&result->place.row))
            return false;
        int64_t bytes = row_bytes(item->tile[0], 0, &result->place);
        add_rows(rows, rows_in(c, &result->place, bytes, range));
    }
    return true;
}

static bool find_rows(const message_copies *x, const plan_kernel *maker, uint32_t core,
                      row_range *rows)
{
    for (uint32_t n = x->first[core]; n < x->first[core + 1]; n++) {
        const message_copy *m = &x->list.items[n];
        if (!(maker->source->active_cores >> m->sender & 1u)) return false;
        if (!rows_behind(maker->rows, plan_range(m->sent, 0), rows)) return false;
    }
    return rows->begin % maker->rows->block == 0 &&
           (rows->end % maker->rows->block == 0 || rows->end == maker->rows->rows);
}

// Every row is one core's.
static bool rows_add_up(const fused_all_gather *s, const row_fusion *c)
{
    uint32_t all = 0;
    for (uint32_t x = 0; x < ISA_CORES; x++) {
        all += s->rows[x].end - s->rows[x].begin;
        for (uint32_t y = 0; y < x; y++)
            if (s->rows[x].begin < s->rows[y].end && s->rows[y].begin < s->rows[x].end)
                return false;
    }
    return all == c->rows;
}

// --- Who touches what

static bool leaves_alone(const plan_kernel *kernel, const plan_kernel *maker)
{
    for (uint32_t n = 0; n < kernel->memory.count; n++)
        for (uint32_t m = 0; m < maker->memory.count && kernel->memory.items[n].stores; m++)
            if (kernel->memory.items[n].arg == maker->memory.items[m].arg) return false;
    return true;
}

static bool stores(const plan_kernel *kernel)
{
    for (uint32_t n = 0; n < kernel->memory.count; n++)
        if (kernel->memory.items[n].stores) return true;
    return false;
}

// No other kernel touches LX where the first row fusion does, nor writes memory that it reads.
static bool apart(const plan_phase *phases, const fused_all_gather *s, const message_copies *x,
                  const row_fusion *taker)
{
    const plan_kernel *maker = phases[0].kernel;
    byte_range mine = lx_of(maker->rows);
    range_add(&mine, x->sent);
    if (stores(maker) || ranges_overlap(mine, lx_of(taker))) return false;
    for (uint32_t n = 0; n < x->list.count; n++)
        if (ranges_overlap(mine, plan_range(x->list.items[n].received, 0))) return false;
    for (uint32_t n = s->copies + 1; n < s->phases; n++)
        if (!leaves_alone(phases[n].kernel, maker)) return false;
    return true;
}

// Messages and a row fusion behind them, which would need a barrier before it if all its kernels
// stored what they make.
static spyre_status follow_messages(arena *memory, const plan_phase *phases, uint32_t count,
                                    const fused_all_gather **out)
{
    const row_fusion *taker = rows_at(phases, 1, count);
    if (!taker || phases[1].kernel->no_barrier) return NULL;
    if (ranges_overlap(phases[0].kernel->messages->sent, lx_of(taker))) return NULL;
    fused_all_gather *s = ARENA_NEW(memory, fused_all_gather, 1);
    TRY_ALLOC(s);
    *s = (fused_all_gather){.phases = 1 + taker->kernels};
    s->cores = phases[0].kernel->source->active_cores | phases[1].kernel->source->active_cores;
    *out = s;
    return NULL;
}

static spyre_status find(arena *memory, const plan_phase *phases, uint32_t count,
                         const fused_all_gather **out)
{
    *out = NULL;
    const plan_kernel *maker = phases[0].kernel;
    if (maker->messages) return follow_messages(memory, phases, count, out);
    const row_fusion *made = rows_at(phases, 0, count);
    if (!made || made->kernels != 1 || !made->divisible) return NULL;
    if (maker->source->active_cores & (maker->source->active_cores - 1)) return NULL;
    uint32_t at = 1;
    if (at < count && plan_is_plain(&phases[at]) && phases[at].kernel->sends_later) at++;
    const row_fusion *taker = rows_at(phases, at + 1, count);
    if (!taker || !plan_is_plain(&phases[at]) || !phases[at].kernel->messages) return NULL;
    const message_copies *x = phases[at].kernel->messages;
    fused_all_gather *s = ARENA_NEW(memory, fused_all_gather, 1);
    TRY_ALLOC(s);
    *s = (fused_all_gather){.copies = at, .phases = at + 1 + taker->kernels};
    s->cores = phases[at].kernel->source->active_cores |
               phases[at + 1].kernel->source->active_cores;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (!find_rows(x, maker, core, &s->rows[core])) return NULL;
    if (rows_add_up(s, made) && apart(phases, s, x, taker)) *out = s;
    return NULL;
}

spyre_status card_pass_fuse_all_gathers(translation *t)
{
    card_program *p = t->loaded;
    for (uint32_t n = 0; n < p->phases.count; n++) {
        const plan_phase *phase = &p->phases.items[n];
        if (plan_is_plain(phase) && (phase->kernel->rows || phase->kernel->messages))
            TRY(find(t->memory, phase, p->phases.count - n, &phase->kernel->all_gather));
    }
    return NULL;
}
