// SPDX-License-Identifier: Apache-2.0
//
// Random steps with windows: poolings and convolutions, with strides, dilations and padding,
// divided over cores; and what counts in integers: products, quantisers, sticks of several dims,
// positions.
#include "unit/back/differential_case.h"

static const char *const DIMS_OF_IMAGE[] = {"mb", "i", "j", "out", "ki", "kj", "in"};

typedef struct {
    int64_t extent, size, taps, stride, dilation, front;
} axis;

static axis random_axis(trial *t)
{
    for (;;) {
        axis a = {.extent = 1 + pick(t, 7), .taps = 1 + pick(t, 3), .stride = 1 + pick(t, 3),
                  .dilation = 1 + pick(t, 2)};
        int64_t reach = (a.taps - 1) * a.dilation + 1;
        a.front = pick(t, (uint32_t)(reach < 4 ? reach : 4));
        int64_t back = pick(t, (uint32_t)(reach < 4 ? reach : 4));
        a.size = (a.extent + a.front + back - reach) / a.stride + 1;
        if (a.extent + a.front + back < reach || a.size < 1) continue;
        if (a.dilation > 1 && a.extent < reach) continue; // a window may miss all of the input
        if (a.front < reach && back < reach) return a;
    }
}

static void add_windows(bundle_step *step, const axis *i, const axis *j)
{
    make_window(step, "i", "ki", i->stride, i->dilation, i->front, i->extent);
    make_window(step, "j", "kj", j->stride, j->dilation, j->front, j->extent);
}

// What slices of a dim of images are multiples of. Columns: sticks of the widest format that has
// them along its sticks, 128 at least; depth: sticks of any format.
static int64_t slice_unit(uint32_t d, int64_t stick)
{
    if (d == 3) return stick < 128 ? 128 : stick;
    return d == 6 ? 256 : 1;
}

static bundle_step image_step(trial *t, opfunc op, const axis *i, const axis *j, int64_t columns,
                              int64_t depth, int64_t stick)
{
    const int64_t sizes[] = {1 + pick(t, 2), i->size, j->size, columns, i->taps, j->taps, depth};
    made_dim dims[8] = {{0}};
    uint32_t count = 0;
    int32_t cores = 1;
    for (uint32_t d = 0; d < 7; d++) {
        if (d == 6 && depth == 0) continue;
        int64_t granule = d == 3 || d == 6 ? 64 : 1;
        int32_t slices = d == 4 || d == 5 ? 1 : pick_equal_slices(t, sizes[d], granule);
        if (sizes[d] % (slice_unit(d, stick) * slices) || cores * slices > 12) slices = 1;
        cores *= slices;
        dims[count++] = (made_dim){DIMS_OF_IMAGE[d], sizes[d], slices};
    }
    return make_step(t->memory, op, dims);
}

static uint32_t bits_of(const bundle_step *step, const char *const *dims)
{
    uint32_t bits = 0;
    for (; *dims; dims++) bits |= dim_bit(step, *dims);
    return bits;
}
#define BITS(...) bits_of(&step, (const char *const[]){__VA_ARGS__, NULL})

static void pooling(uint64_t number)
{
    static const opfunc ops[] = {OPFUNC_AVGPOOLFWD, OPFUNC_AVGPOOLNMAPFWD, OPFUNC_MAXPOOLFWD,
                                 OPFUNC_DEPTHWISECONV2D};
    trial t = trial_begin(number, 12 << 10);
    t.infinities = false;
    opfunc op = ops[pick(&t, 4)];
    spyre_format format = pick(&t, 4) ? DL16 : FP32;
    int64_t stick = spyre_format_elements_per_stick(format);
    axis i = random_axis(&t), j = random_axis(&t);
    bundle_step step = image_step(&t, op, &i, &j, stick * (1 + pick(&t, 2)), 0, stick);
    add_windows(&step, &i, &j);
    if (op == OPFUNC_AVGPOOLFWD) add_constant(&step, "nmap", 0.1111f);
    step.inputs[0] = 0; // what windows belong to, for the places
    add_tensor(&t, &step, format, BITS("mb", "i", "j", "out"), "out", "", 0);
    if (op == OPFUNC_AVGPOOLNMAPFWD)
        add_tensor(&t, &step, format, BITS("i", "j", "out"), "out", pick(&t, 2) ? "out" : "", 5);
    if (op == OPFUNC_DEPTHWISECONV2D)
        add_tensor(&t, &step, format, BITS("ki", "kj", "out"), "out", "", 0);
    add_tensor(&t, &step, pick(&t, 5) ? format : DL16, BITS("mb", "i", "j", "out"), "out", "", 5);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// The format of the factors of a product or convolution, and the sticks that it is published with.
typedef struct {
    opfunc product, convolution;
    spyre_format format;
    const char *a_digits, *b_digits;    // of batchmatmul; null: plain
} factors;

static const factors FACTORS[] = {
    {OPFUNC_BATCHMATMUL, OPFUNC_CONV2D, DL16, NULL, NULL},
    {OPFUNC_BATCHMATMULFP8, OPFUNC_CONV2DFP8, SPYRE_FORMAT_SEN143_FP8, NULL, "in 2 out 64"},
    {OPFUNC_BATCHMATMULINT8, OPFUNC_CONV2DINT8, SPYRE_FORMAT_SENINT8, NULL, "in 2 out 64"},
    {OPFUNC_BATCHMATMULINT4, OPFUNC_CONV2DINT4, SPYRE_FORMAT_SENINT4, "in 16 mb 2 in 8",
     "in 4 out 64"},
};

static const spyre_format RESULTS[] = {DL16, DL16, FP32, SPYRE_FORMAT_IEEE_INT32};

static void fill_bytes(trial *t, spyre_format format)
{
    bool bytes = format == SPYRE_FORMAT_SENINT8 || format == SPYRE_FORMAT_SENINT4;
    if (bytes) t->low = -128, t->high = 128;
}

static bundle_tensor *add_factor(trial *t, bundle_step *step, spyre_format format, uint32_t set,
                                 const char *stick, const char *digits)
{
    const char *label = arena_printf(t->memory, "L%u", step->tensor_count);
    bundle_tensor *tensor =
        make_tensor(step, label, format, random_order(t, step, set), stick, "");
    if (digits) make_digits(step, tensor, digits);
    trial_place(t, step, tensor, 0);
    return tensor;
}

static spyre_format result_of(trial *t, const factors *f)
{
    return RESULTS[pick(t, spyre_format_bits(f->format) <= 8 && f->format != SPYRE_FORMAT_SEN143_FP8
                               ? 4 : 3)];
}

static void convolution(uint64_t number)
{
    const factors *f;
    trial t = trial_begin(number, 200 << 10);
    t.infinities = false;
    t.index_limit = 1000;
    f = &FACTORS[pick(&t, 4)];
    fill_bytes(&t, f->format);
    axis i = random_axis(&t), j = random_axis(&t);
    int64_t columns = spyre_format_elements_per_stick(f->format);
    int64_t wide = 1 + pick(&t, 3) / 2, deep = 1 + pick(&t, 3) / 2;
    bundle_step step = image_step(&t, f->convolution, &i, &j, columns * wide, columns * deep,
                                  columns);
    add_windows(&step, &i, &j);
    step.inputs[0] = 0;
    uint32_t d = made_dim_number(&step, "in", 2);
    if (pick(&t, 3) == 0) {
        int64_t padding = 2 * (1 + (int64_t)pick(&t, 20));
        step.masks[step.mask_count++] = (bundle_mask){(uint8_t)d, step.size[d] - padding, padding};
    }
    add_factor(&t, &step, f->format, BITS("mb", "i", "j", "in"), "in", NULL);
    add_factor(&t, &step, f->format, BITS("ki", "kj", "in", "out"), "out",
               pick(&t, 2) ? f->b_digits : NULL);
    add_tensor(&t, &step, result_of(&t, f), BITS("mb", "i", "j", "out"), "out", "", 5);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void packed_product(uint64_t number)
{
    const factors *f;
    trial t = trial_begin(number, 200 << 10);
    t.infinities = false;
    t.index_limit = 1000;
    f = &FACTORS[1 + pick(&t, 3)];
    fill_bytes(&t, f->format);
    int64_t k = spyre_format_elements_per_stick(f->format);
    int32_t k_slices = pick(&t, 3) ? 1 : 2, row_slices = 1 + (int32_t)pick(&t, 2);
    bundle_step step = make_step(
        t.memory, f->product,
        DIMS({"x", 1 + pick(&t, 2), 1}, {"mb", 4 * (1 + pick(&t, 6)), row_slices},
             {"out", k * (1 + pick(&t, 2)), 1},
             {"in", k * k_slices * (1 + pick(&t, 2)), k_slices}));
    if (pick(&t, 3) == 0) {
        uint8_t d = made_dim_number(&step, "in", 2);
        step.masks[step.mask_count++] = (bundle_mask){d, step.size[d] - 6, 6};
    }
    add_factor(&t, &step, f->format, BITS("x", "mb", "in"), "in", pick(&t, 2) ? f->a_digits : NULL);
    uint32_t right = pick(&t, 2) ? BITS("x", "in", "out") : BITS("in", "out");
    add_factor(&t, &step, f->format, right, "out",
               pick(&t, 2) ? f->b_digits : NULL);
    add_tensor(&t, &step, result_of(&t, f), BITS("x", "mb", "out"), "out", "", 5);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

typedef struct {
    opfunc op;
    spyre_format to;
    const char *digits;
} quantiser;

static const quantiser QUANTISERS[] = {
    {OPFUNC_QFP8CH, SPYRE_FORMAT_SEN143_FP8, NULL},
    {OPFUNC_QFP8MB, SPYRE_FORMAT_SEN143_FP8, "out 8 mb 2 out 8"},
    {OPFUNC_QFP8WT, SPYRE_FORMAT_SEN143_FP8, "mb 2 out 64"},
    {OPFUNC_CSQINT8CH, SPYRE_FORMAT_SENINT8, NULL},
    {OPFUNC_CSQINT8MB, SPYRE_FORMAT_SENINT8, "out 8 mb 2 out 8"},
    {OPFUNC_CSQINT8WT, SPYRE_FORMAT_SENINT8, "mb 2 out 64"},
    {OPFUNC_CSQINT4, SPYRE_FORMAT_SENINT4, "out 16 mb 2 out 8"},
    {OPFUNC_CSQINT4WT, SPYRE_FORMAT_SENINT4, "mb 4 out 64"},
};

static void quantising(uint64_t number)
{
    trial t = trial_begin(number, 16 << 10);
    const quantiser *q = &QUANTISERS[pick(&t, 8)];
    bundle_step step = make_step(t.memory, q->op,
                                 DIMS({"y", 1 + pick(&t, 3), 1 + (int32_t)pick(&t, 1)},
                                      {"mb", 8 * (1 + pick(&t, 4)), 1 + (int32_t)pick(&t, 2)},
                                      {"out", 256 * (1 + pick(&t, 2)), 1}));
    add_constant(&step, "scaleact", 90.5f);
    add_constant(&step, "shiftact", 3.25f);
    add_tensor(&t, &step, DL16, all_dims(&step), "out", "", 4);
    bundle_tensor *out =
        make_tensor(&step, "Q", q->to, random_order(&t, &step, all_dims(&step)), "out", "");
    if (q->digits && pick(&t, 4)) make_digits(&step, out, q->digits);
    trial_place(&t, &step, out, 4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// What is packed comes back, whatever the sticks.
static void unpacking(uint64_t number)
{
    static const char *const digits[] = {NULL, "out 8 mb 2 out 8", "mb 2 out 64", "out 64 mb 2"};
    trial t = trial_begin(number, 16 << 10);
    bundle_step step = make_step(t.memory, OPFUNC_IDENTITY,
                                 DIMS({"y", 1 + pick(&t, 3), 1}, {"mb", 4 * (1 + pick(&t, 4)), 2},
                                      {"out", 128 * (1 + pick(&t, 2)), 1}));
    bool equal = pick(&t, 2);
    for (uint32_t n = 0; n < 2; n++) {
        spyre_format format = equal || n == 0 ? SPYRE_FORMAT_SENINT8 : DL16;
        bundle_tensor *tensor = make_tensor(&step, n ? "B" : "A", format,
                                            random_order(&t, &step, all_dims(&step)), "out", "");
        uint32_t which = pick(&t, 4);
        if (format == SPYRE_FORMAT_SENINT8 && digits[which])
            make_digits(&step, tensor, digits[which]);
        trial_place(&t, &step, tensor, 4);
    }
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void masking(uint64_t number)
{
    trial t = trial_begin(number, 24 << 10);
    spyre_format format = pick(&t, 3) ? DL16 : FP32;
    spyre_format index = pick(&t, 2) ? SPYRE_FORMAT_IEEE_INT32 : format;
    int64_t stick = spyre_format_elements_per_stick(format);
    bool across = pick(&t, 2); // positions along the stick
    t.index_limit = 40;
    t.low = 0, t.high = 30;
    bundle_step step = make_step(
        t.memory, OPFUNC_MASKBYINDEX,
        DIMS({"y", 1 + pick(&t, 3), 1}, {"mb", 1 + pick(&t, 40), 1}, {"x", 1 + pick(&t, 3), 1},
             {"out", stick * (1 + pick(&t, 3)), across ? 1 : 1 + (int32_t)pick(&t, 1)}));
    uint32_t data = BITS("y", "mb", "out");
    add_tensor(&t, &step, format, data, "out", "", 4);
    if (across) add_tensor(&t, &step, index, BITS("y", "mb", "x", "out"), "out", "out", 0);
    else add_tensor(&t, &step, index, pick(&t, 2) ? BITS("y", "x", "out") : BITS("x", "out"), "out",
                    "", 0);
    if (index != SPYRE_FORMAT_IEEE_INT32 || step.tensors[1].scale[0]) t.low = 0;
    add_tensor(&t, &step, format, data, "out", "", 4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void differential_window__pooling(void **state)
{
    (void)state;
    run(pooling, 20000, 50);
}

static void differential_window__convolution(void **state)
{
    (void)state;
    run(convolution, 21000, 24);
}

static void differential_window__packed_product(void **state)
{
    (void)state;
    run(packed_product, 22000, 24);
}

static void differential_window__quantising(void **state)
{
    (void)state;
    run(quantising, 23000, 40);
}

static void differential_window__unpacking(void **state)
{
    (void)state;
    run(unpacking, 24000, 16);
}

static void differential_window__masking(void **state)
{
    (void)state;
    run(masking, 25000, 50);
}

// Elements that LOADs bring of memory, in a program without loops.
static int64_t loaded_elements(const isa_program *p)
{
    int64_t loaded = 0;
    for (uint32_t n = 0; n < p->code.count; n++) {
        const isa_instruction *i = p->code.items[n];
        int64_t elements = i->opcode == ISA_LOAD;
        assert_int_not_equal(i->opcode, ISA_LOOP);
        for (uint32_t d = 0; d < i->dim_count; d++) elements *= i->extent[d];
        loaded += elements;
    }
    return loaded;
}

static void differential_window__places_in_common_are_loaded_once(void **state)
{
    (void)state;
    const axis i = {.extent = 10, .size = 8, .taps = 3, .stride = 1, .dilation = 1};
    const axis j = {.extent = 11, .size = 4, .taps = 3, .stride = 2, .dilation = 2};
    const made_dim dims[] = {{"mb", 2, 1}, {"i", i.size, 1}, {"j", j.size, 1}, {"out", 64, 1},
                             {"ki", 3, 1}, {"kj", 3, 1}, {NULL, 0, 0}};
    trial t = trial_begin(1, 12 << 10);
    t.infinities = false;
    t.options.lx_reserved_bytes = 1 << 20;
    bundle_step step = make_step(t.memory, OPFUNC_MAXPOOLFWD, dims);
    isa_program *program;
    add_windows(&step, &i, &j);
    step.inputs[0] = 0;
    add_tensor(&t, &step, DL16, BITS("mb", "i", "j", "out"), "out", "", 0);
    add_tensor(&t, &step, DL16, BITS("mb", "i", "j", "out"), "out", "", 0);
    finish_step(t.b, &step);
    assert_ok(back_compile(t.b, &t.options, t.memory, &program));
    // Of 11 places in steps of two along j, the even ones.
    assert_int_equal(loaded_elements(program), 2 * 10 * 6 * 64);
    trial_end(&t, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differential_window__pooling),
        cmocka_unit_test(differential_window__convolution),
        cmocka_unit_test(differential_window__packed_product),
        cmocka_unit_test(differential_window__quantising),
        cmocka_unit_test(differential_window__unpacking),
        cmocka_unit_test(differential_window__masking),
        cmocka_unit_test(differential_window__places_in_common_are_loaded_once),
    };
    return cmocka_run_group_tests(tests, trial_setup, trial_teardown);
}
