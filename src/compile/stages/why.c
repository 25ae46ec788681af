// SPDX-License-Identifier: Apache-2.0
//
// Two models speak here: kernels are timed by the card's timing model, which walks the program;
// changes are priced by the planner's, which knows the loop IR only but needs no program. So a
// saving is a difference of two numbers of the same model, and never of one of each.
#include "compile/stages/why.h"

#include <stdio.h>

#include "front/explain/alternatives.h"
#include "front/front.h"
#include "isa/constants.h"

static const double LEAST_SHARE = 0.02; // of an op's time, that a change has to save

static double busy_us(const spyre_kernel_counters *k)
{
    switch (k->bound) {
    case SPYRE_BOUND_MEMORY: return k->memory_busy_us;
    case SPYRE_BOUND_PT: return k->pt_busy_us;
    case SPYRE_BOUND_SFP: return k->sfp_busy_us;
    case SPYRE_BOUND_RING: return k->ring_busy_us;
    case SPYRE_BOUND_ORDER: break;
    }
    return 0;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_kernel(const spyre_kernel_counters *k, double total_us, text *out)
{
    char bound[48];
    const char *name = spyre_bound_name(k->bound);
    double alone_us = k->us + k->overlap_us;
    if (k->bound == SPYRE_BOUND_ORDER)
        snprintf(bound, sizeof bound, "%s-bound (memory %.0f %%)", name,
                 percent(k->memory_busy_us, alone_us));
    else
        snprintf(bound, sizeof bound, "%s-bound %.0f %%", name, percent(busy_us(k), alone_us));
    text_printf(out, "%10.3f%7.1f %%  %-20s  %-20s  %s\n", k->us, percent(k->us, total_us), bound,
                k->name, *k->location ? k->location : "unknown");
}

static spyre_status print_changes(const loop_graph *loops, const def_use *f, uint32_t op,
                                  arena *memory, text *out)
{
    alternatives found;
    double us = cost_as_planned(loops, &loops->ops.items[op]).us;
    TRY(alternatives_find(loops, f, op, LEAST_SHARE * us, memory, &found));
    for (uint32_t i = 0; i < found.count; i++)
        text_printf(out, "%14s if %s: -%.3g us\n", "", found.best[i].change,
                    found.best[i].saved_us);
    return NULL;
}

// The least time that the traffic and the products of the program can take on the whole card.
static void print_roofline(const spyre_kernel_counters *total, text *out)
{
    double bytes = (double)(total->memory_read_bytes + total->memory_written_bytes);
    double memory_us = bytes / MEMORY_BANDWIDTH;
    double matmul_us = (double)total->mac_count / (GEOMETRY_CORES * MATMUL_RATE);
    bool by_memory = memory_us >= matmul_us;
    double least_us = by_memory ? memory_us : matmul_us;
    text_printf(out, "%10.3f us roofline, of %s (memory %.3f us, products %.3f us)", least_us,
                by_memory ? "memory" : "products", memory_us, matmul_us);
    if (least_us > 0) text_printf(out, "; the plan takes %.2f times as long", total->us / least_us);
    text_append(out, "\n");
}

spyre_status why_print(const loop_graph *loops, const spyre_kernel_counters *kernels,
                       uint32_t count, text *out)
{
    def_use f;
    const spyre_kernel_counters *total = &kernels[count];
    spyre_status status = NULL;
    TRY(def_use_build(loops, &f));
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    text_append(out, "        us   share  bound                 kernel                source; "
                     "what one change would save\n");
    for (uint32_t k = 0; k < count && !status; k++) {
        uint32_t op = front_op_of_step(kernels[k].name);
        print_kernel(&kernels[k], total->us, out);
        bool last = k + 1 == count || front_op_of_step(kernels[k + 1].name) != op;
        if (last && op < loops->ops.count) status = print_changes(loops, &f, op, memory, out);
    }
    arena_destroy(memory);
    TRY(status);
    text_printf(out, "%10.3f us in %u kernels of %u ops: memory %.0f %%, pt %.0f %%, sfp %.0f %%, "
                "ring %.0f %%\n", total->us, count, loops->ops.count,
                percent(total->memory_busy_us, total->us), percent(total->pt_busy_us, total->us),
                percent(total->sfp_busy_us, total->us), percent(total->ring_busy_us, total->us));
    print_roofline(total, out);
    return NULL;
}
