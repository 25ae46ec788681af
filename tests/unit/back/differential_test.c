// SPDX-License-Identifier: Apache-2.0
//
// Random small bundles of every opfunc that works element by element, operands in LX too.
#include "unit/back/differential_case.h"

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
    if (op == OPFUNC_CLIP) inputs += 2 * pick(&t, 2);
    for (uint32_t i = 0; i < inputs; i++)
        add_tensor(&t, &step, format, all_dims(&step), "out",
                   pick(&t, 2) ? random_subset(&t, &step, 3) : "", 4);
    add_tensor(&t, &step, format, all_dims(&step), "out", "", 4);
    random_live_lanes(&t, &step);
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

// Further inputs that are the first one again, or begin a stick behind it.
static void equal_inputs(uint64_t number)
{
    trial t = trial_begin(number, 4 << 10);
    opfunc op = pick(&t, 2) ? OPFUNC_MUL : OPFUNC_WHERE3;
    t.infinities = false;
    bundle_step step = random_space(&t, op, (int64_t[DIMS]){1, 1, 1, 64}, 60);
    const bundle_tensor *first = add_tensor(&t, &step, DL16, all_dims(&step), "out", "", 6);
    for (uint32_t i = 1; i < opfunc_describe(op)->least_inputs; i++) {
        bundle_tensor *again = &step.tensors[step.tensor_count];
        *again = *first;
        snprintf(again->name, sizeof again->name, "Tensor%u", step.tensor_count++);
        if (first->arg < 0 || pick(&t, 2)) continue;
        again->start += 128;
        t.b->args.items[first->arg].bytes += 128;
    }
    add_tensor(&t, &step, DL16, all_dims(&step), "out", "", 6);
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
static const bundle_division *random_owners(trial *t, const bundle_step *step,
                                          const bundle_tensor *tensor)
{
    bundle_division *o = ARENA_NEW(t->memory, bundle_division, 1);
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
        if (!step.cores->slice_size[d]) continue;
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

// --- Cases

static void differential__pointwise(void **state)
{
    (void)state;
    run(pointwise, 1000, 120);
}

static void differential__equal_inputs(void **state)
{
    (void)state;
    run(equal_inputs, 9600, 40);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differential__pointwise),
        cmocka_unit_test(differential__equal_inputs),
        cmocka_unit_test(differential__integers),
        cmocka_unit_test(differential__copy),
        cmocka_unit_test(differential__cast),
        cmocka_unit_test(differential__relayout),
        cmocka_unit_test(differential__shuffle),
    };
    return cmocka_run_group_tests(tests, trial_setup, trial_teardown);
}
