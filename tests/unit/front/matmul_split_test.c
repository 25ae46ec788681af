// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/divide/matmul_split.h"
#include "support/front_case.h"

// By hand, in us: compute at 1.536e6 MAC/us and core, memory at 204800 bytes/us.
static void matmul_split__cost_of_five_splits(void **state)
{
    (void)state;
    static const struct {
        matmul_shape size, slices;
        double compute, hbm, psum, tie, batch;
    } cases[] = {
        // 2^33 / 32 MACs; 3 * 2^23 bytes; 32 passes a core.
        {{1, 2048, 2048, 2048}, {1, 8, 4, 1}, 268435456 / 1.536e6, 25165824 / 204800.0, 0, 0, 1},
        // 1 pass: fill sqrt(1/8), tie 50 * log2(8); 16 cores share A: twice 2129920 bytes;
        // one hop of 8 * 1024 sums.
        {{1, 8, 1024, 1024}, {1, 1, 16, 2}, 262144 / (1.536e6 * 0.35355339059327379),
         2 * 2129920 / 204800.0, 8192 * 1.4e-4, 150, 1},
        // 2 passes: fill 1/2, tie 50 * log2(4); 32 cores share B: 4 times 1572864 bytes.
        {{1, 512, 512, 512}, {1, 32, 1, 1}, 4194304 / (1.536e6 / 2), 4 * 1572864 / 204800.0, 0, 100,
         1},
        // 8 passes; 4 slices of the batch: 4^1.4.
        {{12, 128, 128, 64}, {4, 2, 2, 1}, 786432 / 1.536e6, 786432 / 204800.0, 0, 0,
         6.9644045063689921},
        // 8 passes, 16 cores share B: twice 36175872 bytes; 2^1.4.
        {{4, 1024, 4096, 64}, {2, 16, 1, 1}, 33554432 / 1.536e6, 2 * 36175872 / 204800.0, 0, 0,
         2.6390158215457884},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double want = (cases[i].compute + cases[i].hbm + cases[i].psum + cases[i].tie) *
                      cases[i].batch;
        double got = matmul_published_us(&cases[i].size, &cases[i].slices);
        assert_true(got > want * (1 - 1e-9) && got < want * (1 + 1e-9));
    }
}

static loop_graph *product(front_run *run, spyre_view a, spyre_view b, spyre_view out,
                           uint32_t cores)
{
    uint32_t x = front_case_input(run, a), y = front_case_input(run, b);
    front_case_output(run, front_case_binary(run, "spyre.batchmatmul", x, y, out));
    return front_case_before(run, cores, "matmul_split");
}

// A shared weight has two loops that only the left operand has: the planner declines.
static void matmul_split__declines_shared_weights(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = product(&run, sizes_view(3, 4, 128, 256), sizes_view(2, 256, 512, 0),
                                sizes_view(3, 4, 128, 512), 32);
    bool changed = true;
    loops->settings.work_division = 1;
    assert_ok(pass_matmul_split(loops, &changed));
    assert_false(changed);
    assert_int_equal(loops->ops.items[0].divided_by, LOOP_UNDIVIDED);
    front_run_end(&run);
}

typedef struct {
    int32_t row, column, sum;
} splits;

static splits priced(int64_t m, int64_t k, int64_t n, uint32_t published)
{
    front_run run = front_run_begin();
    loop_graph *loops = product(&run, sizes_view(2, m, k, 0), sizes_view(2, k, n, 0),
                                sizes_view(2, m, n, 0), 32);
    splits found = {0, 0, 0};
    bool changed;
    loops->settings.work_division = published;
    assert_ok(pass_matmul_split(loops, &changed));
    const loop_op *op = &loops->ops.items[0];
    assert_int_equal(op->divided_by, LOOP_DIVIDED_BY_MATMUL_COST);
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool reduced = loop_var_is_reduced(op, v);
        *(reduced ? &found.sum : v == op->stick ? &found.column : &found.row) = op->split[v];
    }
    assert_ok(loop_verify(loops));
    front_run_end(&run);
    return found;
}

// The published small case: 8 cores share a broadcast for free, so 4 x 8 rather than 2 x 16.
static void matmul_split__small_products_are_priced(void **state)
{
    (void)state;
    splits found = priced(8, 1024, 1024, 1);
    assert_int_equal(found.row, 4);
    assert_int_equal(found.column, 8);
    assert_int_equal(found.sum, 1);
}

static void matmul_split__sums_are_cut_when_asked_for(void **state)
{
    (void)state;
    splits published = priced(8, 8192, 64, 1), standard = priced(8, 8192, 64, 0);
    assert_int_equal(published.row, 8);
    assert_int_equal(published.sum, 4);
    assert_int_equal(standard.row, 8);
    assert_int_equal(standard.sum, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_split__cost_of_five_splits),
        cmocka_unit_test(matmul_split__declines_shared_weights),
        cmocka_unit_test(matmul_split__small_products_are_priced),
        cmocka_unit_test(matmul_split__sums_are_cut_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
