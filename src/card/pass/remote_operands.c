// SPDX-License-Identifier: Apache-2.0
//
// Operand 1 of a product is the sum of three offsets, of batch, row and run of k (product.h). Where
// the sticks come from is found one by one; it must be such a sum, too, the same for all cores but
// for where it begins.
#include <string.h>

#include "card/machine/messages.h"
#include "card/plan/pass.h"

enum { STICK = SPYRE_STICK_BYTES };

typedef struct {
    const message_copies *messages;
    const plan_kernel *kernel;
    const product *product;
    int64_t offset;                         // of operand 1 in LX
    int64_t *source;                        // [stick of a core's LX]: messages_sources()
    byte_range received;                    // where it says something
    remote_operand *out;
    product *instead;
} search;

// --- Sticks

// Bytes from LX of core 0 to what lies at an offset after the copies, or -1.
static int64_t source_of(const search *s, int64_t offset)
{
    const bool is_stick = offset >= s->received.low && offset < s->received.high &&
                          offset % STICK == 0;
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

static bool fits(search *s)
{
    bool first = true;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!isa_is_active(s->kernel->source, core)) continue;
        if (!messages_sources(s->messages, core, s->source, &s->received)) return false;
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

// Something other than the product, which is tile `tile` of `kernel`, reads what is received.
static bool is_read_elsewhere(const translation *t, const plan_kernel *receives,
                              const plan_kernel *kernel, const plan_tile *tile)
{
    const isa_operand *b = &tile->instruction->operand[PRODUCT_B];
    const byte_range other = plan_range(tile, PRODUCT_B);
    for (uint32_t at = receives->begin; at < receives->end; at++) {
        if (t->program->code.items[at]->opcode != ISA_RECEIVE) continue;
        const byte_range r = plan_range(t->tiles[at], 0);
        if (b->space == ISA_SPACE_LX && ranges_overlap(r, other)) return true;
        if (lx_read_after(&t->lx, kernel->order, receives->source->active_cores, r)) return true;
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
    TRY(VEC_ROOM(memory, to, from->count));
    memcpy(to->items, from->items, from->count * sizeof *to->items);
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

// `source`: room for messages_sources().
static spyre_status find(const translation *t, const plan_phase *phases, uint32_t count,
                         int64_t *source, const remote_operand **out)
{
    *out = NULL;
    if (count < 2 || phases[1].kind != PHASE_KERNEL || !phases[1].kernel->no_barrier) return NULL;
    const message_copies *x = phases[0].kernel->messages;
    const plan_kernel *kernel = phases[1].kernel;
    const plan_tile *tile = plan_lone_product(kernel);
    if (!suits(tile) || is_read_elsewhere(t, phases[0].kernel, kernel, tile)) return NULL;
    search s = {.messages = x,
                .kernel = kernel,
                .product = tile->product,
                .offset = tile->instruction->operand[PRODUCT_A].offset,
                .source = source};
    TRY_NEW(t->memory, s.out, 1);
    TRY(copy_product(t->memory, tile->product, &s.instead));
    s.out->tile = tile;
    s.out->instead = *tile;
    s.out->instead.product = s.instead;
    if (fits(&s)) *out = s.out;
    return NULL;
}

spyre_status card_pass_remote_operands(translation *t)
{
    card_program *p = t->loaded;
    int64_t *source = NULL;
    for (uint32_t n = 0; n < p->phases.count; n++) {
        const plan_phase *phase = &p->phases.items[n];
        if (!plan_is_plain(phase) || !phase->kernel->messages) continue;
        if (!source) TRY_NEW(t->scratch, source, ISA_LX_BYTES / STICK);
        TRY(find(t, phase, p->phases.count - n, source, &phase->kernel->remote));
    }
    return NULL;
}
