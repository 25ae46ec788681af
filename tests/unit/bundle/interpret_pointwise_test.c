// SPDX-License-Identifier: Apache-2.0
//
// The numeric rules of what is done element by element, each with values for which another order,
// another rounding or a touched padding would show.
#include "unit/bundle/interpret_case.h"

#include <math.h>

static void interpret_pointwise__pointwise_broadcasts_lane_0(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t row = 0; row < 4; row++) {
        for (int64_t i = 0; i < 128; i++) set(&m, 0, at(4, row, i, DL16), DL16, (double)(row + i));
    }
    set(&m, 1, 0, DL16, 0.5);
    set(&m, 1, 2, DL16, 9.0);                           // lane 1 is not read
    assert_ok(bundle_interpret(golden_add_scalar(m.memory), m.buffers, m.lx));
    assert_true(get(&m, 2, at(4, 3, 100, DL16), DL16) == 103.5);
    assert_true(get(&m, 2, at(4, 0, 0, DL16), DL16) == 0.5);
    arena_destroy(m.memory);
}

static void interpret_pointwise__integers_wrap(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_integers(m.memory);
    for (uint32_t i = 0; i < 3; i++) m.buffers[i].size_bytes = 256;
    int32_t a[3] = {70000, -3, INT32_MIN}, c[3] = {70000, 5, -1};
    for (int64_t i = 0; i < 3; i++) {
        memcpy(m.buffers[0].bytes + 4 * i, &a[i], 4);
        memcpy(m.buffers[1].bytes + 4 * i, &c[i], 4);
    }
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    int32_t products[3];
    memcpy(products, m.buffers[2].bytes, sizeof products);
    assert_int_equal(products[0], (int32_t)(uint32_t)4900000000u);
    assert_int_equal(products[1], -15);
    assert_int_equal(products[2], INT32_MIN);
    static const opfunc ops[] = {OPFUNC_ADD, OPFUNC_SUB, OPFUNC_GREATERTHAN, OPFUNC_MAXIMUM};
    const int32_t expected[] = {INT32_MAX, INT32_MIN + 1, 0, -1};
    for (uint32_t i = 0; i < 4; i++) {
        b->steps.items[0].op = ops[i];
        assert_ok(bundle_interpret(b, m.buffers, m.lx));
        memcpy(products, m.buffers[2].bytes, sizeof products);
        assert_int_equal(products[2], expected[i]);
    }
    arena_destroy(m.memory);
}

static void convert(machine *m, spyre_format from, spyre_format to)
{
    bundle *b = make_bundle(m->memory, 2, 0);
    bundle_step s = make_step(m->memory, OPFUNC_IDENTITY, DIMS({"mb", 1, 1}, {"out", 32, 1}));
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", from, "mb out", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "KERNEL", to, "mb out", "out", ""), 1, 0);
    finish_step(b, &s);
    assert_ok(bundle_interpret(b, m->buffers, m->lx));
}

static void interpret_pointwise__identity_converts_or_copies_bits(void **state)
{
    (void)state;
    machine m = start_machine();
    const double values[] = {2.9, -2.9, 1e12, -1e12, (double)NAN};
    const int32_t integers[] = {2, -2, INT32_MAX, INT32_MIN, INT32_MIN};
    for (int64_t i = 0; i < 5; i++) set(&m, 0, 4 * i, FP32, values[i]);
    convert(&m, FP32, SPYRE_FORMAT_IEEE_INT32);
    for (int64_t i = 0; i < 5; i++) {
        assert_true(get(&m, 1, 4 * i, SPYRE_FORMAT_IEEE_INT32) == (double)integers[i]);
    }
    uint32_t pattern = 0xFFC12345u, copy;               // a NaN with a payload
    memcpy(m.buffers[0].bytes, &pattern, 4);
    convert(&m, FP32, FP32);
    memcpy(&copy, m.buffers[1].bytes, 4);
    assert_int_equal(copy, pattern);
    convert(&m, SPYRE_FORMAT_IEEE_INT32, SPYRE_FORMAT_SENUINT32);
    memcpy(&copy, m.buffers[1].bytes, 4);
    assert_int_equal(copy, pattern);
    convert(&m, SPYRE_FORMAT_IEEE_INT32, DL16);
    assert_true(get(&m, 1, 0, DL16) == -4120576.0);     // -4119739 rounded to 10 bits
    arena_destroy(m.memory);
}

static void interpret_pointwise__casts_through_lx(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t i = 0; i < 128; i++) {
        uint16_t code = (uint16_t)(i * 509);
        memcpy(m.buffers[0].bytes + 2 * i, &code, 2);
    }
    assert_ok(bundle_interpret(golden_casts(m.memory), m.buffers, m.lx));
    assert_memory_equal(m.buffers[0].bytes, m.buffers[1].bytes, 256);
    float second;
    memcpy(&second, m.lx + 128 + 4, 4);
    assert_true((double)second == get(&m, 0, 2, DL16));
    arena_destroy(m.memory);
}

static void interpret_pointwise__restickify_leaves_padding_alone(void **state)
{
    (void)state;
    machine m = start_machine();
    // Source "out mb" with 67 rows of 128 sticks lanes along mb; target "mb out" with 100 rows.
    memset(m.buffers[1].bytes, 0xAA, MOST_BYTES);
    for (int64_t out = 0; out < 67; out++) {
        for (int64_t mb = 0; mb < 100; mb++) {
            set(&m, 0, at(67, out, mb, DL16), DL16, (double)(out * 128 + mb));
        }
    }
    m.buffers[0].size_bytes = 2 * 67 * 128;
    m.buffers[1].size_bytes = 2 * 100 * 128;
    assert_ok(bundle_interpret(golden_restickify(m.memory), m.buffers, m.lx));
    uint8_t expected[2];
    for (int64_t mb = 0; mb < 100; mb++) {
        for (int64_t out = 0; out < 128; out++) {
            memset(expected, 0xAA, 2);
            if (out < 67) element_store(expected, DL16, (double)(out * 128 + mb));
            assert_memory_equal(m.buffers[1].bytes + at(100, mb, out, DL16), expected, 2);
        }
    }
    arena_destroy(m.memory);
}

static void interpret_pointwise__layernorm_by_moments(void **state)
{
    (void)state;
    machine m = start_machine();
    for (int64_t row = 0; row < 4; row++) {
        for (int64_t i = 0; i < 128; i++) set(&m, 1, at(4, row, i, DL16), DL16, i % 2 ? 3.0 : 1.0);
    }
    for (int64_t i = 0; i < 128; i++) {
        set(&m, 2, at(1, 0, i, DL16), DL16, 2.0);
        set(&m, 3, at(1, 0, i, DL16), DL16, 10.0);
    }
    assert_ok(bundle_interpret(golden_layernorm(m.memory), m.buffers, m.lx));
    assert_true(get(&m, 0, at(4, 3, 0, DL16), DL16) == 2.0);            // mean
    assert_true(get(&m, 0, at(4, 3, 1, DL16), DL16) == 5.0);            // mean square
    for (int64_t lane = 0; lane < 64; lane++) {
        assert_true(get(&m, 0, 512 + at(4, 3, lane, DL16), DL16) == 1.0);
    }
    assert_true(get(&m, 4, at(4, 3, 5, DL16), DL16) == 12.0);
    assert_true(get(&m, 4, at(4, 3, 6, DL16), DL16) == 8.0);
    arena_destroy(m.memory);
}

static void interpret_pointwise__layernormscale_in_place(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_layernorm(m.memory);
    bundle_step *step = &b->steps.items[1];
    step->tensors[1].start = step->tensors[0].start;
    step->tensors[1].core_offset = step->tensors[0].core_offset;
    b->body.items[0] = b->body.items[1];
    b->body.count = 1;
    set(&m, 0, 0, DL16, 3.0);
    set(&m, 0, 2, DL16, 13.0);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t lane = 0; lane < 64; lane++) assert_true(get(&m, 0, 2 * lane, DL16) == 0.5);
    arena_destroy(m.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpret_pointwise__pointwise_broadcasts_lane_0),
        cmocka_unit_test(interpret_pointwise__integers_wrap),
        cmocka_unit_test(interpret_pointwise__identity_converts_or_copies_bits),
        cmocka_unit_test(interpret_pointwise__casts_through_lx),
        cmocka_unit_test(interpret_pointwise__restickify_leaves_padding_alone),
        cmocka_unit_test(interpret_pointwise__layernorm_by_moments),
        cmocka_unit_test(interpret_pointwise__layernormscale_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
