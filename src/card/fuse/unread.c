// SPDX-License-Identifier: Apache-2.0
#include "card/fuse/unread.h"

enum { STICK = SPYRE_STICK_BYTES, COMPUTED = 32 };      // lanes that a host computes together

// The product that is all that a kernel does, or null.
static const plan_tile *lone_product(plan_tile *const *fused, const lx_summaries *lx,
                                     const plan_kernel *kernel)
{
    const lx_summary *code = &lx->items[kernel->order];
    const plan_tile *found = NULL;
    if (!kernel->steps[ISA_QUEUE_SEQ] || kernel->step_count[ISA_QUEUE_SEQ] != 2) return NULL;
    for (uint32_t at = code->begin; at < code->end; at++)
        if (fused[at]) found = fused[at];
    return found && found->product && !found->product->adds ? found : NULL;
}

static bool in_sticks(const product_list *list, uint32_t operand)
{
    for (uint32_t n = 0; n < list->count; n++)
        if (list->items[n].at[operand] % STICK) return false;
    return true;
}

// Operand 0 or 1 lies in LX, as sticks from their first lane on.
static bool is_sticks_in_lx(const plan_tile *tile, uint32_t operand)
{
    const product *x = tile->product;
    const isa_operand *o = &tile->instruction->operand[operand];
    spyre_format format = operand == PRODUCT_C ? x->result : x->format;
    return o->space == ISA_SPACE_LX && o->offset % STICK == 0 &&
           format == SPYRE_FORMAT_SEN169_FP16 && in_sticks(&x->batches, operand) &&
           in_sticks(&x->rows, operand) &&
           in_sticks(operand == PRODUCT_C ? &x->columns : &x->runs, operand);
}

static lx_range range_of(const plan_tile *tile, uint32_t operand)
{
    const isa_operand *o = &tile->instruction->operand[operand];
    return (lx_range){o->offset + tile->span[operand].low, o->offset + tile->span[operand].high};
}

static bool meets(lx_range a, lx_range b)
{
    return a.low < b.high && b.low < a.high;
}

static uint32_t longest_run(const product *x)
{
    uint32_t longest = 0;
    for (uint32_t n = 0; n < x->runs.count; n++)
        if (x->runs.items[n].run > longest) longest = x->runs.items[n].run;
    return longest;
}

void unread_drop(plan_tile *const *fused, const lx_summaries *lx, const plan_kernel *maker,
                 const plan_kernel *taker)
{
    const plan_tile *made = lone_product(fused, lx, maker), *taken = lone_product(fused, lx, taker);
    if (!made || !taken || !is_sticks_in_lx(made, PRODUCT_C) ||
        !is_sticks_in_lx(taken, PRODUCT_A))
        return;
    const isa_operand *b = &taken->instruction->operand[PRODUCT_B];
    lx_range result = range_of(made, PRODUCT_C);
    if (b->space == ISA_SPACE_LX && meets(range_of(taken, PRODUCT_B), result)) return;
    if (lx_read_after(lx, taker->order, result)) return;
    uint32_t read = longest_run(taken->product);
    if (read % COMPUTED == 0 && read < made->product->kept) made->product->kept = read;
}
