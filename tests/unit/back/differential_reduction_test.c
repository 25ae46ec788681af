// SPDX-License-Identifier: Apache-2.0
//
// Random small bundles of reductions, rankings, running values, norms, products, gathers and
// scatters: reduced dims divided too, masks, operands in LX.
#include "unit/back/differential_case.h"

static void add_mask(trial *t, bundle_step *step, uint32_t d, int64_t stick)
{
    float neutral = opfunc_reduction_identity(step->op);
    int64_t padding = 1 + pick(t, (uint32_t)stick - 1);
    step->masks[step->mask_count++] = (bundle_mask){(uint8_t)d, step->size[d] - padding, padding};
    step->mask_constant = (int32_t)step->constant_count;
    add_constant(step, "samv-maskvalue", neutral);
}

static const char *names_of(trial *t, const bundle_step *step, uint32_t dims)
{
    const char *list = "";
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (dims >> d & 1)
            list = arena_printf(t->memory, "%s%s%s", list, *list ? " " : "", step->dim_name[d]);
    return list;
}

static void reduce(uint64_t number, bool integers)
{
    static const opfunc ops[] = {OPFUNC_SUM, OPFUNC_MEAN, OPFUNC_MAX, OPFUNC_MIN, OPFUNC_EXX2,
                                 OPFUNC_ABSMAX, OPFUNC_EXX2_ZEROMEAN, OPFUNC_QUANTSCALEPERTOKEN,
                                 OPFUNC_QUANTSCALEPERTOKENFP8};
    trial t = trial_begin(number, 5 << 10);
    t.infinities = false;
    opfunc op = ops[pick(&t, 9)];
    static const opfunc whole[] = {OPFUNC_SUM, OPFUNC_PROD, OPFUNC_MAX, OPFUNC_MIN};
    spyre_format format = pick(&t, 4) ? DL16 : FP32;
    if (integers) {
        op = whole[pick(&t, 4)];
        format = SPYRE_FORMAT_IEEE_INT32;
        t.index_limit = 5;
        t.signed_integers = true;
    }
    int64_t stick = spyre_format_elements_per_stick(format);
    int64_t granule = pick(&t, 4) ? stick : 20;
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, granule}, 60);
    uint32_t out = dim_bit(&step, "out"), reduced = 0;
    while (!reduced) reduced = pick(&t, 1u << step.dim_count);
    if (opfunc_moments(op) == 2) reduced |= out;
    step.nonstick = !(reduced & out);
    if (shares_uneven_results(&step, reduced)) {
        arena_destroy(t.memory);
        return;
    }
    const char *factor = opfunc_describe(op)->parameter[0];
    if (factor) add_constant(&step, factor, 0.0123f);
    if (op == OPFUNC_EXX2) add_constant(&step, "useZeroMean", (float)pick(&t, 2));
    if (op == OPFUNC_QUANTSCALEPERTOKENFP8) {
        add_constant(&step, "clipMin", 0.5f);
        add_constant(&step, "clipMax", 1.5f);
    }
    uint32_t last = made_dim_number(&step, "out", 3);
    if (reduced & out && granule == stick && pick(&t, 2)) add_mask(&t, &step, last, stick);
    const char *absent = names_of(&t, &step, reduced);
    add_tensor(&t, &step, format, all_dims(&step), "out", "", 4);
    if (op == OPFUNC_EXX2 && pick(&t, 2)) {     // what the moments are multiplied with
        uint32_t same = pick(&t, 2) ? all_dims(&step) : reduced;
        add_tensor(&t, &step, FP32, all_dims(&step), "out", names_of(&t, &step, same), 4);
    }
    add_tensor(&t, &step, integers || pick(&t, 5) ? format : DL16, all_dims(&step), "out", absent,
               4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void reduction(uint64_t number)
{
    reduce(number, false);
}

static void integer_reduction(uint64_t number)
{
    reduce(number, true);
}

// Ranks along some dims that no core splits, others or no ranks at all.
static void ranking(uint64_t number)
{
    static const spyre_format formats[] = {DL16, DL16, FP32, SPYRE_FORMAT_IEEE_INT32};
    trial t = trial_begin(number, 12 << 10);
    t.index_limit = 5; // many are equal
    t.signed_integers = pick(&t, 2);
    static const opfunc ops[] = {OPFUNC_TOPKVALUE, OPFUNC_TOPKINDEX, OPFUNC_BOTTOMKVALUE,
                                 OPFUNC_BOTTOMKINDEX};
    opfunc op = ops[pick(&t, 4)];
    t.options.lx_borrows = pick(&t, 2);
    spyre_format format = formats[pick(&t, 4)], result = format;
    if (opfunc_gives_positions(op)) result = formats[pick(&t, 4)];
    int64_t stick = spyre_format_elements_per_stick(format);
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, stick}, 40);
    uint32_t out = dim_bit(&step, "out"), reduced = 0, ranks, whole = 0;
    while (!reduced) reduced = pick(&t, 1u << step.dim_count);
    ranks = pick(&t, 1u << step.dim_count) & ~reduced & ~out;
    for (uint32_t d = 0; d < step.dim_count; d++)
        if (step.cores->slices[d] == 1) whole |= 1u << d;
    if ((reduced | ranks) & ~whole) {
        arena_destroy(t.memory); // one core ranks all candidates
        return;
    }
    uint32_t last = made_dim_number(&step, "out", 3);
    if (reduced & out && pick(&t, 2)) {
        int64_t padding = 1 + pick(&t, (uint32_t)stick - 1);
        step.masks[step.mask_count++] =
            (bundle_mask){(uint8_t)last, step.size[last] - padding, padding};
    }
    add_tensor(&t, &step, format, all_dims(&step), "out", names_of(&t, &step, ranks), 4);
    add_tensor(&t, &step, result, all_dims(&step), "out", names_of(&t, &step, reduced), 4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// Along some dims that no core splits; padding at the end of a stick is masked where it is scanned.
static void running(uint64_t number)
{
    static const spyre_format formats[] = {DL16, DL16, FP32, SPYRE_FORMAT_IEEE_INT32};
    static const opfunc ops[] = {OPFUNC_CUMSUM,      OPFUNC_CUMPROD,     OPFUNC_CUMMAXVALUE,
                                 OPFUNC_CUMMAXINDEX, OPFUNC_CUMMINVALUE, OPFUNC_CUMMININDEX,
                                 OPFUNC_LOGCUMSUMEXP};
    trial t = trial_begin(number, 12 << 10);
    t.index_limit = 5; // many are equal
    t.signed_integers = pick(&t, 2);
    opfunc op = ops[pick(&t, 7)];
    spyre_format format = formats[pick(&t, op == OPFUNC_LOGCUMSUMEXP ? 3 : 4)], result = format;
    if (opfunc_gives_positions(op)) result = formats[pick(&t, 4)];
    else if (format != SPYRE_FORMAT_IEEE_INT32) result = formats[pick(&t, 3)];
    int64_t stick = 64, granule = pick(&t, 4) ? stick : 20;
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, granule}, 60);
    uint32_t last = made_dim_number(&step, "out", 3), out = dim_bit(&step, "out");
    uint32_t scanned = pick(&t, 1u << step.dim_count);
    for (uint32_t d = 0; d < step.dim_count; d++)
        step.scanned[d] = (scanned >> d & 1) && step.cores->slices[d] == 1;
    if (scanned & out && step.scanned[last] && granule == stick && pick(&t, 2)) {
        int64_t padding = 1 + pick(&t, (uint32_t)stick - 1);
        step.masks[step.mask_count++] =
            (bundle_mask){(uint8_t)last, step.size[last] - padding, padding};
    }
    const char *repeated = pick(&t, 4) ? "" : names_of(&t, &step, pick(&t, 1u << step.dim_count));
    add_tensor(&t, &step, format, all_dims(&step), "out", repeated, 4);
    add_tensor(&t, &step, result, all_dims(&step), "out", "", 4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void norm_scale(uint64_t number)
{
    trial t = trial_begin(number, 4 << 10);
    t.low = 0.01f;
    bundle_step step = random_space(&t, OPFUNC_LAYERNORMSCALE, (int64_t[DIMS]){1, 1, 1, 64}, 60);
    add_tensor(&t, &step, DL16, all_dims(&step), "out", "out", 4);
    add_tensor(&t, &step, DL16, all_dims(&step), "out", pick(&t, 3) ? "" : "out", 4);
    if (step.tensors[1].scale[made_dim_number(&step, "out", 3)] < 0 &&
        step.cores->slices[made_dim_number(&step, "out", 3)] > 1) {
        arena_destroy(t.memory); // its cores would all write one output
        return;
    }
    add_constant(&step, "eps", 1e-3f);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// --- Products, rows that an index chooses

static void matmul(uint64_t number)
{
    trial t = trial_begin(number, 40 << 10);
    t.infinities = false;
    static const spyre_format formats[] = {DL16, DL16, DL16, FP32, SPYRE_FORMAT_SEN143_FP8};
    spyre_format format = formats[pick(&t, 5)];
    bool fp8 = format == SPYRE_FORMAT_SEN143_FP8;
    int64_t stick = spyre_format_elements_per_stick(format);
    int64_t k_granule = fp8 || pick(&t, 3) ? stick : 8;
    if (k_granule != stick) t.options.lx_reserved_bytes = 200 << 10;
    made_dim dims[6] = {{0}};
    int64_t slice_size[BUNDLE_MAX_DIMS] = {0};
    uint32_t count = 0;
    int32_t cores = 1;
    const struct {
        const char *name;
        int64_t granule, most;
        uint32_t odds;
    } choices[] = {{"y", 1, 3, 2},
                   {"x", 1, 4, 2},
                   {"mb", 1, 24, 1},
                   {"out", stick, 3, 1},
                   {"in", k_granule, 4, 1}};
    for (uint32_t d = 0; d < 5; d++) {
        if (pick(&t, choices[d].odds)) continue;
        int64_t size = choices[d].granule * (1 + pick(&t, (uint32_t)choices[d].most));
        int32_t slices = pick_slices(&t, size, choices[d].granule, &slice_size[count]);
        if (cores * slices > BUNDLE_MAX_CORES) slice_size[count] = 0, slices = 1;
        cores *= slices;
        dims[count++] = (made_dim){choices[d].name, size, slices};
    }
    bundle_step step = make_step(t.memory, fp8 ? OPFUNC_BATCHMATMULFP8 : OPFUNC_BATCHMATMUL, dims);
    memcpy(step.cores->slice_size, slice_size, sizeof slice_size);
    uint32_t all = all_dims(&step), y = dim_bit(&step, "y"), x = dim_bit(&step, "x");
    if (shares_uneven_results(&step, dim_bit(&step, "in"))) {
        arena_destroy(t.memory);
        return;
    }
    uint32_t out = dim_bit(&step, "out"), in = dim_bit(&step, "in"), mb = dim_bit(&step, "mb");
    uint32_t b_dims = out | in;
    if (pick(&t, 2)) b_dims |= y;
    if (pick(&t, 2)) b_dims |= x;
    if (k_granule == stick && pick(&t, 3) == 0) {
        uint32_t d = made_dim_number(&step, "in", 2);
        int64_t padding = 1 + pick(&t, (uint32_t)stick - 1);
        step.masks[step.mask_count++] = (bundle_mask){(uint8_t)d, step.size[d] - padding, padding};
    }
    uint32_t lx = k_granule == stick ? 5 : 0; // in memory any layout is fit for a matmul
    bool by_rows = step.cores->slices[made_dim_number(&step, "mb", 2)] == 1 && pick(&t, 2);
    add_tensor(&t, &step, format, all & ~out, !lx && by_rows ? "mb" : "in", "", lx);
    add_tensor(&t, &step, format, b_dims, lx || pick(&t, 2) ? "out" : "in", "", lx);
    add_tensor(&t, &step, pick(&t, 4) ? format : FP32, mb | out | y | x, "out", "", 5);
    random_live_lanes(&t, &step);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

typedef enum { GATHER, SCATTER, ACCUMULATE } movement;

// A gather, or a scatter of rows that may repeat and may come without some of the dims. The table
// may have its sticks along the rows; then there may be an index for each place of other dims.
static void move_rows(uint64_t number, movement how)
{
    static const opfunc accumulators[] = {OPFUNC_SUM, OPFUNC_PROD, OPFUNC_MAX, OPFUNC_MIN};
    bool scatters = how != GATHER, joins = how == ACCUMULATE;
    trial t = trial_begin(number, 9 << 10);
    spyre_format format = pick(&t, 3) ? DL16 : FP32;
    if (joins && pick(&t, 3) == 0) format = SPYRE_FORMAT_IEEE_INT32;
    bool keeps = !joins || format == SPYRE_FORMAT_IEEE_INT32 || pick(&t, 2);
    int64_t stick = spyre_format_elements_per_stick(format);
    t.index_limit = 1 + pick(&t, joins && pick(&t, 2) ? 2 : 50); // many rows may go to one
    bundle_step step =
        random_space(&t, OPFUNC_IDENTITY, (int64_t[DIMS]){1, 1, pick(&t, 2) ? 32 : 1, stick}, 20);
    uint32_t mb = made_dim_number(&step, "mb", 2);
    bool in_order = scatters && step.cores->slices[mb] > 1; // of equal indices the last one counts
    if (in_order || (step.cores->slices[mb] > 1 &&
                     bundle_local_size(&step, mb) % 32)) { // begin at sticks
        step.cores->slices[mb] = 1;
        step.cores->slice_size[mb] = 0;
        made_dim dims[DIMS + 1] = {{0}};
        for (uint32_t d = 0; d < step.dim_count; d++)
            dims[d] = (made_dim){step.dim_name[d], step.size[d], step.cores->slices[d]};
        bundle_step again = make_step(t.memory, OPFUNC_IDENTITY, dims);
        memcpy(again.cores->slice_size, step.cores->slice_size,
               sizeof again.cores->slice_size);
        step = again;
    }
    bool elements = pick(&t, 2);
    uint32_t moves = dim_bit(&step, "mb");
    if (elements && pick(&t, 2)) moves |= dim_bit(&step, "x");
    if (elements && pick(&t, 2)) moves |= dim_bit(&step, "y");
    bundle_tensor *index = make_tensor(&step, "I", SPYRE_FORMAT_SENUINT32,
                                       random_order(&t, &step, moves), "mb", "");
    index->index_kind = BUNDLE_INDEX_INDEX;
    index->index_peer = 1;
    trial_place(&t, &step, index, 0);
    bundle_tensor *value =
        make_tensor(&step, "V", keeps ? format : FP32,
                    random_order(&t, &step, all_dims(&step)), elements ? "mb" : "out", "");
    if (joins) step.accumulator = accumulators[pick(&t, 4)];
    value->index_kind = BUNDLE_INDEX_VALUE;
    value->index_peer = 0;
    value->max_size[mb] = 1;
    value->indexed_extent = t.index_limit;
    trial_place(&t, &step, value, 0);
    t.b->args.items[1].bytes += 400 << 10;
    add_tensor(&t, &step, format, all_dims(&step), "out", "", 4);
    step.inputs[step.input_count++] = scatters ? 2 : 1;
    step.indices[step.index_count++] = 0;
    step.output = scatters ? 1 : 2;
    assert_ok(bundle_add_step(t.b, &step));
    trial_end(&t, number);
}

static void gather(uint64_t number)
{
    move_rows(number, GATHER);
}

static void scatter(uint64_t number)
{
    move_rows(number, SCATTER);
}

static void accumulate(uint64_t number)
{
    move_rows(number, ACCUMULATE);
}

// --- Cases

static void differential_reduction__ranking(void **state)
{
    (void)state;
    run(ranking, 9000, 200);
}

static void differential_reduction__reduction(void **state)
{
    (void)state;
    run(reduction, 4000, 180);
    run(integer_reduction, 18000, 60);
}

static void differential_reduction__layernormscale(void **state)
{
    (void)state;
    run(norm_scale, 5000, 40);
}

static void differential_reduction__matmul(void **state)
{
    (void)state;
    run(matmul, 6000, 90);
}

static void differential_reduction__gather(void **state)
{
    (void)state;
    run(gather, 7000, 60);
}

static void differential_reduction__running(void **state)
{
    (void)state;
    run(running, 9500, 300);
}

static void differential_reduction__scatter(void **state)
{
    (void)state;
    run(scatter, 8000, 60);
    run(accumulate, 8500, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differential_reduction__ranking),
        cmocka_unit_test(differential_reduction__reduction),
        cmocka_unit_test(differential_reduction__layernormscale),
        cmocka_unit_test(differential_reduction__matmul),
        cmocka_unit_test(differential_reduction__gather),
        cmocka_unit_test(differential_reduction__running),
        cmocka_unit_test(differential_reduction__scatter),
    };
    return cmocka_run_group_tests(tests, trial_setup, trial_teardown);
}
