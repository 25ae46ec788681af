// SPDX-License-Identifier: Apache-2.0
//
// The numeric rules, each with values for which another order, another rounding or a touched
// padding would show.
#include "unit/bundle/golden.h"

#include <math.h>

enum { MOST_BYTES = 1 << 16 };

typedef struct {
    arena *memory;
    uint8_t *lx;
    bundle_buffer buffers[8];
} machine;

static machine start_machine(void)
{
    machine m = {.memory = arena_create()};
    m.lx = arena_alloc(m.memory, (size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    assert_non_null(m.lx);
    for (uint32_t i = 0; i < 8; i++) {
        m.buffers[i] = (bundle_buffer){arena_alloc(m.memory, MOST_BYTES), MOST_BYTES};
        assert_non_null(m.buffers[i].bytes);
    }
    return m;
}

// Byte offset of (row, column) in a tensor of order "rows columns" with sticks along columns.
static int64_t at(int64_t rows, int64_t row, int64_t column, spyre_format format)
{
    int64_t lanes = spyre_format_elements_per_stick(format);
    return (column / lanes * rows + row) * SPYRE_STICK_BYTES +
           column % lanes * spyre_format_bytes(format);
}

static void set(machine *m, uint32_t buffer, int64_t offset, spyre_format format, double value)
{
    element_store(m->buffers[buffer].bytes + offset, format, value);
}

static double get(const machine *m, uint32_t buffer, int64_t offset, spyre_format format)
{
    return element_load(m->buffers[buffer].bytes + offset, format);
}

static float random_float(uint64_t *state)
{
    return (float)(int64_t)(check_random(state) >> 40) / 65536.0f - 128.0f;
}

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

// --- Reductions

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

static void interpret__sum_keeps_lanes_and_folds_them_by_a_tree(void **state)
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

static void interpret__mean_combines_cores_before_it_scales(void **state)
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
    for (uint32_t core = 0; core < 4; core++) step->core_slice[core][1] = (uint8_t)(3 - core);
    for (uint32_t core = 0; core < 2; core++) {
        int64_t swapped = step->tensors[0].start[core];
        step->tensors[0].start[core] = step->tensors[0].start[3 - core];
        step->tensors[0].start[3 - core] = swapped;
    }
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    assert_true(get(&m, 1, 0, FP32) == (double)(sum * 0.7f));
    arena_destroy(m.memory);
}

static void interpret__reduction_off_the_stick_has_one_accumulator(void **state)
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

static void interpret__exx2_stores_two_moments(void **state)
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

static void interpret__max_lets_nan_win(void **state)
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
static void interpret__softmax_of_padded_rows(void **state)
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

// --- Element by element

static void interpret__pointwise_broadcasts_lane_0(void **state)
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

static void interpret__integers_wrap(void **state)
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

static void interpret__identity_converts_or_copies_bits(void **state)
{
    (void)state;
    machine m = start_machine();
    const double values[] = {2.9, -2.9, 1e12, -1e12, (double)NAN};
    const int32_t integers[] = {2, -2, INT32_MAX, INT32_MIN, 0};
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

static void interpret__casts_through_lx(void **state)
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

static void interpret__restickify_leaves_padding_alone(void **state)
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

// --- layernorm

static void interpret__layernorm_by_moments(void **state)
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

static void interpret__layernormscale_in_place(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = golden_layernorm(m.memory);
    bundle_step *step = &b->steps.items[1];
    for (uint32_t core = 0; core < 2; core++) {
        step->tensors[1].start[core] = step->tensors[0].start[core];
    }
    b->body.items[0] = b->body.items[1];
    b->body.count = 1;
    set(&m, 0, 0, DL16, 3.0);
    set(&m, 0, 2, DL16, 13.0);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t lane = 0; lane < 64; lane++) assert_true(get(&m, 0, 2 * lane, DL16) == 0.5);
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
        cmocka_unit_test(interpret__shuffle_gives_slices_to_their_new_cores),
        cmocka_unit_test(interpret__matmul_adds_k_in_ascending_order),
        cmocka_unit_test(interpret__matmul_skips_masked_k),
        cmocka_unit_test(interpret__topk_by_value_then_position),
        cmocka_unit_test(interpret__topk_leaves_padding_out),
        cmocka_unit_test(interpret__sum_keeps_lanes_and_folds_them_by_a_tree),
        cmocka_unit_test(interpret__mean_combines_cores_before_it_scales),
        cmocka_unit_test(interpret__reduction_off_the_stick_has_one_accumulator),
        cmocka_unit_test(interpret__exx2_stores_two_moments),
        cmocka_unit_test(interpret__max_lets_nan_win),
        cmocka_unit_test(interpret__softmax_of_padded_rows),
        cmocka_unit_test(interpret__pointwise_broadcasts_lane_0),
        cmocka_unit_test(interpret__integers_wrap),
        cmocka_unit_test(interpret__identity_converts_or_copies_bits),
        cmocka_unit_test(interpret__casts_through_lx),
        cmocka_unit_test(interpret__restickify_leaves_padding_alone),
        cmocka_unit_test(interpret__layernorm_by_moments),
        cmocka_unit_test(interpret__layernormscale_in_place),
        cmocka_unit_test(interpret__gather_copies_rows),
        cmocka_unit_test(interpret__gather_checks_the_index),
        cmocka_unit_test(interpret__loops_advance_addresses),
        cmocka_unit_test(interpret__uneven_slices),
        cmocka_unit_test(interpret__lx_lives_on),
        cmocka_unit_test(interpret__faults_name_the_access),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
