// SPDX-License-Identifier: Apache-2.0
#include "card/chain/spread.h"

static const chain *chain_at(const plan_phase *phases, uint32_t at, uint32_t count)
{
    if (at >= count || !plan_is_plain(&phases[at])) return NULL;
    const chain *c = phases[at].kernel->chain;
    return c && c->kernels <= count - at ? c : NULL;
}

static void widen(lx_range *r, lx_range by)
{
    if (by.low < r->low) r->low = by.low;
    if (by.high > r->high) r->high = by.high;
}

// --- What a chain touches in LX

static lx_range reach(const chain *c, const chain_place *p, int64_t bytes)
{
    int64_t rows = p->row * (c->rows - 1), sticks = p->stick * ((int64_t)c->sticks - 1);
    lx_range r = {p->offset, p->offset + bytes};
    widen(&r, (lx_range){r.low + rows, r.high + rows});
    widen(&r, (lx_range){r.low + sticks, r.high + sticks});
    return r;
}

static bool is_there(const chain_place *p)
{
    return p->space == ISA_SPACE_LX && !p->own;
}

// Bytes of a row of an operand, from the row's first element on.
static int64_t row_bytes(const plan_tile *tile, uint32_t o, const chain_place *p)
{
    int64_t rows = tile->instruction->extent[0] - 1;
    return tile->span[o].high - p->row * rows;
}

static lx_range lx_of(const chain *c)
{
    lx_range all = {INT64_MAX, INT64_MIN};
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const chain_step *s = &c->steps.items[n];
        if (chain_takes_elements(s->verb) && is_there(&s->place))
            widen(&all, reach(c, &s->place, STRIP_LANES * 2));
    }
    for (uint32_t n = 0; n < c->items.count; n++) {
        const chain_item *item = &c->items.items[n];
        for (uint32_t o = 0; !item->count && o < item->tile[0]->instruction->operand_count; o++) {
            const chain_operand *operand = &item->operand[o];
            if (operand->sums == CHAIN_NONE && !operand->constant && is_there(&operand->place))
                widen(&all, reach(c, &operand->place,
                                  row_bytes(item->tile[0], o, &operand->place)));
        }
    }
    return all;
}

// --- Rows

// The rows of a place that lie in a range.
static chain_rows rows_in(const chain *c, const chain_place *p, int64_t bytes, lx_range range)
{
    int64_t begin = range.low - p->offset - bytes + 1, end = range.high - p->offset;
    begin = begin <= 0 ? 0 : (begin + p->row - 1) / p->row;
    end = end <= 0 ? 0 : (end + p->row - 1) / p->row;
    if (end > c->rows) end = c->rows;
    return begin < end ? (chain_rows){(uint32_t)begin, (uint32_t)end} : (chain_rows){0, 0};
}

static void add_rows(chain_rows *to, chain_rows rows)
{
    if (rows.begin == rows.end) return;
    if (to->begin == to->end) *to = rows;
    if (rows.begin < to->begin) to->begin = rows.begin;
    if (rows.end > to->end) to->end = rows.end;
}

// The rows whose results lie in a range of LX. False when results are anything but values of rows
// there.
static bool rows_behind(const chain *c, lx_range range, chain_rows *rows)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        if (c->steps.items[n].verb == WALK_STORE || c->steps.items[n].verb == WALK_STORE_FOUND)
            return false;
    for (uint32_t n = 0; n < c->items.count; n++) {
        const chain_item *item = &c->items.items[n];
        const chain_operand *result = &item->operand[0];
        if (item->count || result->sums != CHAIN_NONE || result->place.own) continue;
        if (result->place.space != ISA_SPACE_LX || result->place.row <= 0) return false;
        int64_t bytes = row_bytes(item->tile[0], 0, &result->place);
        add_rows(rows, rows_in(c, &result->place, bytes, range));
    }
    return true;
}

static lx_range range_of(const plan_tile *message)
{
    int64_t offset = message->instruction->operand[0].offset;
    return (lx_range){offset + message->span[0].low, offset + message->span[0].high};
}

static bool find_rows(const exchange *x, const plan_kernel *maker, uint32_t core, chain_rows *rows)
{
    for (uint32_t n = x->first[core]; n < x->first[core + 1]; n++) {
        const exchange_message *m = &x->messages.items[n];
        if (!(maker->source->active_cores >> m->sender & 1u)) return false;
        if (!rows_behind(maker->chain, range_of(m->sent), rows)) return false;
    }
    return rows->begin % maker->chain->block == 0 &&
           (rows->end % maker->chain->block == 0 || rows->end == maker->chain->rows);
}

// Every row is one core's.
static bool rows_add_up(const spread *s, const chain *c)
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

// No other kernel touches LX where the first chain does, nor writes memory that it reads.
static bool apart(const plan_phase *phases, const spread *s, const exchange *x, const chain *taker)
{
    const plan_kernel *maker = phases[0].kernel;
    lx_range mine = lx_of(maker->chain);
    widen(&mine, x->sent);
    if (stores(maker) || lx_ranges_meet(mine, lx_of(taker))) return false;
    for (uint32_t n = 0; n < x->messages.count; n++)
        if (lx_ranges_meet(mine, range_of(x->messages.items[n].received))) return false;
    for (uint32_t n = s->exchange + 1; n < s->phases; n++)
        if (!leaves_alone(phases[n].kernel, maker)) return false;
    return true;
}

// An exchange and a chain behind it that the cores would have to meet before, did all its kernels
// store what they make.
static spyre_status follow_exchange(arena *memory, const plan_phase *phases, uint32_t count,
                                    const spread **out)
{
    const chain *taker = chain_at(phases, 1, count);
    if (!taker || phases[1].kernel->joins) return NULL;
    if (lx_ranges_meet(phases[0].kernel->exchange->sent, lx_of(taker))) return NULL;
    spread *s = ARENA_NEW(memory, spread, 1);
    TRY_ALLOC(s);
    *s = (spread){.phases = 1 + taker->kernels};
    s->cores = phases[0].kernel->source->active_cores | phases[1].kernel->source->active_cores;
    *out = s;
    return NULL;
}

spyre_status spread_find(arena *memory, const plan_phase *phases, uint32_t count,
                         const spread **out)
{
    *out = NULL;
    const plan_kernel *maker = phases[0].kernel;
    if (maker->exchange) return follow_exchange(memory, phases, count, out);
    const chain *made = chain_at(phases, 0, count);
    if (!made || made->kernels != 1 || !made->divisible) return NULL;
    if (maker->source->active_cores & (maker->source->active_cores - 1)) return NULL;
    uint32_t at = 1;
    if (at < count && plan_is_plain(&phases[at]) && phases[at].kernel->sends_later) at++;
    const chain *taker = chain_at(phases, at + 1, count);
    if (!taker || !plan_is_plain(&phases[at]) || !phases[at].kernel->exchange) return NULL;
    const exchange *x = phases[at].kernel->exchange;
    spread *s = ARENA_NEW(memory, spread, 1);
    TRY_ALLOC(s);
    *s = (spread){.exchange = at, .phases = at + 1 + taker->kernels};
    s->cores = phases[at].kernel->source->active_cores |
               phases[at + 1].kernel->source->active_cores;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (!find_rows(x, maker, core, &s->rows[core])) return NULL;
    if (rows_add_up(s, made) && apart(phases, s, x, taker)) *out = s;
    return NULL;
}
