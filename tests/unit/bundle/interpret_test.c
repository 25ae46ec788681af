// SPDX-License-Identifier: Apache-2.0
//
// What the interpreter computes, each with values for which another order, another rounding or a
// touched padding would show: products, rankings, gathers, loops, LX.
#include "unit/bundle/interpret_case.h"

#include <math.h>

// --- batchmatmul

static bundle *make_dot(arena *memory, int32_t k_slices)
{
    bundle *b = make_bundle(memory, 3, 0);
    bundle_step s = make_step(memory, OPFUNC_BATCHMATMUL,
                              DIMS({"mb", 1, 1}, {"out", 64, 1}, {"in", 128, k_slices}));
    place_tensor(b, &s, make_tensor(&s, "INPUT", DL16, "mb in", "in", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "KERNEL", DL16, "in out", "out", ""), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", FP32, "mb out", "out", ""), 2, 0);
    s.tensors[0].label[0] = 'A';
    finish_step(b, &s);
    return b;
}

static void interpret__matmul_adds_k_in_ascending_order(void **state)
{
    (void)state;
    for (int32_t slices = 1; slices <= 2; slices++) {
        machine m = start_machine();
        for (int64_t k = 0; k < 128; k++) {
            set(&m, 0, at(1, 0, k, DL16), DL16, k == 0 ? 4096.0 : 1.0);
            set(&m, 1, at(128, k, 0, DL16), DL16, k == 0 ? 4096.0 : 1.0);
        }
        assert_ok(bundle_interpret(make_dot(m.memory, slices), m.buffers, m.lx));
        // 2^24 swallows ones that come one by one, but not the 64 of the second core's sum.
        double expected = slices == 1 ? 16777216.0 : 16777280.0;
        assert_true(get(&m, 2, 0, FP32) == expected);
        assert_true(get(&m, 2, at(1, 0, 1, FP32), FP32) == 0.0);
        arena_destroy(m.memory);
    }
}

static void interpret__matmul_skips_masked_k(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_matmul(m.memory);
    for (int64_t k = 0; k < 128; k++) {
        for (int64_t row = 0; row < 3; row++) {
            set(&m, 0, at(3, row, k, DL16), DL16, k < 100 ? (double)row + 1.0 : (double)INFINITY);
        }
        if (k < 100) set(&m, 1, at(100, k, 5, DL16), DL16, 2.0);
    }
    m.buffers[1].size_bytes = 100 * 128;                // no room for the masked rows
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t row = 0; row < 3; row++) {
        assert_true(get(&m, 2, at(3, row, 5, DL16), DL16) == 200.0 * ((double)row + 1.0));
        assert_true(get(&m, 2, at(3, row, 6, DL16), DL16) == 0.0);
    }
    arena_destroy(m.memory);
}

// --- Rankings

static void interpret__topk_by_value_then_position(void **state)
{
    (void)state;
    machine m = start_machine();
    static const double rows[5] = {1.0, 3.0, -2.0, 3.0, 0.5};
    for (int64_t row = 0; row < 5; row++)
        set(&m, 0, row * SPYRE_STICK_BYTES + 14, DL16, rows[row]);   // lane 7 of the first column
    assert_ok(bundle_interpret(golden_topk(m.memory), m.buffers, m.lx));
    static const double values[3] = {3.0, 3.0, 1.0}, positions[3] = {1.0, 3.0, 0.0};
    for (int64_t rank = 0; rank < 3; rank++) {
        int64_t offset = rank * SPYRE_STICK_BYTES;
        assert_true(get(&m, 1, offset + 14, DL16) == values[rank]);
        assert_true(get(&m, 2, offset + 14, DL16) == positions[rank]);
        assert_true(get(&m, 2, offset, DL16) == (double)rank);       // all are equal
    }
    arena_destroy(m.memory);
}

// Along the stick, the last three of four integers are padding; one rank has no candidate.
static void interpret__topk_leaves_padding_out(void **state)
{
    (void)state;
    machine m = start_machine();
    spyre_format integer = SPYRE_FORMAT_IEEE_INT32;
    bundle *b = make_bundle(m.memory, 2, 0);
    bundle_step s = make_step(m.memory, OPFUNC_TOPKVALUE, DIMS({"x", 2, 1}, {"out", 32, 1}));
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", integer, "out", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "KERNEL", integer, "x out", "out", "out"), 1, 0);
    s.masks[s.mask_count++] = (bundle_mask){1, 1, 31};
    finish_step(b, &s);
    set(&m, 0, 0, integer, -16777217.0);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    assert_true(get(&m, 1, 0, integer) == -16777217.0);
    assert_true(get(&m, 1, SPYRE_STICK_BYTES, integer) == (double)INT32_MIN);
    arena_destroy(m.memory);
}

// --- Gather

static void fill_gather(machine *m)
{
    static const uint32_t rows[4] = {9, 0, 3, 3};
    memcpy(m->buffers[0].bytes, rows, sizeof rows);
    for (int64_t row = 0; row < 10; row++) {
        for (int64_t i = 0; i < 128; i++) {
            set(m, 1, at(10, row, i, DL16), DL16, (double)(row * 128 + i) / 8.0);
        }
    }
}

static void interpret__gather_copies_rows(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        machine m = start_machine();
        bundle *b = golden_gather(m.memory);
        fill_gather(&m);
        if (!known) b->steps.items[0].tensors[1].indexed_extent = 0;
        m.buffers[1].size_bytes = 2 * 10 * 128;         // two sticks a row, ten rows
        assert_ok(bundle_interpret(b, m.buffers, m.lx));
        assert_memory_equal(m.buffers[2].bytes + at(4, 0, 64, DL16),
                            m.buffers[1].bytes + at(10, 9, 64, DL16), 128);
        assert_memory_equal(m.buffers[2].bytes + at(4, 3, 0, DL16),
                            m.buffers[1].bytes + at(10, 3, 0, DL16), 128);
        arena_destroy(m.memory);
    }
}

static void interpret__gather_checks_the_index(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_gather(m.memory);
    fill_gather(&m);
    uint32_t wrong = 10;
    memcpy(m.buffers[0].bytes + 8, &wrong, 4);
    assert_error(bundle_interpret(b, m.buffers, m.lx), SPYRE_DEVICE_FAULT,
                 "step 0 0_identity: Tensor0, core 0: index 10 is outside of dim mb of Tensor1 "
                 "(extent 10)");
    b->steps.items[0].tensors[0].format = SPYRE_FORMAT_IEEE_INT32;
    wrong = UINT32_MAX;
    memcpy(m.buffers[0].bytes + 8, &wrong, 4);
    assert_error(bundle_interpret(b, m.buffers, m.lx), SPYRE_DEVICE_FAULT, "index -1 is outside");
    arena_destroy(m.memory);
}

// --- Loops, LX and bounds

static void interpret__loops_advance_addresses(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t i = 0; i < 3 * 512 / 2; i++) set(&m, 0, 2 * i, DL16, (double)i);
    assert_ok(bundle_interpret(golden_loops(m.memory), m.buffers, m.lx));
    for (int64_t i = 0; i < 3 * 512 / 2; i++) assert_true(get(&m, 1, 2 * i, DL16) == (double)-i);
    for (int64_t i = 0; i < 128; i++) assert_true(get(&m, 1, 2048 + 2 * i, DL16) == (double)i);
    assert_true(get(&m, 1, 3 * 512, DL16) == 0.0);
    arena_destroy(m.memory);
}

static void interpret__uneven_slices(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t i = 0; i < 5 * 320; i++) set(&m, 0, 2 * i, DL16, (double)(i % 1000));
    assert_ok(bundle_interpret(golden_uneven(m.memory), m.buffers, m.lx));
    for (int64_t i = 0; i < 5 * 320; i++) {
        assert_true(get(&m, 1, 2 * i, DL16) == (double)(i % 1000));
        assert_true(get(&m, 1, 4096 + 2 * i, DL16) == (double)-(i % 1000));
    }
    assert_true(get(&m, 1, 2 * 5 * 320, DL16) == 0.0);
    arena_destroy(m.memory);
}

static void interpret__lx_lives_on(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_casts(m.memory);
    set(&m, 0, 0, DL16, 7.5);
    bundle_statement second = b->body.items[1];
    b->body.count = 1;
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    b->body.items[0] = second;
    memset(m.buffers[0].bytes, 0, 256);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    assert_true(get(&m, 1, 0, DL16) == 7.5);
    arena_destroy(m.memory);
}

static void interpret__faults_name_the_access(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_add_scalar(m.memory);
    m.buffers[2].size_bytes = 1024 - 128;
    assert_error(bundle_interpret(b, m.buffers, m.lx), SPYRE_DEVICE_FAULT,
                 "step 0 0_add: Tensor2, core 1, index [mb 1, out 64]: byte 896 is outside of "
                 "launch argument 2 (896 bytes)");
    m.buffers[2].size_bytes = 0;
    assert_error(bundle_interpret(b, m.buffers, m.lx), SPYRE_DEVICE_FAULT, "byte 0 is outside");
    b->steps.items[0].dim_count = 0;
    assert_error(bundle_interpret(b, m.buffers, m.lx), SPYRE_INVALID_ARGUMENT, "N_: 0 dims");
    arena_destroy(m.memory);
}

// --- shuffle

// Element (row, column) is 100 row + column; row r was core 3 - r's.
static void interpret__shuffle_gives_slices_to_their_new_cores(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t row = 0; row < 4; row++)
        for (int64_t column = 0; column < 128; column++)
            element_store(m.lx + (3 - row) * BUNDLE_LX_BYTES + at(1, 0, column, DL16), DL16,
                          (double)(100 * row + column));
    assert_ok(bundle_interpret(golden_shuffle(m.memory), m.buffers, m.lx));
    for (int64_t core = 0; core < 4; core++)
        for (int64_t row = 0; row < 4; row++)
            for (int64_t column = 0; column < 64; column++) {
                const uint8_t *got =
                    m.lx + core * BUNDLE_LX_BYTES + 1024 + at(4, row, column, DL16);
                double expected = (double)(100 * row + core % 2 * 64 + column);
                assert_true(element_load(got, DL16) == expected);
            }
    arena_destroy(m.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpret__matmul_adds_k_in_ascending_order),
        cmocka_unit_test(interpret__matmul_skips_masked_k),
        cmocka_unit_test(interpret__topk_by_value_then_position),
        cmocka_unit_test(interpret__topk_leaves_padding_out),
        cmocka_unit_test(interpret__gather_copies_rows),
        cmocka_unit_test(interpret__gather_checks_the_index),
        cmocka_unit_test(interpret__loops_advance_addresses),
        cmocka_unit_test(interpret__uneven_slices),
        cmocka_unit_test(interpret__lx_lives_on),
        cmocka_unit_test(interpret__faults_name_the_access),
        cmocka_unit_test(interpret__shuffle_gives_slices_to_their_new_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
