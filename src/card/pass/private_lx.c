// SPDX-License-Identifier: Apache-2.0
//
// What lies in LX between the kernels of one stage only is scratch memory: written, read, and never
// wanted again. In the LX of its core it is another MiB or two for each of 32 cores, which the host
// brings into its caches to overwrite it, and writes back to DRAM. Cores of such a stage take turns
// in an LX of the host thread (machine.h) instead, which stays in the thread's caches:
//
//     gather [4, 2048, 64]: lx+0 <- arg0, arg1          1 MiB per core, 32 MiB of all
//     reduce sum [256, 32, 64]: arg2 <- lx+0
//
// Every byte that a kernel reads in LX must have been overwritten by a kernel of the stage, on all
// cores that read it, and none that they write may be read behind the stage. Not where other cores
// look into the LX (messages, remote operands, row fusions of all cores), nor in loops around
// kernels, where a later iteration might.
#include "card/plan/pass.h"
#include "card/row_fusion/row_fusion.h"

static bool stays_on_core(const plan_phase *first, const plan_stage *stage)
{
    for (uint32_t n = 0; n < stage->actions.count; n++) {
        const plan_action *a = &stage->actions.items[n];
        const row_fusion *rows = first[a->first].kernel->rows;
        if (a->kind == ACTION_COPIES || a->shares || a->parts || a->remote) return false;
        if (a->kind == ACTION_ROWS && rows->joined) return false;
    }
    for (uint32_t k = 0; k < stage->kernels; k++)
        if (first[k].kernel->messages || first[k].kernel->remote) return false;
    return true;
}

static bool reads_its_own(const translation *t, const plan_phase *first, uint32_t kernels)
{
    for (uint32_t k = 0; k < kernels; k++)
        if (lx_reads_before(&t->lx, first->kernel->order, first[k].kernel->order)) return false;
    return true;
}

static bool is_read_behind(const translation *t, const plan_phase *first, uint32_t kernels)
{
    const uint32_t begin = first->kernel->order, last = first[kernels - 1].kernel->order;
    const plan_phase *next = first + kernels;
    const bool ends = next == t->loaded->phases.items + t->loaded->phases.count;
    // Another part of the last kernel.
    if (!ends && next->kernel && next->kernel->order == last) return true;
    for (uint32_t k = begin; k <= last; k++) {
        const lx_summary *s = &t->lx.items[k];
        for (uint32_t n = 0; n < s->written.count; n++)
            if (lx_read_behind(&t->lx, k, last, s->cores, s->written.items[n])) return true;
    }
    return false;
}

static bool writes_lx(const translation *t, const plan_phase *first, uint32_t kernels)
{
    for (uint32_t k = 0; k < kernels; k++)
        if (t->lx.items[first[k].kernel->order].written.count) return true;
    return false;
}

// There are as many LX of host threads as cores.
static bool has_room(const translation *t, const plan_stage *stage)
{
    return !stage->divides_products && t->threads * stage->group.cores <= ISA_CORES;
}

spyre_status card_pass_private_lx(translation *t)
{
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        const plan_phase *first = &t->loaded->phases.items[n];
        plan_stage *stage = first->stage;
        if (!stage || first->depth || !has_room(t, stage) || !stays_on_core(first, stage)) continue;
        stage->private_lx = writes_lx(t, first, stage->kernels) &&
                            reads_its_own(t, first, stage->kernels) &&
                            !is_read_behind(t, first, stage->kernels);
    }
    return NULL;
}
