// SPDX-License-Identifier: Apache-2.0
//
// Work divisions chosen at random among the legal ones, and what a plan costs: by the front's model
// and as the card's timing model prices the program. For tests and bench/plans.py.
#ifndef TESTS_RANDOM_PLAN_H
#define TESTS_RANDOM_PLAN_H

#include <string.h>

#include "back/back.h"
#include "card/card.h"
#include "front/cost/cost.h"
#include "front/divide/span_reduction.h"
#include "front/front.h"
#include "front/ir/core_numbers.h"
#include "graph/segments/segments.h"

typedef struct {
    double predicted_us, card_us;
} plan_price;

// Knuth's linear congruential generator (MMIX).
static inline uint32_t random_plan_below(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

// The loop IR of the only card segment of a graph text, planned up to the division of its ops.
static inline spyre_status random_plan_read(const char *source, const char *name,
                                            const spyre_settings *settings, arena *memory,
                                            spyre_graph **out_graph, loop_graph **out)
{
    static const front_pass passes[] = {
#define PASS_ROW(name, kind, summary) pass_##name,
#include "front/pass.def"
#undef PASS_ROW
    };
    static uint32_t node;
    spyre_graph *prepared;
    graph_segment *segments;
    uint32_t count;
    bool changed;
    TRY(spyre_graph_parse(source, name, out_graph));
    TRY(graph_prepare(*out_graph, (graph_rules){0}, NULL, memory, &prepared));
    TRY(graph_make_segments(prepared, true, 0, memory, &segments, &count));
    if (count != 1) return status_new(SPYRE_INVALID_ARGUMENT, "%s: %u segments", name, count);
    TRY(front_build(segments[0].graph, memory, &node, out));
    (*out)->settings = *settings;
    (*out)->cores = settings->sencores;
    for (uint32_t i = 0; passes[i] != pass_lx_planning; i++) TRY(passes[i](*out, &changed));
    return NULL;
}

// Units of a result loop may be cut into any of their divisors, those of a reduced one where that
// leaves every bit as it is.
static inline void random_plan_divide_op(loop_graph *loops, loop_op *op, uint64_t *state)
{
    division_sizes sizes = division_sizes_of(loops, op);
    for (uint32_t attempt = 0; attempt < 100; attempt++) {
        division d = division_whole();
        uint32_t start = random_plan_below(state, op->var_count + 1), reduced = 0;
        int64_t left = loops->cores;
        for (uint32_t n = 0; n < op->var_count; n++) {
            uint32_t v = (start + n) % op->var_count;
            if (loop_var_is_reduced(op, v) &&
                (reduced++ || !division_combines_exactly(loops, op, v)))
                continue;
            bool most = random_plan_below(state, 2);
            int64_t limit = most ? left : 1 + random_plan_below(state, (uint32_t)left);
            d.split[v] = division_largest(sizes.units[v], limit, sizes.uneven[v]);
            left /= d.split[v];
        }
        core_numbers_as_published(op, &d);
        // The memory's published rates are for two cores and more.
        bool lonely = division_cores(op, &d) == 1 && attempt < 99;
        if (lonely || !span_fits(loops, op, &d)) continue;
        division_set(op, &d, LOOP_DIVIDED_BY_DISTRIBUTION);
        return;
    }
}

// Plans the rest in a copy.
static inline spyre_status random_plan_price(const loop_graph *loops, plan_price *out)
{
    const back_options back = BACK_OPTIONS_INIT;
    arena *memory = arena_create();
    loop_graph copy;
    front_result result;
    isa_program *program;
    bool changed;
    TRY_ALLOC(memory);
    spyre_status status = loop_copy(loops, memory, &copy);
    if (!status) status = pass_lx_planning(&copy, &changed);
    if (!status) status = pass_memory_planning(&copy, &changed);
    if (!status) status = front_emit(&copy, &result);
    if (!status) status = back_compile(result.bundle, &back, memory, &program);
    if (!status) {
        card_counters *kernels = ARENA_NEW(memory, card_counters, program->kernels.count);
        status = kernels ? card_time(program, kernels) : status_no_memory();
        *out = (plan_price){.predicted_us = cost_of_graph(&copy)};
        for (uint32_t k = 0; !status && k < program->kernels.count; k++)
            out->card_us += kernels[k].us;
    }
    arena_destroy(memory);
    return status;
}

// "c0/4 c1/8; c0/32": the divisions of all ops.
static inline const char *random_plan_describe(arena *memory, const loop_graph *loops)
{
    const char *out = "";
    for (uint32_t i = 0; i < loops->ops.count && out; i++) {
        division d = division_get(&loops->ops.items[i]);
        const char *one = division_describe(memory, &loops->ops.items[i], &d);
        out = arena_printf(memory, "%s%s%s", out, i ? "; " : "", one ? one : "?");
    }
    return out ? out : "";
}

// A plan of its own for every op; its description in `words`.
static inline spyre_status random_plan_try(const loop_graph *loops, uint64_t *state, arena *words,
                                           plan_price *out, const char **out_plan)
{
    arena *memory = arena_create();
    loop_graph copy;
    TRY_ALLOC(memory);
    spyre_status status = loop_copy(loops, memory, &copy);
    for (uint32_t i = 0; !status && i < copy.ops.count; i++)
        random_plan_divide_op(&copy, &copy.ops.items[i], state);
    if (!status) status = random_plan_price(&copy, out);
    *out_plan = random_plan_describe(words, &copy);
    arena_destroy(memory);
    return status;
}

#endif
