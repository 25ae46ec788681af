// SPDX-License-Identifier: Apache-2.0
//
// Published divisions cut reduced loops: the cores' partial results are combined over the ring.
// Interpreter and card agree bit for bit, and with plain loops up to rounding.
#include "unit/check.h"

#include <math.h>

#include "support/front_case.h"

enum { MOST_RESULTS = 4096 };

typedef struct {
    const char *op;
    int64_t rows, columns;
    int64_t reduced; // dim
    int32_t split;   // cores along it
} reduction;

static double value_at(int64_t i)
{
    return (double)((i * 37 + i / 64 * 11) % 201 - 100) / 64;
}

static uint16_t *values(int64_t count)
{
    uint16_t *out = malloc((size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; i++) out[i] = fp16_from_float((float)value_at(i));
    return out;
}

// The slices of the reduced loop of the only op.
static int32_t reduced_split(front_run *run)
{
    front_options options = {.settings = spyre_settings_default()};
    front_result result;
    uint32_t node;
    options.settings.work_division = 1;
    assert_ok(front_compile(run->graph, &options, run->memory, &node, &result));
    const loop_graph *loops = result.loops;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t v = 0; v < loops->ops.items[i].var_count; v++)
            if (loop_var_is_reduced(&loops->ops.items[i], v)) return loops->ops.items[i].split[v];
    return 0;
}

static void check(front_run *run, const double *want, int64_t count, double tolerance)
{
    static uint16_t got[FRONT_RUN_CARD_FAST + 1][MOST_RESULTS];
    run->settings.work_division = 1; // published
    for (front_engine e = FRONT_RUN_INTERPRETER; e <= FRONT_RUN_CARD_FAST; e++) {
        void *out[1] = {got[e]};
        spyre_status status = front_run_execute(run, 32, e, out, NULL);
        if (status) print_error("%s\n", spyre_status_message(status));
        assert_null(status);
        assert_memory_equal(got[e], got[0], (size_t)count * sizeof got[0][0]);
    }
    for (int64_t i = 0; i < count; i++) {
        double found = (double)fp16_to_float(got[0][i]);
        assert_true(fabs(found - want[i]) <= tolerance * fmax(1, fabs(want[i])));
    }
}

static double combine(const char *op, double a, double b)
{
    if (strcmp(op, "spyre.max") == 0) return fmax(a, b);
    if (strcmp(op, "spyre.min") == 0) return fmin(a, b);
    return a + b;
}

static void check_reduction(const reduction *c)
{
    front_run run = front_run_begin();
    uint16_t *x = values(c->rows * c->columns);
    int64_t size[] = {c->rows, c->columns}, kept = c->reduced ? c->rows : c->columns;
    double want[MOST_RESULTS];
    bool is_extreme = strcmp(c->op, "spyre.max") == 0 || strcmp(c->op, "spyre.min") == 0;
    for (int64_t i = 0; i < kept; i++)
        want[i] = !is_extreme ? 0 : strcmp(c->op, "spyre.max") == 0 ? -INFINITY : INFINITY;
    for (int64_t i = 0; i < c->rows * c->columns; i++) {
        double *target = &want[c->reduced ? i / c->columns : i % c->columns];
        *target = combine(c->op, *target, value_at(i));
    }
    double part = (double)kept / (double)(c->rows * c->columns);
    for (int64_t i = 0; i < kept; i++)
        if (strcmp(c->op, "spyre.mean") == 0) want[i] *= part;
    uint32_t input = front_run_input(&run, SPYRE_DTYPE_F16, 2, size, x);
    spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = c->reduced};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = input},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}}};
    front_case_output(&run, front_run_node(&run, c->op, args, 2, SPYRE_DTYPE_F16,
                                           sizes_view(1, kept, 0, 0)));
    assert_int_equal(reduced_split(&run), c->split);
    check(&run, want, kept, 0.01);
    front_run_end(&run);
    free(x);
}

// Rows, whole sticks, sticks of which the last one is a part, and every way to combine.
static void reduced_split__reductions(void **state)
{
    (void)state;
    static const reduction cases[] = {
        {"spyre.sum", 512, 64, 0, 32},  {"spyre.mean", 96, 128, 0, 16},
        {"spyre.max", 64, 64, 0, 32},   {"spyre.min", 25, 64, 0, 25},
        {"spyre.sum", 3, 1024, 1, 8},   {"spyre.mean", 2, 1000, 1, 16},
        {"spyre.max", 1, 4096, 1, 32},  {"spyre.min", 5, 700, 1, 1},
        {"spyre.max", 4, 740, 1, 6},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_reduction(&cases[i]);
}

static void check_product(int64_t m, int64_t k, int64_t n, int32_t split)
{
    front_run run = front_run_begin();
    uint16_t *x = values(m * k), *y = values(k * n);
    double want[MOST_RESULTS] = {0};
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++)
                want[i * n + j] += value_at(i * k + l) * value_at(l * n + j);
    int64_t sizes[3][2] = {{m, k}, {k, n}, {m, n}};
    uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 2, sizes[0], x);
    uint32_t b = front_run_input(&run, SPYRE_DTYPE_F16, 2, sizes[1], y);
    front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", a, b,
                                              dense_view(2, sizes[2])));
    assert_int_equal(reduced_split(&run), split);
    check(&run, want, m * n, 0.02);
    front_run_end(&run);
    free(x);
    free(y);
}

static void reduced_split__products(void **state)
{
    (void)state;
    check_product(8, 4096, 64, 4);
    check_product(16, 1024, 64, 2);
    check_product(5, 1000, 48, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reduced_split__reductions),
        cmocka_unit_test(reduced_split__products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
