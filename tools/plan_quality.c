// SPDX-License-Identifier: Apache-2.0
//
// How good the compiler's plans are; bench/plans.py shows what it prints, one JSON object a call.
//
//   plan_quality solver INSTANCES       the default solver beside the exact one, on generated
//                                       instances of 5 to 30 buffers, and its time for 250
//   plan_quality divisions FILE PLANS [NAME=VALUE ..]
//                                       a graph's plan under these settings beside random legal
//                                       ones; predicted and modelled time of every plan
//   plan_quality curve OPS ...          the front's time for layers of so many ops, bytes of the
//                                       loop IR, and of all that the front allocates
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "front/memory/solver.h"
#include "support/random_plan.h"

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// --- Solvers

enum { MOST_BUFFERS = 250, SOLVER_DEFAULT = 0, SOLVER_EXACT = 4 };

// Powers of two and any sizes, most lives short, some long; a few results may take the place of an
// operand that dies.
static void make_instance(solver_item *items, uint32_t count, uint64_t *state)
{
    bool taken[MOST_BUFFERS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t most = random_plan_below(state, 4) ? 4 : count / 2 + 1;
        uint32_t sticks = random_plan_below(state, 2) ? 1u << random_plan_below(state, 7)
                                                      : 1 + random_plan_below(state, 64);
        items[i] = (solver_item){.bytes = 128 * (int64_t)sticks,
                                 .first = i,
                                 .last = i + 1 + random_plan_below(state, most),
                                 .worth = sticks};
        for (uint32_t p = 0; p < i && !items[i].parent_count; p++) {
            if (taken[p] || items[p].last != i || items[p].bytes < items[i].bytes) continue;
            taken[p] = random_plan_below(state, 2);
            if (taken[p]) items[i].parent[items[i].parent_count++] = p;
        }
    }
}

static spyre_status solve(solver_item *items, uint32_t count, uint32_t solver,
                          solver_problem *out, double *out_ms)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    *out = (solver_problem){
        .memory = memory, .items = items, .count = count, .capacity = INT64_MAX / 2};
    double begin = cpu_ms();
    spyre_status status = solver_run(out, solver);
    *out_ms = cpu_ms() - begin;
    if (!status) status = solver_check(out);
    arena_destroy(memory);
    return status;
}

static spyre_status compare_solvers(uint32_t instances)
{
    static solver_item items[MOST_BUFFERS];
    solver_problem found, best;
    uint32_t equal = 0, proved = 0;
    double worst = 1, most_ms = 0, ms = 0;
    for (uint32_t n = 0; n < instances; n++) {
        uint64_t state = n + 1;
        uint32_t count = 5 + random_plan_below(&state, 26);
        make_instance(items, count, &state);
        TRY(solve(items, count, SOLVER_DEFAULT, &found, &ms));
        TRY(solve(items, count, SOLVER_EXACT, &best, &ms));
        double ratio = (double)found.top / (double)best.top;
        equal += found.top == best.top;
        proved += best.optimal;
        if (ratio > worst) worst = ratio;
    }
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t state = seed;
        make_instance(items, MOST_BUFFERS, &state);
        TRY(solve(items, MOST_BUFFERS, SOLVER_DEFAULT, &found, &ms));
        if (ms > most_ms) most_ms = ms;
    }
    printf("{\"instances\": %u, \"equal\": %u, \"proved\": %u, \"worst_ratio\": %.4f, "
           "\"buffers_250_ms\": %.3f}\n",
           instances, equal, proved, worst, most_ms);
    return NULL;
}

// --- Divisions

// `words`: "name=value" of settings, `count` of them.
static spyre_status compare_divisions(arena *memory, const char *path, uint32_t plans,
                                      char **words, int count)
{
    char *source;
    size_t length;
    spyre_graph *graph = NULL;
    loop_graph *loops;
    plan_price own = {0, 0}, tried = {0, 0};
    uint64_t state = 1;
    spyre_settings settings = spyre_settings_default();
    for (int i = 0; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value) return status_new(SPYRE_INVALID_ARGUMENT, "%s: no setting", words[i]);
        *value++ = 0;
        TRY(spyre_settings_set(&settings, words[i], value));
    }
    TRY(file_read(memory, path, 1 << 24, &source, &length));
    TRY(random_plan_read(source, path, &settings, memory, &graph, &loops));
    TRY(random_plan_price(loops, &own));
    double begin = cpu_ms(), best = -1;
    const char *plan = "", *best_plan = "";
    printf("{\"predicted_us\": %.6f, \"card_us\": %.6f, \"plans\": [", own.predicted_us,
           own.card_us);
    for (uint32_t n = 0; n < plans; n++) {
        TRY(random_plan_try(loops, &state, memory, &tried, &plan));
        if (best < 0 || tried.card_us < best) {
            best = tried.card_us;
            best_plan = plan;
        }
        printf("%s[%.6f, %.6f]", n ? ", " : "", tried.predicted_us, tried.card_us);
    }
    printf("], \"best_us\": %.6f, \"best_plan\": \"%s\", \"own_plan\": \"%s\", "
           "\"plan_ms\": %.3f}\n",
           best, best_plan, random_plan_describe(memory, loops), (cpu_ms() - begin) / plans);
    spyre_graph_destroy(graph);
    return NULL;
}

// --- The curve

// Layers of a product, a bias, an activation, a sum of rows and a division by it.
static char *layers(uint32_t ops)
{
    size_t room = 256 + (size_t)ops * 96, used = 0;
    char *out = malloc(room);
    if (!out) return NULL;
    used += (size_t)snprintf(out, room, "input %%v0: f16[64, 128]\ninput %%w: f16[128, 128]\n"
                                        "input %%b: f16[128]\n");
    for (uint32_t n = 1; n <= ops; n++) {
        static const char *const forms[] = {
            "%%v%u = aten.mm.default(%%v%u, %%w) -> f16[64, 128]\n",
            "%%v%u = aten.add.Tensor(%%v%u, %%b) -> f16[64, 128]\n",
            "%%v%u = aten.relu.default(%%v%u) -> f16[64, 128]\n",
            "%%v%u = aten.mul.Tensor(%%v%u, %%b) -> f16[64, 128]\n",
        };
        used += (size_t)snprintf(out + used, room - used, forms[n % 4], n, n - 1);
    }
    snprintf(out + used, room - used, "return %%v%u\n", ops);
    return out;
}

static spyre_status measure(uint32_t ops, bool last)
{
    char *source = layers(ops);
    spyre_graph *graph, *prepared;
    graph_segment *segments;
    front_result result;
    uint32_t count, node;
    TRY_ALLOC(source);
    arena *memory = arena_create(), *front_memory = arena_create();
    TRY_ALLOC(memory);
    TRY_ALLOC(front_memory);
    TRY(spyre_graph_parse(source, "layers", &graph));
    TRY(graph_prepare(graph, (graph_rules){0}, NULL, memory, &prepared));
    TRY(graph_make_segments(prepared, true, 0, memory, &segments, &count));
    front_options options = {.settings = spyre_settings_default()};
    double begin = cpu_ms();
    TRY(front_compile(segments[0].graph, &options, front_memory, &node, &result));
    double ms = cpu_ms() - begin;
    uint32_t loops = result.loops->ops.count;
    double ir = (double)loops * sizeof(loop_op) +
                (double)result.loops->buffers.count * sizeof(loop_buffer);
    printf("{\"ops\": %u, \"front_ms\": %.3f, \"us_an_op\": %.3f, \"ir_bytes_an_op\": %.0f, "
           "\"bytes_an_op\": %.0f}%s",
           loops, ms, ms * 1e3 / loops, ir / loops,
           (double)arena_used_bytes(front_memory) / loops, last ? "]\n" : ", ");
    arena_destroy(front_memory);
    arena_destroy(memory);
    spyre_graph_destroy(graph);
    free(source);
    return NULL;
}

static spyre_status run(arena *memory, int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "solver") == 0)
        return compare_solvers((uint32_t)atoi(argv[2]));
    if (argc >= 4 && strcmp(argv[1], "divisions") == 0)
        return compare_divisions(memory, argv[2], (uint32_t)atoi(argv[3]), argv + 4, argc - 4);
    if (argc < 3 || strcmp(argv[1], "curve") != 0)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "solver INSTANCES | divisions FILE PLANS | curve OPS ...");
    printf("[");
    for (int i = 2; i < argc; i++) TRY(measure((uint32_t)atoi(argv[i]), i + 1 == argc));
    return NULL;
}

int main(int argc, char **argv)
{
    arena *memory = arena_create();
    spyre_status status = memory ? run(memory, argc, argv) : status_no_memory();
    if (status) fprintf(stderr, "plan_quality: %s\n", spyre_status_message(status));
    bool failed = status;
    spyre_status_free(status);
    arena_destroy(memory);
    return failed;
}
