// SPDX-License-Identifier: Apache-2.0
//
// Front and interpreter together against plain loops, on stale memory: whatever padding holds must
// not reach a result.
#include "unit/check.h"

#include <math.h>

#include "support/front_run.h"

static uint16_t *random_fp16(int64_t count, uint32_t seed)
{
    uint16_t *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = fp16_from_float((float)((int32_t)(seed >> 16 & 255) - 128) / 64.0f);
    }
    return values;
}

static spyre_arg value_arg(uint32_t value)
{
    return (spyre_arg){.kind = SPYRE_ARG_VALUE, .of.value = value};
}

static uint16_t *execute(front_run *run, uint32_t cores, front_engine engine, int64_t count,
                         text *listing)
{
    uint16_t *got = calloc((size_t)count, sizeof *got);
    void *out[1] = {got};
    spyre_status status = front_run_execute(run, cores, engine, out, listing);
    if (status) print_error("%s\n", spyre_status_message(status));
    assert_null(status);
    return got;
}

// The interpreter agrees with `want`, the card with the interpreter, bit for bit, in both modes.
static void check(front_run *run, uint32_t cores, const double *want, int64_t count,
                  double tolerance)
{
    text listing = {0};
    uint16_t *got = execute(run, cores, FRONT_RUN_INTERPRETER, count, &listing);
    for (int64_t i = 0; i < count; i++) {
        double value = fp16_to_float(got[i]);
        if (!(fabs(value - want[i]) <= tolerance)) {
            print_error("element %lld: %g, not %g\n", (long long)i, value, want[i]);
            fputs(text_string(&listing), stderr);
            fail();
        }
    }
    for (front_engine engine = FRONT_RUN_CARD_EXACT; engine <= FRONT_RUN_CARD_FAST; engine++) {
        uint16_t *card_got = execute(run, cores, engine, count, &listing);
        assert_memory_equal(card_got, got, (size_t)count * sizeof *got);
        free(card_got);
    }
    text_free(&listing);
    free(got);
}

static double at(const uint16_t *values, int64_t i)
{
    return fp16_to_float(values[i]);
}

static void front__flatten_and_add(void **state)
{
    (void)state;
    int64_t three[] = {5, 10, 70}, two[] = {50, 70};
    uint16_t *x = random_fp16(3500, 1), *y = random_fp16(3500, 2);
    double want[3500];
    for (int i = 0; i < 3500; i++) want[i] = at(x, i) + at(y, i);
    for (uint32_t cores = 1; cores <= 32; cores *= 4) {
        front_run run = front_run_begin();
        uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 3, three, x);
        uint32_t b = front_run_input(&run, SPYRE_DTYPE_F16, 2, two, y);
        spyre_arg view[] = {value_arg(a)};
        uint32_t flat =
            front_run_node(&run, "aten.view.default", view, 1, SPYRE_DTYPE_F16, dense_view(2, two));
        run.graph->nodes.items[0].layer = GRAPH_LAYER_VIEW;
        spyre_arg add[] = {value_arg(flat), value_arg(b)};
        uint32_t sum =
            front_run_node(&run, "spyre.add", add, 2, SPYRE_DTYPE_F16, dense_view(2, two));
        assert_ok(spyre_graph_add_output(run.graph, sum));
        check(&run, cores, want, 3500, 0.004);
        front_run_end(&run);
    }
    free(x);
    free(y);
}

static void matmul_case(int64_t m, int64_t k, int64_t n, uint32_t cores)
{
    uint16_t *x = random_fp16(m * k, 3), *y = random_fp16(k * n, 4);
    double *want = calloc((size_t)(m * n), sizeof *want);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++) want[i * n + j] += at(x, i * k + l) * at(y, l * n + j);
    front_run run = front_run_begin();
    int64_t a_size[] = {m, k}, b_size[] = {k, n}, c_size[] = {m, n};
    uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 2, a_size, x);
    uint32_t b = front_run_input(&run, SPYRE_DTYPE_F16, 2, b_size, y);
    spyre_arg args[] = {value_arg(a), value_arg(b)};
    uint32_t c =
        front_run_node(&run, "spyre.batchmatmul", args, 2, SPYRE_DTYPE_F16, dense_view(2, c_size));
    assert_ok(spyre_graph_add_output(run.graph, c));
    check(&run, cores, want, m * n, 0.06 + 0.004 * (double)k);
    front_run_end(&run);
    free(x);
    free(y);
    free(want);
}

static void front__matmul_shapes(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},   {4, 64, 64}, {3, 5, 7},    {67, 100, 130},
                                        {1, 128, 9}, {9, 1, 70},  {70, 130, 1}, {64, 192, 256}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        matmul_case(shapes[i][0], shapes[i][1], shapes[i][2], 1);
        matmul_case(shapes[i][0], shapes[i][1], shapes[i][2], 32);
    }
}

// scores[b, h, s, t] = sum over d of q[b, s, h*D + d] * k[b, t, h*D + d], heads cut out of rows.
static void heads_case(int64_t head)
{
    enum { B = 2, S = 5, H = 3 };
    int64_t width = H * head, count = B * S * width;
    uint16_t *q = random_fp16(count, 5), *k = random_fp16(count, 6);
    double want[B * H * S * S] = {0};
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t s = 0; s < S; s++)
                for (int64_t t = 0; t < S; t++)
                    for (int64_t d = 0; d < head; d++)
                        want[((b * H + h) * S + s) * S + t] +=
                            at(q, (b * S + s) * width + h * head + d) *
                            at(k, (b * S + t) * width + h * head + d);
    front_run run = front_run_begin();
    int64_t rows[] = {B * S, width};
    uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 2, rows, q);
    uint32_t b = front_run_input(&run, SPYRE_DTYPE_F16, 2, rows, k);
    // A local result first, so that the cut reaches back into an op.
    spyre_arg negate[] = {value_arg(a)};
    uint32_t n = front_run_node(&run, "spyre.neg", negate, 1, SPYRE_DTYPE_F16, dense_view(2, rows));
    spyre_arg again[] = {value_arg(n)};
    uint32_t back =
        front_run_node(&run, "spyre.neg", again, 1, SPYRE_DTYPE_F16, dense_view(2, rows));
    spyre_view left = {4, {B, H, S, head}, {S * width, head, width, 1}, 0};
    spyre_view right = {4, {B, H, head, S}, {S * width, head, 1, width}, 0};
    spyre_arg cut[] = {value_arg(back)}, turn[] = {value_arg(b)};
    uint32_t x = front_run_node(&run, "aten.as_strided.default", cut, 1, SPYRE_DTYPE_F16, left);
    uint32_t y = front_run_node(&run, "aten.as_strided.default", turn, 1, SPYRE_DTYPE_F16, right);
    run.graph->nodes.items[2].layer = run.graph->nodes.items[3].layer = GRAPH_LAYER_VIEW;
    spyre_arg mm[] = {value_arg(x), value_arg(y)};
    int64_t out[] = {B, H, S, S};
    uint32_t c =
        front_run_node(&run, "spyre.batchmatmul", mm, 2, SPYRE_DTYPE_F16, dense_view(4, out));
    assert_ok(spyre_graph_add_output(run.graph, c));
    check(&run, 32, want, B * H * S * S, 0.5);
    front_run_end(&run);
    free(q);
    free(k);
}

static void front__heads_of_any_size(void **state)
{
    (void)state;
    static const int64_t heads[] = {32, 48, 64, 80, 96, 128, 5};
    for (uint32_t i = 0; i < sizeof heads / sizeof heads[0]; i++) heads_case(heads[i]);
}

static void front__reductions(void **state)
{
    (void)state;
    enum { B = 3, S = 5, N = 100 };
    int64_t size[] = {B, S, N};
    uint16_t *x = random_fp16(B * S * N, 7);
    for (uint32_t dim = 0; dim < 3; dim++) {
        double want[B * S * N] = {0};
        int64_t kept[3] = {B, S, N};
        kept[dim] = 1;
        for (int64_t b = 0; b < B; b++)
            for (int64_t s = 0; s < S; s++)
                for (int64_t n = 0; n < N; n++) {
                    int64_t i[3] = {b, s, n};
                    i[dim] = 0;
                    want[(i[0] * kept[1] + i[1]) * kept[2] + i[2]] += at(x, (b * S + s) * N + n);
                }
        front_run run = front_run_begin();
        uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 3, size, x);
        spyre_arg dims = {.kind = SPYRE_ARG_INT, .of.integer = dim};
        spyre_arg args[] = {value_arg(a),
                            {.kind = SPYRE_ARG_LIST, .of.list = {&dims, 1}},
                            {.kind = SPYRE_ARG_BOOL, .of.boolean = true}};
        uint32_t r =
            front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F16, dense_view(3, kept));
        assert_ok(spyre_graph_add_output(run.graph, r));
        check(&run, 32, want, kept[0] * kept[1] * kept[2], 0.06);
        front_run_end(&run);
    }
    free(x);
}

static void front__layer_norm(void **state)
{
    (void)state;
    enum { B = 2, S = 5, N = 100 };
    int64_t size[] = {B, S, N}, row[] = {N};
    uint16_t *x = random_fp16(B * S * N, 8), *w = random_fp16(N, 9), *bias = random_fp16(N, 10);
    double want[B * S * N];
    for (int64_t r = 0; r < B * S; r++) {
        double mean = 0, square = 0;
        for (int64_t n = 0; n < N; n++) mean += at(x, r * N + n) / N;
        for (int64_t n = 0; n < N; n++) square += at(x, r * N + n) * at(x, r * N + n) / N;
        for (int64_t n = 0; n < N; n++)
            want[r * N + n] =
                (at(x, r * N + n) - mean) / sqrt(square - mean * mean + 1e-5) * at(w, n) +
                at(bias, n);
    }
    front_run run = front_run_begin();
    uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 3, size, x);
    uint32_t b = front_run_input(&run, SPYRE_DTYPE_F16, 1, row, w);
    uint32_t c = front_run_input(&run, SPYRE_DTYPE_F16, 1, row, bias);
    spyre_arg args[] = {
        value_arg(a), value_arg(b), value_arg(c), {.kind = SPYRE_ARG_FLOAT, .of.real = 1e-5}};
    uint32_t r =
        front_run_node(&run, "spyre.layer_norm", args, 4, SPYRE_DTYPE_F16, dense_view(3, size));
    assert_ok(spyre_graph_add_output(run.graph, r));
    check(&run, 32, want, B * S * N, 0.03);
    front_run_end(&run);
    free(x);
    free(w);
    free(bias);
}

static void front__gather_rows(void **state)
{
    (void)state;
    enum { ROWS = 50, N = 100, B = 2, S = 7 };
    int64_t table_size[] = {ROWS, N}, index_size[] = {B, S}, out_size[] = {B, S, N};
    uint16_t *table = random_fp16(ROWS * N, 11);
    int64_t index[B * S];
    double want[B * S * N];
    for (int64_t i = 0; i < B * S; i++) {
        index[i] = i * 17 % ROWS;
        for (int64_t n = 0; n < N; n++) want[i * N + n] = at(table, index[i] * N + n);
    }
    front_run run = front_run_begin();
    uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 2, table_size, table);
    uint32_t b = front_run_input(&run, SPYRE_DTYPE_I64, 2, index_size, index);
    spyre_arg args[] = {value_arg(a), value_arg(b)};
    uint32_t r =
        front_run_node(&run, "spyre.gather", args, 2, SPYRE_DTYPE_F16, dense_view(3, out_size));
    assert_ok(spyre_graph_add_output(run.graph, r));
    check(&run, 32, want, B * S * N, 0.005);
    front_run_end(&run);
    free(table);
}

static void front__cat_at_any_offset(void **state)
{
    (void)state;
    enum { R = 6 };
    static const int64_t widths[][2] = {{64, 64}, {32, 32}, {5, 100}, {100, 1}};
    for (uint32_t c = 0; c < 4; c++) {
        int64_t p = widths[c][0], q = widths[c][1], n = p + q;
        int64_t left[] = {R, p}, right[] = {R, q}, whole[] = {R, n};
        uint16_t *x = random_fp16(R * p, 12), *y = random_fp16(R * q, 13);
        double *want = calloc((size_t)(R * n), sizeof *want);
        for (int64_t r = 0; r < R; r++)
            for (int64_t i = 0; i < n; i++)
                want[r * n + i] = i < p ? at(x, r * p + i) : at(y, r * q + i - p);
        front_run run = front_run_begin();
        uint32_t a = front_run_input(&run, SPYRE_DTYPE_F16, 2, left, x);
        uint32_t b = front_run_input(&run, SPYRE_DTYPE_F16, 2, right, y);
        spyre_arg pieces[] = {value_arg(a), value_arg(b)};
        spyre_arg args[] = {{.kind = SPYRE_ARG_LIST, .of.list = {pieces, 2}},
                            {.kind = SPYRE_ARG_INT, .of.integer = 1}};
        uint32_t r =
            front_run_node(&run, "spyre.cat", args, 2, SPYRE_DTYPE_F16, dense_view(2, whole));
        assert_ok(spyre_graph_add_output(run.graph, r));
        check(&run, 32, want, R * n, 0.005);
        front_run_end(&run);
        free(x);
        free(y);
        free(want);
    }
}

static void front__bad_options(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    front_result result;
    uint32_t node;
    front_options options = {.settings = spyre_settings_default()};
    options.settings.sencores = 33;
    spyre_status status = front_compile(run.graph, &options, run.memory, &node, &result);
    assert_string_equal(spyre_status_message(status),
                        "invalid SENCORES value 33: expected a whole number 1..32");
    spyre_status_free(status);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(front__flatten_and_add),   cmocka_unit_test(front__matmul_shapes),
        cmocka_unit_test(front__heads_of_any_size), cmocka_unit_test(front__reductions),
        cmocka_unit_test(front__layer_norm),        cmocka_unit_test(front__gather_rows),
        cmocka_unit_test(front__cat_at_any_offset), cmocka_unit_test(front__bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
