// SPDX-License-Identifier: Apache-2.0
//
// Random small bundles of every opfunc family: dims, orders, gaps, work divisions (reduced dims
// too), formats, masks, operands in LX. The seeds are fixed.
#include <math.h>

#include "unit/back/trial.h"

enum { DIMS = 4 };
static const char *const names[DIMS] = {"y", "x", "mb", "out"};
#define DL16 SPYRE_FORMAT_SEN169_FP16
#define FP32 SPYRE_FORMAT_IEEE_FP32

static int32_t pick_count(trial *t)
{
    static const int32_t choices[] = {1, 1, 2, 3, 4, 5};
    return choices[pick(t, 6)];
}

// A slice holds whole sticks.
static int32_t pick_equal_slices(trial *t, int64_t size, int64_t granule)
{
    int32_t slices = pick_count(t);
    if (granule > 1 && granule < 64) granule = 64;
    return size % (slices * granule) == 0 ? slices : 1;
}

// The last slice of an uneven division is shorter (slice_size, else 0).
static int32_t pick_slices(trial *t, int64_t size, int64_t granule, int64_t *slice_size)
{
    int32_t slices = pick_count(t);
    if (granule > 1 && granule < 64) granule = 64;
    *slice_size = 0;
    if (size % (slices * granule) == 0) return slices;
    int64_t units = (size + granule - 1) / granule, length = (units + slices - 1) / slices;
    if (length == units || pick(t, 2)) return 1;
    if (size % (length * granule)) *slice_size = length * granule;
    return (int32_t)((units + length - 1) / length);
}

// Cores that share an output have results of one length.
static bool shares_uneven_results(const bundle_step *step, uint32_t reduced)
{
    bool shares = false, uneven = false;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (reduced >> d & 1)
            shares |= step->slices[d] > 1;
        else
            uneven |= step->slice_size[d] != 0;
    }
    return shares && uneven;
}

// Dims y, x (each there or not), mb and out; sizes are multiples of `granule`.
static bundle_step random_space(trial *t, opfunc op, const int64_t *granule, int64_t most_rows)
{
    made_dim dims[DIMS + 1] = {{0}};
    uint32_t count = 0;
    int32_t cores = 1;
    int64_t rows = 1, slice_size[BUNDLE_MAX_DIMS] = {0};
    for (uint32_t d = 0; d < DIMS; d++) {
        if (d < 2 && pick(t, 2)) continue;
        int64_t size = granule[d] * (1 + pick(t, granule[d] > 1 ? 4 : 9));
        if (granule[d] == 1) {
            if (rows * size > most_rows) size = 1;
            rows *= size;
        }
        int32_t slices = pick_slices(t, size, granule[d], &slice_size[count]);
        if (cores * slices > BUNDLE_MAX_CORES) slice_size[count] = 0, slices = 1;
        cores *= slices;
        dims[count++] = (made_dim){names[d], size, slices};
    }
    bundle_step step = make_step(t->memory, op, dims);
    memcpy(step.slice_size, slice_size, sizeof slice_size);
    return step;
}

// The dims of the step in `set` in random order, as a list of names.
static const char *random_order(trial *t, const bundle_step *step, uint32_t set)
{
    uint8_t order[BUNDLE_MAX_DIMS];
    uint32_t count = 0;
    for (uint8_t d = 0; d < step->dim_count; d++) {
        if (!(set >> d & 1)) continue;
        uint32_t at = pick(t, ++count);
        order[count - 1] = order[at];
        order[at] = d;
    }
    const char *list = "";
    for (uint32_t i = 0; i < count; i++)
        list = arena_printf(t->memory, "%s%s%s", list, i ? " " : "", step->dim_name[order[i]]);
    return list;
}

static uint32_t all_dims(const bundle_step *step)
{
    return (1u << step->dim_count) - 1;
}

static uint32_t dim_bit(const bundle_step *step, const char *name)
{
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (strcmp(step->dim_name[d], name) == 0) return 1u << d;
    return 0;
}

static const char *random_subset(trial *t, const bundle_step *step, uint32_t odds)
{
    const char *list = "";
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (pick(t, odds)) continue;
        list = arena_printf(t->memory, "%s%s%s", list, *list ? " " : "", step->dim_name[d]);
    }
    return list;
}

static void random_gaps(trial *t, bundle_step *step, bundle_tensor *tensor)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (tensor->scale[d] <= 0 || pick(t, 4)) continue;
        int64_t unit = d == tensor->stick_dim ? tensor->stick_elements : 1;
        tensor->gap[d] = unit * (1 + pick(t, 2));
    }
}

// Every tensor has a label of its own, so that orders may differ.
static bundle_tensor *add_tensor(trial *t, bundle_step *step, spyre_format format, uint32_t set,
                                 const char *stick, const char *absent, uint32_t lx_odds)
{
    const char *label = arena_printf(t->memory, "L%u", step->tensor_count);
    bundle_tensor *tensor =
        make_tensor(step, label, format, random_order(t, step, set), stick, absent);
    if (step->op != OPFUNC_RESTICKIFY) random_gaps(t, step, tensor);
    trial_place(t, step, tensor, lx_odds);
    return tensor;
}

// --- Element by element

static void pointwise(uint64_t number)
{
    static const opfunc ops[] = {
        OPFUNC_ADD,     OPFUNC_SUB,           OPFUNC_MUL,      OPFUNC_MAXIMUM,     OPFUNC_EXP,
        OPFUNC_TANH,    OPFUNC_RSQRT,         OPFUNC_WHERE3,   OPFUNC_ABS,         OPFUNC_CLIP,
        OPFUNC_REALDIV, OPFUNC_LAYERNORMNORM, OPFUNC_IDENTITY, OPFUNC_GREATEREQUAL};
    trial t = trial_begin(number, 4 << 10);
    opfunc op = ops[pick(&t, sizeof ops / sizeof *ops)];
    spyre_format format = pick(&t, 4) ? DL16 : FP32;
    int64_t stick = spyre_format_elements_per_stick(format);
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, pick(&t, 4) ? stick : 20}, 60);
    step.compute_format = format;
    uint32_t inputs = opfunc_describe(op)->least_inputs;
    if (op == OPFUNC_LAYERNORMNORM) inputs += pick(&t, 3);
    for (uint32_t i = 0; i < inputs; i++)
        add_tensor(&t, &step, format, all_dims(&step), "out",
                   pick(&t, 2) ? random_subset(&t, &step, 3) : "", 4);
    add_tensor(&t, &step, format, all_dims(&step), "out", "", 4);
    add_constant(&step, "clipMin", -0.5f);
    add_constant(&step, "clipMax", 1.25f);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void integers(uint64_t number)
{
    static const opfunc ops[] = {OPFUNC_ADD, OPFUNC_SUB,      OPFUNC_MUL,     OPFUNC_NEG,
                                 OPFUNC_ABS, OPFUNC_IDENTITY, OPFUNC_MAXIMUM, OPFUNC_EQUAL};
    trial t = trial_begin(number, 4 << 10);
    t.index_limit = 1000;
    t.signed_integers = pick(&t, 4);
    opfunc op = ops[pick(&t, sizeof ops / sizeof *ops)];
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, 32}, 30);
    step.compute_format = SPYRE_FORMAT_IEEE_INT32;
    for (uint32_t i = 0; i <= opfunc_describe(op)->least_inputs; i++)
        add_tensor(&t, &step, SPYRE_FORMAT_IEEE_INT32, all_dims(&step), "out", "", 4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void copy(uint64_t number)
{
    trial t = trial_begin(number, 1 << 10);
    bundle_step step =
        random_space(&t, OPFUNC_IDENTITY, (int64_t[DIMS]){1, 1, 1, pick(&t, 4) ? 64 : 20}, 60);
    add_tensor(&t, &step, DL16, all_dims(&step), "out", "", 5);
    add_tensor(&t, &step, DL16, all_dims(&step), "out", "", 5);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void cast(uint64_t number)
{
    trial t = trial_begin(number, 4 << 10);
    static const struct {
        opfunc op;
        spyre_format from, to;
    } casts[] = {{OPFUNC_DL16TOFP32, DL16, FP32},
                 {OPFUNC_FP32TODL16, FP32, DL16},
                 {OPFUNC_QFP8CH, DL16, SPYRE_FORMAT_SEN143_FP8},
                 {OPFUNC_FP8TODL16, SPYRE_FORMAT_SEN143_FP8, DL16}};
    uint32_t n = pick(&t, 4);
    opfunc op = pick(&t, 2) ? OPFUNC_IDENTITY : casts[n].op;
    int64_t granule = n > 1 || pick(&t, 2) ? 128 : 24;
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, granule}, 60);
    add_tensor(&t, &step, casts[n].from, all_dims(&step), "out", "", 4);
    add_tensor(&t, &step, casts[n].to, all_dims(&step), "out", "", 4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// Valid extents that differ between cores.
static void relayout(uint64_t number)
{
    trial t = trial_begin(number, 32 << 10);
    spyre_format format = pick(&t, 3) ? DL16 : FP32;
    int64_t stick = spyre_format_elements_per_stick(format);
    bundle_step step = random_space(&t, OPFUNC_RESTICKIFY, (int64_t[DIMS]){1, 1, stick, stick}, 4);
    bundle_tensor *in =
        make_tensor(&step, "A", format, random_order(&t, &step, all_dims(&step)), "out", "");
    bundle_tensor *out =
        make_tensor(&step, "B", format, random_order(&t, &step, all_dims(&step)), "mb", "");
    uint32_t mb = made_dim_number(&step, "mb", 2), last = made_dim_number(&step, "out", 3);
    if (pick(&t, 2)) in->gap[mb] = pick(&t, (uint32_t)step.size[mb]);
    if (pick(&t, 2)) out->gap[last] = pick(&t, (uint32_t)step.size[last]);
    trial_place(&t, &step, in, in->gap[mb] ? 0 : 5);
    trial_place(&t, &step, out, out->gap[last] ? 0 : 5);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// Random slices of the dims that both tensors have, on cores in random order.
static const bundle_owners *random_owners(trial *t, const bundle_step *step,
                                          const bundle_tensor *tensor)
{
    bundle_owners *o = ARENA_NEW(t->memory, bundle_owners, 1);
    assert_non_null(o);
    uint32_t core[BUNDLE_MAX_CORES];
    o->core_count = 1;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        bool stick = d == tensor->stick_dim;
        o->slices[d] = tensor->scale[d] > 0
                           ? pick_equal_slices(t, step->size[d],
                                               stick ? tensor->stick_elements : 1)
                           : 1;
        if (o->core_count * (uint32_t)o->slices[d] > BUNDLE_MAX_CORES) o->slices[d] = 1;
        o->core_count *= (uint32_t)o->slices[d];
    }
    for (uint32_t n = 0; n < o->core_count; n++) {
        uint32_t at = pick(t, n + 1);
        core[n] = core[at];
        core[at] = n;
    }
    for (uint32_t n = 0; n < o->core_count; n++) {
        uint32_t left = n;
        for (uint32_t d = 0; d < step->dim_count; d++) {
            o->core_slice[core[n]][d] = (uint8_t)(left % (uint32_t)o->slices[d]);
            left /= (uint32_t)o->slices[d];
        }
    }
    return o;
}

// Slices in LX that get other owners, now and then several.
static void shuffle(uint64_t number)
{
    trial t = trial_begin(number, 1 << 10);
    spyre_format format = pick(&t, 3) ? DL16 : FP32;
    bundle_step step = random_space(&t, OPFUNC_SHUFFLE, (int64_t[DIMS]){1, 1, 1, 64}, 40);
    for (uint32_t d = 0; d < step.dim_count; d++) {
        if (!step.slice_size[d]) continue;
        arena_destroy(t.memory); // a shuffle has equal slices
        return;
    }
    const char *absent = step.dim_count > 2 && pick(&t, 2) ? step.dim_name[0] : "";
    bundle_tensor *in =
        make_tensor(&step, "A", format, random_order(&t, &step, all_dims(&step)), "out", absent);
    bundle_tensor *out =
        make_tensor(&step, "B", format, random_order(&t, &step, all_dims(&step)), "out", absent);
    in->owners = random_owners(&t, &step, in);
    trial_place(&t, &step, in, 1);
    trial_place(&t, &step, out, 1);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// --- Reductions

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

static void reduction(uint64_t number)
{
    static const opfunc ops[] = {OPFUNC_SUM, OPFUNC_MEAN, OPFUNC_MAX, OPFUNC_MIN, OPFUNC_EXX2};
    trial t = trial_begin(number, 5 << 10);
    t.infinities = false;
    opfunc op = ops[pick(&t, 5)];
    spyre_format format = pick(&t, 4) ? DL16 : FP32;
    int64_t stick = spyre_format_elements_per_stick(format);
    int64_t granule = pick(&t, 4) ? stick : 20;
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, granule}, 60);
    uint32_t out = dim_bit(&step, "out"), reduced = 0;
    while (!reduced) reduced = pick(&t, 1u << step.dim_count);
    if (op == OPFUNC_EXX2) reduced |= out;
    step.nonstick = !(reduced & out);
    if (shares_uneven_results(&step, reduced)) {
        arena_destroy(t.memory);
        return;
    }
    add_constant(&step, op == OPFUNC_EXX2 ? "exx2scale" : "scaling_factor", 0.0123f);
    add_constant(&step, "useZeroMean", 0);
    uint32_t last = made_dim_number(&step, "out", 3);
    if (reduced & out && granule == stick && pick(&t, 2)) add_mask(&t, &step, last, stick);
    const char *absent = names_of(&t, &step, reduced);
    add_tensor(&t, &step, format, all_dims(&step), "out", "", 4);
    add_tensor(&t, &step, pick(&t, 5) ? format : DL16, all_dims(&step), "out", absent, 4);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// Ranks along some dims that no core splits, others or no ranks at all.
static void ranking(uint64_t number)
{
    static const spyre_format formats[] = {DL16, DL16, FP32, SPYRE_FORMAT_IEEE_INT32};
    trial t = trial_begin(number, 12 << 10);
    t.index_limit = 5; // many are equal
    t.signed_integers = pick(&t, 2);
    opfunc op = pick(&t, 2) ? OPFUNC_TOPKVALUE : OPFUNC_TOPKINDEX;
    spyre_format format = formats[pick(&t, 4)], result = format;
    if (op == OPFUNC_TOPKINDEX) result = formats[pick(&t, 4)];
    int64_t stick = spyre_format_elements_per_stick(format);
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, stick}, 40);
    uint32_t out = dim_bit(&step, "out"), reduced = 0, ranks, whole = 0;
    while (!reduced) reduced = pick(&t, 1u << step.dim_count);
    ranks = pick(&t, 1u << step.dim_count) & ~reduced & ~out;
    for (uint32_t d = 0; d < step.dim_count; d++)
        if (step.slices[d] == 1) whole |= 1u << d;
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

static void norm_scale(uint64_t number)
{
    trial t = trial_begin(number, 4 << 10);
    t.low = 0.01f;
    bundle_step step = random_space(&t, OPFUNC_LAYERNORMSCALE, (int64_t[DIMS]){1, 1, 1, 64}, 60);
    add_tensor(&t, &step, DL16, all_dims(&step), "out", "out", 4);
    add_tensor(&t, &step, DL16, all_dims(&step), "out", pick(&t, 3) ? "" : "out", 4);
    if (step.tensors[1].scale[made_dim_number(&step, "out", 3)] < 0 &&
        step.slices[made_dim_number(&step, "out", 3)] > 1) {
        arena_destroy(t.memory); // its cores would all write one output
        return;
    }
    add_constant(&step, "eps", 1e-3f);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

// --- Matmul and gather

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
    memcpy(step.slice_size, slice_size, sizeof slice_size);
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
    bool by_rows = step.slices[made_dim_number(&step, "mb", 2)] == 1 && pick(&t, 2);
    add_tensor(&t, &step, format, all & ~out, !lx && by_rows ? "mb" : "in", "", lx);
    add_tensor(&t, &step, format, b_dims, lx || pick(&t, 2) ? "out" : "in", "", lx);
    add_tensor(&t, &step, pick(&t, 4) ? format : FP32, mb | out | y | x, "out", "", 5);
    finish_step(t.b, &step);
    trial_end(&t, number);
}

static void gather(uint64_t number)
{
    trial t = trial_begin(number, 9 << 10);
    spyre_format format = pick(&t, 3) ? DL16 : FP32;
    int64_t stick = spyre_format_elements_per_stick(format);
    t.index_limit = 1 + pick(&t, 50);
    bundle_step step =
        random_space(&t, OPFUNC_IDENTITY, (int64_t[DIMS]){1, 1, pick(&t, 2) ? 32 : 1, stick}, 20);
    uint32_t mb = made_dim_number(&step, "mb", 2);
    bundle_tensor *index = make_tensor(&step, "I", SPYRE_FORMAT_SENUINT32, "mb", "mb", "");
    if (step.slices[mb] > 1 && bundle_local_size(&step, mb) % 32) { // they begin at sticks
        step.slices[mb] = 1;
        step.slice_size[mb] = 0;
        made_dim dims[DIMS + 1] = {{0}};
        for (uint32_t d = 0; d < step.dim_count; d++)
            dims[d] = (made_dim){step.dim_name[d], step.size[d], step.slices[d]};
        bundle_step again = make_step(t.memory, OPFUNC_IDENTITY, dims);
        memcpy(again.slice_size, step.slice_size, sizeof again.slice_size);
        step = again;
        index = make_tensor(&step, "I", SPYRE_FORMAT_SENUINT32, "mb", "mb", "");
    }
    index->index_kind = BUNDLE_INDEX_INDEX;
    index->index_peer = 1;
    trial_place(&t, &step, index, 0);
    bundle_tensor *value =
        make_tensor(&step, "V", format, random_order(&t, &step, all_dims(&step)), "out", "");
    value->index_kind = BUNDLE_INDEX_VALUE;
    value->index_peer = 0;
    value->max_size[mb] = 1;
    value->indexed_extent = t.index_limit;
    trial_place(&t, &step, value, 0);
    t.b->args.items[1].bytes += 400 << 10;
    add_tensor(&t, &step, format, all_dims(&step), "out", "", 4);
    step.inputs[step.input_count++] = 1;
    step.indices[step.index_count++] = 0;
    step.output = 2;
    assert_ok(bundle_add_step(t.b, &step));
    trial_end(&t, number);
}

// --- Cases

static void run(void (*family)(uint64_t), uint64_t first, uint64_t count)
{
    const char *only = getenv("SPYRE_TRIAL");
    for (uint64_t n = first; n < first + count; n++)
        if (!only || strtoull(only, NULL, 10) == n) family(n);
}

static void differential__pointwise(void **state)
{
    (void)state;
    run(pointwise, 1000, 120);
}

static void differential__integers(void **state)
{
    (void)state;
    run(integers, 9000, 40);
}

static void differential__copy(void **state)
{
    (void)state;
    run(copy, 8000, 60);
}

static void differential__cast(void **state)
{
    (void)state;
    run(cast, 2000, 60);
}

static void differential__relayout(void **state)
{
    (void)state;
    run(relayout, 3000, 60);
}

static void differential__shuffle(void **state)
{
    (void)state;
    run(shuffle, 3500, 120);
}

static void differential__ranking(void **state)
{
    (void)state;
    run(ranking, 9000, 200);
}

static void differential__reduction(void **state)
{
    (void)state;
    run(reduction, 4000, 150);
}

static void differential__layernormscale(void **state)
{
    (void)state;
    run(norm_scale, 5000, 40);
}

static void differential__matmul(void **state)
{
    (void)state;
    run(matmul, 6000, 90);
}

static void differential__gather(void **state)
{
    (void)state;
    run(gather, 7000, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differential__pointwise),      cmocka_unit_test(differential__integers),
        cmocka_unit_test(differential__copy),           cmocka_unit_test(differential__cast),
        cmocka_unit_test(differential__ranking),
        cmocka_unit_test(differential__relayout),       cmocka_unit_test(differential__reduction),
        cmocka_unit_test(differential__layernormscale), cmocka_unit_test(differential__matmul),
        cmocka_unit_test(differential__gather),         cmocka_unit_test(differential__shuffle),
    };
    return cmocka_run_group_tests(tests, trial_setup, trial_teardown);
}
