// SPDX-License-Identifier: Apache-2.0
//
// Loop IR in the middle of the pipeline, for tests of one pass, and short ways to write graphs.
#ifndef TESTS_FRONT_CASE_H
#define TESTS_FRONT_CASE_H

#include "support/front_run.h"

// The loop IR of the graph after every pass before `pass`; null ends after the last one.
static inline loop_graph *front_case_before(front_run *run, uint32_t cores, const char *pass)
{
    static const struct {
        const char *name;
        front_pass run;
    } passes[] = {
#define PASS_ROW(name, kind, summary) {#name, pass_##name},
#include "front/pass.def"
#undef PASS_ROW
    };
    static uint32_t node;
    loop_graph *loops = NULL;
    if (front_build(run->graph, run->memory, &node, &loops)) abort();
    loops->settings = run->settings;
    loops->cores = cores;
    for (uint32_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        bool changed;
        if (pass && strcmp(passes[i].name, pass) == 0) break;
        loops->stage = i + 1;
        if (passes[i].run(loops, &changed) || loop_verify(loops)) abort();
    }
    return loops;
}

static inline spyre_view sizes_view(uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    int64_t size[] = {a, b, c};
    return dense_view(rank, size);
}

// An fp16 input without numbers.
static inline uint32_t front_case_input(front_run *run, spyre_view view)
{
    return front_run_input(run, SPYRE_DTYPE_F16, view.rank, view.size, NULL);
}

static inline uint32_t front_case_unary(front_run *run, const char *op, uint32_t x, spyre_view view)
{
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x}};
    return front_run_node(run, op, args, 1, SPYRE_DTYPE_F16, view);
}

static inline uint32_t front_case_binary(front_run *run, const char *op, uint32_t x, uint32_t y,
                                         spyre_view view)
{
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_VALUE, .of.value = y}};
    return front_run_node(run, op, args, 2, SPYRE_DTYPE_F16, view);
}

// Keeps the dim, with size 1.
static inline uint32_t front_case_reduce(front_run *run, const char *op, uint32_t x, int64_t dim,
                                         spyre_view view)
{
    spyre_arg which = {.kind = SPYRE_ARG_INT, .of.integer = dim};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&which, 1}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = true}};
    return front_run_node(run, op, args, 3, SPYRE_DTYPE_F16, view);
}

static inline uint32_t front_case_constant(front_run *run, double value)
{
    spyre_arg args[] = {{.kind = SPYRE_ARG_FLOAT, .of.real = value},
                        {.kind = SPYRE_ARG_DTYPE, .of.dtype = SPYRE_DTYPE_F16}};
    return front_run_node(run, "spyre.constant", args, 2, SPYRE_DTYPE_F16, (spyre_view){.rank = 0});
}

static inline void front_case_output(front_run *run, uint32_t value)
{
    if (spyre_graph_add_output(run->graph, value)) abort();
}

// second(first(x)), which leaves the graph.
static inline void front_case_pair(front_run *run, const char *first, const char *second,
                                   spyre_view view)
{
    uint32_t x = front_case_unary(run, first, front_case_input(run, view), view);
    front_case_output(run, front_case_unary(run, second, x, view));
}

static inline uint32_t front_case_count(const loop_graph *loops, opfunc op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++) count += loops->ops.items[i].op == op;
    return count;
}

// "identity/0 exp/1": every op with the number of tile loops around it.
static inline const char *front_case_ops(const loop_graph *loops)
{
    const char *out = "";
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        out = arena_printf(loops->memory, "%s%s%s/%u", out, i ? " " : "",
                           opfunc_describe(op->op)->name, op->tile_depth);
    }
    return out;
}

// The text of the graph, which reads back as the same; spyre_string_free() frees it.
static inline char *front_case_text(const spyre_graph *graph)
{
    char *first, *second;
    spyre_graph *again;
    if (spyre_graph_print(graph, &first) || spyre_graph_parse(first, "case.graph", &again) ||
        spyre_graph_print(again, &second) || strcmp(first, second) != 0)
        abort();
    spyre_string_free(second);
    spyre_graph_destroy(again);
    return first;
}

// "50 10 200": the loops of op `index`.
static inline const char *front_case_loops(const loop_graph *loops, uint32_t index)
{
    const loop_op *op = &loops->ops.items[index];
    const char *out = "";
    for (uint32_t v = 0; v < op->var_count; v++)
        out = arena_printf(loops->memory, "%s%s%lld", out, v ? " " : "", (long long)op->extent[v]);
    return out;
}

#endif
