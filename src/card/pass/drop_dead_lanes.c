// SPDX-License-Identifier: Apache-2.0
//
// Lanes of a product's results without a reader: heads of 32 are half of each stick, and what lies
// beside them is padding. A product that is the next kernel takes the first lanes of every stick
// only; when the result has no other reader in LX, the others are not computed.
#include "card/plan/pass.h"

enum { STICK = SPYRE_STICK_BYTES, COMPUTED = 32 };      // lanes that a host computes together

static bool in_sticks(const product_list *list, uint32_t operand)
{
    for (uint32_t n = 0; n < list->count; n++)
        if (list->items[n].at[operand] % STICK) return false;
    return true;
}

static bool lies_in_lx(const plan_tile *tile, uint32_t operand, spyre_format format)
{
    const isa_operand *o = &tile->instruction->operand[operand];
    return o->space == ISA_SPACE_LX && o->offset % STICK == 0 &&
           format == SPYRE_FORMAT_SEN169_FP16 && in_sticks(&tile->product->batches, operand) &&
           in_sticks(&tile->product->rows, operand);
}

// Results lie in LX, each line of them in a stick from its first lane on.
static bool makes_sticks(const plan_tile *tile)
{
    const product *x = tile->product;
    return lies_in_lx(tile, PRODUCT_C, x->result) && in_sticks(&x->columns, PRODUCT_C) &&
           x->kept * spyre_format_bytes(x->result) <= STICK;
}

// So does what is multiplied with columns, each run of k.
static bool takes_sticks(const plan_tile *tile)
{
    return lies_in_lx(tile, PRODUCT_A, tile->product->format) &&
           in_sticks(&tile->product->runs, PRODUCT_A);
}

static uint32_t longest_run(const product *x)
{
    uint32_t longest = 0;
    for (uint32_t n = 0; n < x->runs.count; n++)
        if (x->runs.items[n].run > longest) longest = x->runs.items[n].run;
    return longest;
}

const plan_tile *plan_lone_product(const plan_kernel *kernel)
{
    const plan_step *steps = kernel->steps[ISA_QUEUE_SEQ];
    if (!steps || kernel->step_count[ISA_QUEUE_SEQ] != 2 || steps[0].kind != STEP_EXECUTE)
        return NULL;
    const plan_tile *tile = steps[0].tile;
    return tile->product && !tile->product->adds ? tile : NULL;
}

static void look_at(const lx_summaries *lx, const plan_kernel *maker, const plan_kernel *taker)
{
    const plan_tile *made = plan_lone_product(maker), *taken = plan_lone_product(taker);
    if (!made || !taken || !makes_sticks(made) || !takes_sticks(taken)) return;
    const isa_operand *b = &taken->instruction->operand[PRODUCT_B];
    byte_range result = plan_range(made, PRODUCT_C);
    if (b->space == ISA_SPACE_LX && ranges_overlap(plan_range(taken, PRODUCT_B), result)) return;
    if (lx_read_after(lx, taker->order, maker->source->active_cores, result)) return;
    uint32_t read = longest_run(taken->product);
    if (read % COMPUTED == 0 && read < made->product->kept) made->product->kept = read;
}

spyre_status card_pass_drop_dead_lanes(translation *t)
{
    const card_program *p = t->loaded;
    for (uint32_t n = 0; n + 1 < p->phases.count; n++) {
        const plan_phase *phase = &p->phases.items[n];
        if (plan_is_plain(phase) && plan_is_plain(phase + 1))
            look_at(&t->lx, phase->kernel, phase[1].kernel);
    }
    return NULL;
}
