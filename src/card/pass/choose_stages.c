// SPDX-License-Identifier: Apache-2.0
//
// Kernels between two barriers become a stage: units of work that host threads take one after the
// other, each through all actions of the stage. A unit is a group of cores, or a share of rows, or
// part of what a kernel does (core_parts.c), where one core alone has them. A kernel of products
// whose operands more cores share than a thread takes along is a stage of one unit, and the threads
// divide its products instead. How many cores make a unit, and in which order they come, says
// core_groups.c.
#include "card/launch/parallel.h"
#include "card/plan.h"
#include "card/pass/core_groups.h"
#include "card/pass/core_parts.h"
#include "card/plan/pass.h"
#include "card/row_fusion/row_fusion.h"

// --- Which kernels

static bool divides_products(const translation *t, const plan_kernel *kernel)
{
    uint32_t cores = (uint32_t)__builtin_popcount(kernel->source->active_cores);
    return kernel->only_matmuls && kernel->weight_bytes >= PARALLEL_WEIGHT_BYTES &&
           kernel->group.cores > core_groups_per_thread(t->threads, cores);
}

// One core alone leaves the other threads nothing to do, unless they take some of its rows. Rows of
// all cores are shared anyway.
static bool divides_rows(const plan_kernel *kernel)
{
    uint32_t active = kernel->source->active_cores;
    if (kernel->rows && kernel->rows->joined) return true;
    return kernel->rows && kernel->rows->divisible && (active & (active - 1)) == 0 &&
           kernel->weight_bytes >= PARALLEL_WEIGHT_BYTES;
}

static bool divides_core(const translation *t, const plan_kernel *kernel)
{
    return t->threads > 1 && core_parts_count(kernel) > 1;
}

static bool is_alone(const translation *t, const plan_kernel *kernel)
{
    return divides_rows(kernel) || divides_products(t, kernel) || divides_core(t, kernel);
}

static uint32_t count_kernels(const translation *t, uint32_t first)
{
    const plan_phase *phases = t->loaded->phases.items;
    const plan_kernel *kernel = phases[first].kernel;
    uint32_t all = t->loaded->phases.count, count = 1, fused = 0;
    if (kernel->sends_later) return 1 + count_kernels(t, first + 1);
    if (divides_rows(kernel)) return kernel->rows->kernels;
    if (divides_products(t, kernel) || divides_core(t, kernel)) return 1;
    if (kernel->rows) fused = kernel->rows->kernels;
    for (; first + count < all; count++) {
        const plan_kernel *next = phases[first + count].kernel;
        if (!next || !next->no_barrier || (count >= fused && is_alone(t, next))) break;
        if (next->rows && count >= fused) fused = count + next->rows->kernels;
    }
    return count;
}

// --- What they do

static spyre_status list_actions(const translation *t, const plan_phase *first, plan_stage *stage)
{
    for (uint32_t k = 0; k < stage->kernels; k++) {
        const plan_kernel *kernel = first[k].kernel;
        bool more = k + 1 < stage->kernels;
        plan_action action = {.kind = ACTION_TILES, .first = k};
        if (kernel->sends_later || (kernel->remote && more)) continue;
        if (kernel->messages) action.kind = ACTION_COPIES;
        if (k > 0) action.remote = first[k - 1].kernel->remote;
        if (kernel->rows && kernel->rows->kernels <= stage->kernels - k) {
            action.kind = ACTION_ROWS;
            k += kernel->rows->kernels - 1;
        }
        TRY(VEC_PUSH(t->memory, &stage->actions, action));
    }
    return NULL;
}

// --- Units

static spyre_status share_rows(const translation *t, const row_fusion *rows, plan_stage *stage)
{
    row_range *shares = ARENA_NEW(t->memory, row_range, ISA_CORES);
    TRY_ALLOC(shares);
    const uint32_t least = rows->group < rows->rows ? rows->group : rows->block;
    const uint32_t parts = (rows->rows - 1) / least + 1;
    uint32_t share = ((parts - 1) / ISA_CORES + 1) * least, units = 0;
    if (!rows->divisible) share = rows->rows;
    for (uint32_t begin = 0; begin < rows->rows; begin += share) {
        uint32_t end = rows->rows - begin > share ? begin + share : rows->rows;
        shares[units++] = (row_range){begin, end};
    }
    stage->cores = units < ISA_CORES ? (1u << units) - 1 : UINT32_MAX;
    stage->actions.items[0].shares = shares;
    return NULL;
}

static spyre_status part_core(const translation *t, const plan_kernel *kernel, plan_stage *stage)
{
    enum { PARTS_PER_THREAD = 2 };
    uint32_t parts = PARTS_PER_THREAD * t->threads, most = core_parts_count(kernel);
    plan_kernel **made = NULL;
    if (parts > most) parts = most;
    if (parts > ISA_CORES) parts = ISA_CORES;
    TRY(core_parts_make(t, kernel, parts, &made));
    stage->cores = parts < ISA_CORES ? (1u << parts) - 1 : UINT32_MAX;
    stage->actions.items[0].parts = made;
    return NULL;
}

static spyre_status make_stage(const translation *t, plan_phase *first, uint32_t kernels)
{
    plan_stage *stage = ARENA_NEW(t->memory, plan_stage, 1);
    TRY_ALLOC(stage);
    const plan_kernel *kernel = first->kernel;
    *stage = (plan_stage){.kernels = kernels};
    for (uint32_t k = 0; k < kernels; k++) {
        stage->cores |= first[k].kernel->source->active_cores;
        stage->weight_bytes += first[k].kernel->weight_bytes;
    }
    TRY(list_actions(t, first, stage));
    stage->divides_products = kernels == 1 && divides_products(t, kernel);
    if (divides_rows(kernel)) TRY(share_rows(t, kernel->rows, stage));
    else if (divides_core(t, kernel)) TRY(part_core(t, kernel, stage));
    core_groups_divide(t->threads, first, stage);
    first->stage = stage;
    return NULL;
}

spyre_status card_pass_choose_stages(translation *t)
{
    card_program *p = t->loaded;
    for (uint32_t n = 0; n < p->phases.count; n++) {
        const plan_kernel *kernel = p->phases.items[n].kernel;
        bool by_queues = !kernel || !kernel->source->active_cores ||
                         (!kernel->steps[ISA_QUEUE_SEQ] && !kernel->messages &&
                          !kernel->sends_later);
        if (by_queues) continue;
        uint32_t kernels = count_kernels(t, n);
        TRY(make_stage(t, &p->phases.items[n], kernels));
        n += kernels - 1;
    }
    return NULL;
}
