// SPDX-License-Identifier: Apache-2.0
//
// Windows, integers and sticks of several dims in the reference interpreter, against loops in
// double and in int64 that find elements by formulas of their own.
#include "unit/bundle/interpret_case.h"

#include <math.h>

enum { I = 5, J = 6, C = 64, KI = 3, KJ = 2, OI = 3, OJ = 4, N = 64 };
static const int64_t STRIDE = 2, FRONT = 1, DILATION = 2;

static int64_t image_at(int64_t i, int64_t j, int64_t c)
{
    return (i * J + j) * 128 + c * 2;
}

static int64_t result_at(int64_t i, int64_t j, int64_t c)
{
    return (i * OJ + j) * 128 + c * 2;
}

static bundle_step windowed(arena *memory, opfunc op, bool contracts)
{
    bundle_step s =
        contracts ? make_step(memory, op, DIMS({"i", OI, 1}, {"j", OJ, 2}, {"out", N, 1},
                                               {"ki", KI, 1}, {"kj", KJ, 1}, {"in", C, 1}))
                  : make_step(memory, op, DIMS({"i", OI, 1}, {"j", OJ, 2}, {"out", N, 1},
                                               {"ki", KI, 1}, {"kj", KJ, 1}));
    make_window(&s, "i", "ki", STRIDE, 1, FRONT, I);
    make_window(&s, "j", "kj", 1, DILATION, 0, J);
    return s;
}

static void fill(machine *m, uint32_t buffer, int64_t elements, uint64_t *seed)
{
    for (int64_t n = 0; n < elements; n++)
        set(m, buffer, n * 2, DL16, (double)random_float(seed) / 64.0);
}

// Calls `visit` for what is inside of the windows of result (i, j).
typedef void visitor(void *context, int64_t image, int64_t ki, int64_t kj);
static void each_inside(int64_t i, int64_t j, int64_t c, visitor *visit, void *context)
{
    for (int64_t ki = 0; ki < KI; ki++)
        for (int64_t kj = 0; kj < KJ; kj++) {
            int64_t row = i * STRIDE + ki - FRONT, column = j + kj * DILATION;
            if (row >= 0 && row < I && column < J) visit(context, image_at(row, column, c), ki, kj);
        }
}

typedef struct {
    const machine *m;
    int64_t channel, column;
    double sum, sizes, largest, products;
    int count;
} totals;

static void add_up(void *context, int64_t image, int64_t ki, int64_t kj)
{
    totals *t = context;
    double x = get(t->m, 0, image, DL16);
    t->sum += x;
    t->count++;
    if (x > t->largest) t->largest = x;
    double w = get(t->m, 1, (ki * KJ + kj) * 128 + t->channel * 2, DL16);
    t->products += x * w;
    t->sizes += fabs(x) + fabs(x * w);
}

static void assert_near(double got, double wanted, double sizes)
{
    if (fabs(got - wanted) > fabs(wanted) * 0x1p-10 + sizes * 0x1p-22)
        fail_msg("%g, expected %g", got, wanted);
}

static void pool(opfunc op)
{
    machine m = start_machine();
    bundle *b = make_bundle(m.memory, 4, MOST_BYTES);
    bundle_step s = windowed(m.memory, op, false);
    uint64_t seed = 5;
    bool two = opfunc_describe(op)->most_inputs == 2;
    if (op == OPFUNC_AVGPOOLFWD) add_constant(&s, "nmap", 0.125f);
    place_tensor(b, &s, make_tensor(&s, "A", DL16, "j i out", "out", ""), 0, 0);
    if (op == OPFUNC_DEPTHWISECONV2D)
        place_tensor(b, &s, make_tensor(&s, "B", DL16, "kj ki out", "out", ""), 1, 0);
    if (op == OPFUNC_AVGPOOLNMAPFWD)
        place_tensor(b, &s, make_tensor(&s, "B", DL16, "j i out", "out", "out"), 2, 0);
    place_tensor(b, &s, make_tensor(&s, "C", DL16, "j i out", "out", ""), 3, 0);
    finish_step(b, &s);
    assert_int_equal(s.input_count, two ? 2 : 1);
    fill(&m, 0, I * J * 64, &seed);
    fill(&m, 1, KI * KJ * 64, &seed);
    for (int64_t n = 0; n < OI * OJ; n++) set(&m, 2, n * 128, DL16, 1.0 / (double)(n + 1));
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t i = 0; i < OI; i++)
        for (int64_t j = 0; j < OJ; j++)
            for (int64_t c = 0; c < N; c++) {
                totals t = {.m = &m, .channel = c, .largest = -1e9};
                each_inside(i, j, c, add_up, &t);
                double own = get(&m, 2, (i * OJ + j) * 128, DL16), wanted = t.products;
                if (op == OPFUNC_AVGPOOLFWD) wanted = t.sum * 0.125;
                if (op == OPFUNC_AVGPOOLNMAPFWD) wanted = t.sum * own;
                if (op == OPFUNC_MAXPOOLFWD) wanted = t.largest;
                assert_true(t.count > 0);
                assert_near(get(&m, 3, result_at(i, j, c), DL16), wanted, t.sizes);
            }
    arena_destroy(m.memory);
}

static void interpret_window__pools(void **state)
{
    (void)state;
    pool(OPFUNC_AVGPOOLFWD);
    pool(OPFUNC_AVGPOOLNMAPFWD);
    pool(OPFUNC_MAXPOOLFWD);
    pool(OPFUNC_DEPTHWISECONV2D);
}

typedef struct {
    const machine *m;
    int64_t column;
    double sum, sizes;
} channels;

static void multiply(void *context, int64_t image, int64_t ki, int64_t kj)
{
    channels *t = context;
    for (int64_t c = 0; c < C; c++) {
        double x = get(t->m, 0, image + c * 2, DL16);
        double w = get(t->m, 1, ((c * KI + ki) * KJ + kj) * 128 + t->column * 2, DL16);
        t->sum += x * w;
        t->sizes += fabs(x * w);
    }
}

static void interpret_window__convolution(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = make_bundle(m.memory, 3, MOST_BYTES);
    bundle_step s = windowed(m.memory, OPFUNC_CONV2D, true);
    uint64_t seed = 9;
    place_tensor(b, &s, make_tensor(&s, "A", DL16, "j i in", "in", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "B", DL16, "kj ki in out", "out", ""), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "C", DL16, "j i out", "out", ""), 2, 0);
    finish_step(b, &s);
    fill(&m, 0, I * J * 64, &seed);
    fill(&m, 1, C * KI * KJ * 64, &seed);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t i = 0; i < OI; i++)
        for (int64_t j = 0; j < OJ; j++)
            for (int64_t n = 0; n < N; n++) {
                channels t = {.m = &m, .column = n};
                each_inside(i, j, 0, multiply, &t);
                assert_near(get(&m, 2, result_at(i, j, n), DL16), t.sum, t.sizes);
            }
    arena_destroy(m.memory);
}

// --- Integers

enum { ROWS = 4, DEPTH = 256, COLUMNS = 128 };

// Where element (r, k) of the first factor and (k, n) of the second are: byte, half of it or -1.
typedef struct {
    int64_t byte;
    int half;
} position;

static position in_half_bytes(int64_t stick, int64_t lane)
{
    return (position){stick * 128 + lane / 2, (int)(lane % 2)};
}

static position place_of_a(spyre_format format, int64_t r, int64_t k)
{
    if (format == SPYRE_FORMAT_SENINT8)
        return (position){(k / 128 * ROWS + r) * 128 + k % 128, -1};
    return in_half_bytes(k / 128 * (ROWS / 2) + r / 2, k % 16 + r % 2 * 16 + k % 128 / 16 * 32);
}

static position place_of_b(spyre_format format, int64_t k, int64_t n)
{
    if (format == SPYRE_FORMAT_SENINT8)
        return (position){(n / 64 * (DEPTH / 2) + k / 2) * 128 + n % 64 * 2 + k % 2, -1};
    return in_half_bytes(n / 64 * (DEPTH / 4) + k / 4, n % 64 * 4 + k % 4);
}

static int64_t number_at(const machine *m, uint32_t buffer, position p)
{
    int byte = (int8_t)m->buffers[buffer].bytes[p.byte];
    if (p.half < 0) return byte;
    int digit = (p.half ? (byte & 0xFF) / 16 : byte & 15);
    return digit < 8 ? digit : digit - 16;
}

static void integer_product(opfunc op, spyre_format format, spyre_format result)
{
    machine m = start_machine();
    bundle *b = make_bundle(m.memory, 3, MOST_BYTES);
    bundle_step s = make_step(m.memory, op, DIMS({"mb", ROWS, 1}, {"out", COLUMNS, 1},
                                                 {"in", DEPTH, 1}));
    bool halves = format == SPYRE_FORMAT_SENINT4;
    uint64_t seed = 17;
    bundle_tensor *a = make_tensor(&s, "A", format, "mb in", "in", "");
    if (halves) make_digits(&s, a, "in 16 mb 2 in 8");
    place_tensor(b, &s, a, 0, 0);
    bundle_tensor *w = make_tensor(&s, "B", format, "in out", "out", "");
    make_digits(&s, w, halves ? "in 4 out 64" : "in 2 out 64");
    place_tensor(b, &s, w, 1, 0);
    place_tensor(b, &s, make_tensor(&s, "C", result, "mb out", "out", ""), 2, 0);
    finish_step(b, &s);
    for (uint32_t n = 0; n < MOST_BYTES; n++)
        for (uint32_t buffer = 0; buffer < 2; buffer++)
            m.buffers[buffer].bytes[n] = (uint8_t)(check_random(&seed) >> 40);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t n = 0; n < COLUMNS; n++) {
            int64_t sum = 0;
            uint32_t wanted = 0, got = 0;
            for (int64_t k = 0; k < DEPTH; k++)
                sum += number_at(&m, 0, place_of_a(format, r, k)) *
                       number_at(&m, 1, place_of_b(format, k, n));
            element_store(&wanted, result, (double)sum);
            memcpy(&got, m.buffers[2].bytes + at(ROWS, r, n, result), spyre_format_bytes(result));
            assert_int_equal(got, wanted);
        }
    arena_destroy(m.memory);
}

static void interpret_window__integer_products_are_exact(void **state)
{
    (void)state;
    integer_product(OPFUNC_BATCHMATMULINT8, SPYRE_FORMAT_SENINT8, SPYRE_FORMAT_IEEE_INT32);
    integer_product(OPFUNC_BATCHMATMULINT8, SPYRE_FORMAT_SENINT8, DL16);
    integer_product(OPFUNC_BATCHMATMULINT4, SPYRE_FORMAT_SENINT4, SPYRE_FORMAT_IEEE_INT32);
    integer_product(OPFUNC_BATCHMATMULINT4, SPYRE_FORMAT_SENINT4, FP32);
}

// x * 3 + 1 of a matrix of 8 by 256, packed; the position function says where an element lies.
typedef position place_fn(int64_t mb, int64_t out);
enum { MB = 8, OUT = 256 };

static position int8_mb(int64_t mb, int64_t out)
{
    int64_t lane = out % 8 + mb % 2 * 8 + out % 64 / 8 * 16;
    return (position){(out / 64 * (MB / 2) + mb / 2) * 128 + lane, -1};
}

static position int8_wt(int64_t mb, int64_t out)
{
    return (position){(out / 64 * (MB / 2) + mb / 2) * 128 + out % 64 * 2 + mb % 2, -1};
}

static position int4_mb(int64_t mb, int64_t out)
{
    int64_t lane = out % 16 + mb % 2 * 16 + out % 128 / 16 * 32;
    return in_half_bytes(out / 128 * (MB / 2) + mb / 2, lane);
}

static position int4_wt(int64_t mb, int64_t out)
{
    return in_half_bytes(out / 64 * (MB / 4) + mb / 4, out % 64 * 4 + mb % 4);
}

static void quantise(opfunc op, spyre_format format, const char *digits, place_fn *place)
{
    machine m = start_machine();
    bundle *b = make_bundle(m.memory, 2, MOST_BYTES);
    bundle_step s = make_step(m.memory, op, DIMS({"mb", MB, 2}, {"out", OUT, 1}));
    int64_t most = format == SPYRE_FORMAT_SENINT8 ? 127 : 7;
    uint64_t seed = 3;
    add_constant(&s, "scaleact", 3.0f);
    add_constant(&s, "shiftact", 1.0f);
    place_tensor(b, &s, make_tensor(&s, "A", DL16, "mb out", "out", ""), 0, 0);
    bundle_tensor *packed = make_tensor(&s, "B", format, "mb out", "out", "");
    make_digits(&s, packed, digits);
    place_tensor(b, &s, packed, 1, 0);
    finish_step(b, &s);
    fill(&m, 0, MB * OUT, &seed);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t mb = 0; mb < MB; mb++)
        for (int64_t out = 0; out < OUT; out++) {
            double x = get(&m, 0, at(MB, mb, out, DL16), DL16) * 3.0 + 1.0;
            double whole = nearbyint(x);
            if (whole > (double)most) whole = (double)most;
            if (whole < (double)(-most - 1)) whole = (double)(-most - 1);
            assert_int_equal(number_at(&m, 1, place(mb, out)), (int64_t)whole);
        }
    arena_destroy(m.memory);
}

static void interpret_window__quantisers_pack(void **state)
{
    (void)state;
    quantise(OPFUNC_CSQINT8MB, SPYRE_FORMAT_SENINT8, "out 8 mb 2 out 8", int8_mb);
    quantise(OPFUNC_CSQINT8WT, SPYRE_FORMAT_SENINT8, "mb 2 out 64", int8_wt);
    quantise(OPFUNC_CSQINT4, SPYRE_FORMAT_SENINT4, "out 16 mb 2 out 8", int4_mb);
    quantise(OPFUNC_CSQINT4WT, SPYRE_FORMAT_SENINT4, "mb 4 out 64", int4_wt);
}

// --- Reductions of sizes, and positions

static void reduce(opfunc op, double (*wanted)(double largest, double squares), uint32_t lane)
{
    machine m = start_machine();
    bundle *b = make_bundle(m.memory, 2, MOST_BYTES);
    bundle_step s = make_step(m.memory, op, DIMS({"mb", 4, 2}, {"out", 128, 1}));
    uint64_t seed = 21;
    const char *factor = opfunc_describe(op)->parameter[0];
    if (factor) add_constant(&s, factor, 0.25f);
    if (op == OPFUNC_QUANTSCALEPERTOKENFP8) {
        add_constant(&s, "clipMin", 0.5f);
        add_constant(&s, "clipMax", 1.5f);
    }
    place_tensor(b, &s, make_tensor(&s, "A", DL16, "mb out", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "B", DL16, "mb out", "out", "out"), 1, 0);
    finish_step(b, &s);
    fill(&m, 0, 4 * 128, &seed);
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t mb = 0; mb < 4; mb++) {
        double largest = 0, squares = 0;
        for (int64_t out = 0; out < 128; out++) {
            double x = get(&m, 0, at(4, mb, out, DL16), DL16);
            largest = fmax(largest, fabs(x));
            squares += x * x;
        }
        assert_near(get(&m, 1, mb * 128 + lane * 2, DL16), wanted(largest, squares), squares);
    }
    arena_destroy(m.memory);
}

static double largest_of(double largest, double squares)
{
    (void)squares;
    return largest;
}

static double mean_of(double largest, double squares)
{
    (void)largest;
    return squares * 0.25;
}

static double zero_of(double largest, double squares)
{
    (void)largest, (void)squares;
    return 0.0;
}

static double int8_scale(double largest, double squares)
{
    (void)squares;
    return largest / 127.0;
}

static double fp8_scale(double largest, double squares)
{
    (void)squares;
    return fmin(fmax(largest, 0.5), 1.5) * 0.25;
}

static void interpret_window__sizes(void **state)
{
    (void)state;
    reduce(OPFUNC_ABSMAX, largest_of, 0);
    reduce(OPFUNC_EXX2_ZEROMEAN, zero_of, 0);
    reduce(OPFUNC_EXX2_ZEROMEAN, mean_of, 1);
    reduce(OPFUNC_QUANTSCALEPERTOKEN, int8_scale, 0);
    reduce(OPFUNC_QUANTSCALEPERTOKENFP8, fp8_scale, 0);
}

static void interpret_window__mask_by_index(void **state)
{
    (void)state;
    machine m = start_machine();
    bundle *b = make_bundle(m.memory, 3, MOST_BYTES);
    bundle_step s = make_step(m.memory, OPFUNC_MASKBYINDEX,
                              DIMS({"y", 3, 1}, {"mb", 4, 1}, {"k", 2, 1}, {"out", 64, 1}));
    place_tensor(b, &s, make_tensor(&s, "A", DL16, "mb y out", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "B", DL16, "k out", "out", ""), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "C", DL16, "mb y out", "out", ""), 2, 0);
    finish_step(b, &s);
    for (int64_t p = 0; p < 12; p++)
        for (int64_t out = 0; out < 64; out++) {
            set(&m, 0, p * 128 + out * 2, DL16, (double)(p + 1));
            set(&m, 2, p * 128 + out * 2, DL16, 99.0);
            set(&m, 1, out * 2, DL16, (double)(out % 12));
            set(&m, 1, 128 + out * 2, DL16, -1.0);
        }
    assert_ok(bundle_interpret(b, m.buffers, m.lx));
    for (int64_t p = 0; p < 12; p++)
        for (int64_t out = 0; out < 64; out++)
            assert_true(get(&m, 2, p * 128 + out * 2, DL16) ==
                        (out % 12 == p ? (double)(p + 1) : 0.0));
    arena_destroy(m.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpret_window__pools),
        cmocka_unit_test(interpret_window__convolution),
        cmocka_unit_test(interpret_window__integer_products_are_exact),
        cmocka_unit_test(interpret_window__quantisers_pack),
        cmocka_unit_test(interpret_window__sizes),
        cmocka_unit_test(interpret_window__mask_by_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
