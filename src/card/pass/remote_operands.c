// SPDX-License-Identifier: Apache-2.0
//
// Operand 1 of a product is the sum of three offsets, of batch, row and run of k (product.h). Where
// the sticks come from is found one by one; it must be such a sum, too, the same for all cores but
// for where it begins.
#include "card/plan.h"

#include "card/machine/messages.h"
#include "card/plan/pass.h"

enum { STICK = SPYRE_STICK_BYTES };

typedef struct {
    const message_copies *messages;
    const plan_kernel *kernel;
    const product *product;
    int64_t offset;                         // of operand 1 in LX
    int64_t *source;                        // [stick of a core's LX]: messages_sources()
    remote_operand *out;
    product *instead;
} search;

// --- Sticks

// Bytes from LX of core 0 to what lies at an offset after the copies, or -1.
static int64_t source_of(const search *s, int64_t offset)
{
    bool is_stick = offset >= 0 && offset < ISA_LX_BYTES && offset % STICK == 0;
    return is_stick ? s->source[offset / STICK] : -1;
}

static int64_t source_at(const search *s, uint32_t batch, uint32_t row, uint32_t run)
{
    const product *x = s->product;
    return source_of(s, s->offset + x->batches.items[batch].at[PRODUCT_A] +
                            x->rows.items[row].at[PRODUCT_A] + x->runs.items[run].at[PRODUCT_A]);
}

// The lists of `instead` as one core finds them.
static void set_lists(const search *s)
{
    product *x = s->instead;
    int64_t first = source_at(s, 0, 0, 0);
    for (uint32_t n = 0; n < x->batches.count; n++)
        x->batches.items[n].at[PRODUCT_A] = source_at(s, n, 0, 0) - first;
    for (uint32_t n = 0; n < x->rows.count; n++)
        x->rows.items[n].at[PRODUCT_A] = source_at(s, 0, n, 0) - first;
    for (uint32_t n = 0; n < x->runs.count; n++)
        x->runs.items[n].at[PRODUCT_A] = source_at(s, 0, 0, n) - first;
}

static bool is_sum(const search *s, uint32_t batch, uint32_t row, int64_t first)
{
    const product *x = s->instead;
    for (uint32_t run = 0; run < x->runs.count; run++) {
        int64_t at = source_at(s, batch, row, run);
        int64_t sum = x->batches.items[batch].at[PRODUCT_A] + x->rows.items[row].at[PRODUCT_A] +
                      x->runs.items[run].at[PRODUCT_A];
        if (at < 0 || at != first + sum) return false;
    }
    return true;
}

static bool fits_core(const search *s, uint32_t core)
{
    int64_t first = source_at(s, 0, 0, 0);
    s->out->from[core] = first;
    for (uint32_t batch = 0; batch < s->product->batches.count; batch++)
        for (uint32_t row = 0; row < s->product->rows.count; row++)
            if (!is_sum(s, batch, row, first)) return false;
    return true;
}

static bool fits(const search *s)
{
    bool first = true;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!(s->kernel->source->active_cores >> core & 1u)) continue;
        if (!messages_sources(s->messages, core, s->source)) return false;
        if (first) set_lists(s);
        if (!fits_core(s, core)) return false;
        first = false;
    }
    return !first;
}

static bool runs_are_sticks(const product *x)
{
    for (uint32_t n = 0; n < x->runs.count; n++)
        if (x->runs.items[n].run * spyre_format_bytes(x->format) > STICK) return false;
    return true;
}

// --- Who else reads

// `receivers`: bits of the cores that would receive copies.
static bool is_read_elsewhere(const message_copies *x, uint32_t receivers,
                              const plan_kernel *kernel, const plan_tile *tile,
                              const lx_summaries *lx)
{
    const isa_operand *b = &tile->instruction->operand[PRODUCT_B];
    const byte_range other = plan_range(tile, PRODUCT_B);
    for (uint32_t n = 0; n < x->list.count; n++) {
        const byte_range r = plan_range(x->list.items[n].received, 0);
        if (b->space == ISA_SPACE_LX && ranges_overlap(r, other)) return true;
        if (lx_read_after(lx, kernel->order, receivers, r)) return true;
    }
    return false;
}

static bool suits(const plan_tile *tile)
{
    return tile && tile->product->batches.count > 0 &&
           tile->instruction->operand[PRODUCT_A].space == ISA_SPACE_LX &&
           runs_are_sticks(tile->product);
}

static spyre_status copy_list(arena *memory, const product_list *from, product_list *to)
{
    *to = (product_list){0};
    for (uint32_t n = 0; n < from->count; n++) TRY(VEC_PUSH(memory, to, from->items[n]));
    return NULL;
}

static spyre_status copy_product(arena *memory, const product *x, product **out)
{
    *out = ARENA_NEW(memory, product, 1);
    TRY_ALLOC(*out);
    **out = *x;
    TRY(copy_list(memory, &x->batches, &(*out)->batches));
    TRY(copy_list(memory, &x->rows, &(*out)->rows));
    return copy_list(memory, &x->runs, &(*out)->runs);
}

static spyre_status find(arena *memory, arena *scratch, const lx_summaries *lx,
                         const plan_phase *phases, uint32_t count, const remote_operand **out)
{
    *out = NULL;
    if (count < 2 || phases[1].kind != PHASE_KERNEL || !phases[1].kernel->no_barrier) return NULL;
    const message_copies *x = phases[0].kernel->messages;
    const plan_kernel *kernel = phases[1].kernel;
    const plan_tile *tile = plan_lone_product(kernel);
    uint32_t receivers = phases[0].kernel->source->active_cores;
    if (!suits(tile) || is_read_elsewhere(x, receivers, kernel, tile, lx)) return NULL;
    search s = {.messages = x,
                .kernel = kernel,
                .product = tile->product,
                .offset = tile->instruction->operand[PRODUCT_A].offset};
    s.source = ARENA_NEW(scratch, int64_t, ISA_LX_BYTES / STICK);
    TRY_ALLOC(s.source);
    s.out = ARENA_NEW(memory, remote_operand, 1);
    TRY_ALLOC(s.out);
    TRY(copy_product(memory, tile->product, &s.instead));
    s.out->tile = tile;
    s.out->instead = *tile;
    s.out->instead.product = s.instead;
    if (fits(&s)) *out = s.out;
    return NULL;
}

spyre_status card_pass_remote_operands(translation *t)
{
    card_program *p = t->loaded;
    for (uint32_t n = 0; n < p->phases.count; n++) {
        const plan_phase *phase = &p->phases.items[n];
        if (plan_is_plain(phase) && phase->kernel->messages)
            TRY(find(t->memory, t->scratch, &t->lx, phase, p->phases.count - n,
                     &phase->kernel->remote));
    }
    return NULL;
}
