// SPDX-License-Identifier: Apache-2.0
//
// The numeric rules of reductions, each with values for which another order, another rounding or a
// touched padding would show.
#include "unit/bundle/interpret_case.h"

#include <math.h>

static bundle *make_reduction(arena *memory, opfunc op, int64_t columns, int32_t slices,
                              spyre_format format)
{
    bundle *b = make_bundle(memory, 2, 0);
    bundle_step s = make_step(memory, op, DIMS({"mb", 2, 1}, {"out", columns, slices}));
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", format, "mb out", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", format, "mb out", "out", "out"), 1, 0);
    if (op == OPFUNC_MEAN) add_constant(&s, "scaling_factor", 0.7f);
    if (op == OPFUNC_EXX2) add_constant(&s, "exx2scale", 0.5f);
    if (op == OPFUNC_EXX2) add_constant(&s, "useZeroMean", 0.0f);
    finish_step(b, &s);
    return b;
}

// 32 lanes of fp32, tiles ascending within a lane, then 16 + 16, 8 + 8, ..
static float lane_tree(const float *x, int64_t count)
{
    float lane[32] = {0.0f};
    for (int64_t i = 0; i < count; i++) lane[i % 32] += x[i];
    for (int width = 16; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    }
    return lane[0];
}

static void interpret_reduction__sum_keeps_lanes_and_folds_them_by_a_tree(void **state)
{
    (void)state;
    machine m = start_machine();
    uint64_t random = 7;
    float x[256], sequential = 0.0f;
    for (int64_t i = 0; i < 256; i++) {
        x[i] = random_float(&random);
        sequential += x[i];
        set(&m, 0, at(2, 1, i, FP32), FP32, (double)x[i]);
    }
    bundle *b = make_reduction(m.memory, OPFUNC_SUM, 256, 1, FP32);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    float expected = lane_tree(x, 256);
    assert_true(expected != sequential);
    assert_true(get(&m, 1, at(2, 1, 0, FP32), FP32) == (double)expected);
    assert_true(get(&m, 1, at(2, 0, 0, FP32), FP32) == 0.0);
    arena_destroy(m.memory);
}

static void interpret_reduction__mean_combines_cores_before_it_scales(void **state)
{
    (void)state;
    machine m = start_machine();
    uint64_t random = 11;
    float x[256], partial[4];
    for (int64_t i = 0; i < 256; i++) {
        x[i] = random_float(&random);
        set(&m, 0, at(2, 0, i, FP32), FP32, (double)x[i]);
    }
    for (int64_t core = 0; core < 4; core++) partial[core] = lane_tree(x + core * 64, 64);
    float sum = ((partial[0] + partial[1]) + partial[2]) + partial[3];
    bundle *b = make_reduction(m.memory, OPFUNC_MEAN, 256, 4, FP32);
    // The numbers of the cores say nothing about the order; their slices do.
    bundle_step *step = &b->steps.items[0];
    for (uint32_t core = 0; core < 4; core++)
        step->cores->core_slice[core][1] = (uint8_t)(3 - core);
    for (uint32_t core = 0; core < 2; core++) {
        bundle_tensor *in = &step->tensors[0];
        int64_t one = bundle_start(in, core), other = bundle_start(in, 3 - core);
        put_start(b, step, in, core, other);
        put_start(b, step, in, 3 - core, one);
    }
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    assert_true(get(&m, 1, 0, FP32) == (double)(sum * 0.7f));
    arena_destroy(m.memory);
}

static void interpret_reduction__reduction_off_the_stick_has_one_accumulator(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_mean_rows(m.memory);
    // Rows in "out mb" order with sticks along mb: (out, mb) are rows and columns of at().
    for (int64_t i = 0; i < 8; i++) {
        for (int64_t j = 0; j < 64; j++) set(&m, 0, at(8, i, j, DL16), DL16, (double)(i * j));
    }
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t j = 0; j < 64; j++) {
        assert_true(get(&m, 1, at(8, 0, j, DL16), DL16) == 28.0 * (double)j * 0.125);
    }
    arena_destroy(m.memory);
}

static void interpret_reduction__exx2_stores_two_moments(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t i = 0; i < 128; i++) set(&m, 0, at(2, 1, i, DL16), DL16, i % 2 ? 3.0 : -1.0);
    bundle *b = make_reduction(m.memory, OPFUNC_EXX2, 128, 2, DL16);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    assert_true(get(&m, 1, at(2, 1, 0, DL16), DL16) == 64.0);           // 128 * 0.5
    assert_true(get(&m, 1, at(2, 1, 1, DL16), DL16) == 320.0);          // 640 * 0.5
    assert_true(get(&m, 1, at(2, 1, 2, DL16), DL16) == 0.0);
    arena_destroy(m.memory);
}

static void interpret_reduction__max_lets_nan_win(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t i = 0; i < 64; i++) {
        set(&m, 0, at(2, 0, i, FP32), FP32, -(double)i - 5.0);
        set(&m, 0, at(2, 1, i, FP32), FP32, i == 9 ? (double)NAN : (double)i);
    }
    assert_ok(bundle_interpret(make_reduction(m.memory, OPFUNC_MAX, 64, 1, FP32), m.buffers, m.lx));
    assert_true(get(&m, 1, at(2, 0, 0, FP32), FP32) == -5.0);
    assert_true(isnan(get(&m, 1, at(2, 1, 0, FP32), FP32)));
    arena_destroy(m.memory);
}

// Masked lanes count as the constant; LX keeps the maximum for the next step.
static void interpret_reduction__softmax_of_padded_rows(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t row = 0; row < 4; row++) {
        for (int64_t i = 0; i < 128; i++) {
            double x = i < 100 ? -20.0 - (double)((i + row) % 7) : 1000.0;
            set(&m, 0, at(4, row, i, DL16), DL16, x);
        }
    }
    assert_ok(bundle_interpret(golden_softmax(m.memory), m.buffers, m.lx));
    double sum = 0.0;
    for (int64_t i = 0; i < 100; i++) sum += get(&m, 1, at(4, 2, i, DL16), DL16);
    assert_true(fabs(sum - 1.0) < 0.005);
    arena_destroy(m.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpret_reduction__sum_keeps_lanes_and_folds_them_by_a_tree),
        cmocka_unit_test(interpret_reduction__mean_combines_cores_before_it_scales),
        cmocka_unit_test(interpret_reduction__reduction_off_the_stick_has_one_accumulator),
        cmocka_unit_test(interpret_reduction__exx2_stores_two_moments),
        cmocka_unit_test(interpret_reduction__max_lets_nan_win),
        cmocka_unit_test(interpret_reduction__softmax_of_padded_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
