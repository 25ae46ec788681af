// SPDX-License-Identifier: Apache-2.0
//
// Every opfunc of the published list, each form of its name: verified, compiled, and equal on the
// card and in the reference interpreter. An opfunc that no case here knows fails.
#include "unit/back/differential_case.h"

static const spyre_format INT8 = SPYRE_FORMAT_SENINT8, INT4 = SPYRE_FORMAT_SENINT4,
                          FP8 = SPYRE_FORMAT_SEN143_FP8;

typedef struct {
    trial t;
    bundle_step step;
} call;

static bundle_step step_of(call *c, opfunc op, const made_dim *dims)
{
    bundle_step step = make_step(c->t.memory, op, dims);
    const opfunc_info *info = opfunc_describe(op);
    for (uint32_t p = 0; p < OPFUNC_MAX_PARAMETERS && info->parameter[p]; p++)
        add_constant(&step, info->parameter[p], 0.5f + (float)p);
    return step;
}

static void give(call *c, spyre_format format, const char *order, const char *stick,
                 const char *absent)
{
    const char *label = arena_printf(c->t.memory, "L%u", c->step.tensor_count);
    trial_place(&c->t, &c->step, make_tensor(&c->step, label, format, order, stick, absent), 0);
}

static void element_wise(call *c, opfunc op)
{
    const opfunc_info *info = opfunc_describe(op);
    spyre_format result = opfunc_makes_pairs(op) ? INT4 : DL16;
    if (op == OPFUNC_CSQINT8CH || op == OPFUNC_CSQINT8MB || op == OPFUNC_CSQINT8WT) result = INT8;
    c->step = step_of(c, op, DIMS({"mb", 6, 2}, {"out", 256, 1}));
    for (uint32_t i = 0; i < info->most_inputs; i++)
        give(c, DL16, "mb out", "out", i % 2 ? "mb" : "");
    give(c, result, "mb out", "out", "");
}

static void norm(call *c, opfunc op)
{
    bool scale = op == OPFUNC_LAYERNORMSCALE;
    c->step = step_of(c, op, DIMS({"mb", 6, 2}, {"out", 128, 1}));
    give(c, DL16, "mb out", "out", scale ? "out" : "");
    for (uint32_t i = 1; i < opfunc_describe(op)->most_inputs; i++)
        give(c, DL16, "mb out", "out", i < 3 ? "out" : "mb");
    give(c, DL16, "mb out", "out", scale ? "out" : "");
}

static void copy(call *c, opfunc op)
{
    spyre_format from = DL16, to = DL16;
    if (op == OPFUNC_FP32TODL16) from = FP32;
    if (op == OPFUNC_FP8TODL16) from = FP8;
    if (op == OPFUNC_DL16TOFP32) to = FP32;
    if (op == OPFUNC_QFP8CH || op == OPFUNC_QFP8MB || op == OPFUNC_QFP8WT) to = FP8;
    c->step = step_of(c, op, DIMS({"mb", 64, 2}, {"out", 128, 1}));
    if (op == OPFUNC_RESTICKIFY) c->step = step_of(c, op, DIMS({"mb", 64, 1}, {"out", 128, 1}));
    if (op == OPFUNC_SHUFFLE) {
        bundle_division *owners = ARENA_NEW(c->t.memory, bundle_division, 1);
        *owners = (bundle_division){
            .core_count = 2, .slices = {1, 2}, .core_slice = {{0, 0}, {0, 1}}};
        for (uint32_t n = 0; n < 2; n++) {
            bundle_tensor *t = make_tensor(&c->step, n ? "B" : "A", DL16, "mb out", "out", "");
            if (n == 0) t->owners = owners;
            trial_place(&c->t, &c->step, t, 1);
        }
        return;
    }
    give(c, from, "mb out", "out", "");
    give(c, to, op == OPFUNC_RESTICKIFY ? "out mb" : "mb out",
         op == OPFUNC_RESTICKIFY ? "mb" : "out", "");
}

static void reduction(call *c, opfunc op, bool nonstick)
{
    c->step = step_of(c, op, DIMS({"mb", 6, 2}, {"out", 128, 1}));
    c->step.nonstick = nonstick;
    give(c, DL16, "mb out", "out", "");
    give(c, DL16, "mb out", "out", nonstick ? "mb" : "out");
}

static spyre_format factor_of(opfunc op)
{
    if (op == OPFUNC_BATCHMATMULFP8 || op == OPFUNC_CONV2DFP8) return FP8;
    if (op == OPFUNC_BATCHMATMULINT8 || op == OPFUNC_CONV2DINT8) return INT8;
    return op == OPFUNC_BATCHMATMULINT4 || op == OPFUNC_CONV2DINT4 ? INT4 : DL16;
}

static void product(call *c, opfunc op)
{
    spyre_format format = factor_of(op);
    if (opfunc_slides(op)) {
        c->step = step_of(c, op, DIMS({"i", 4, 1}, {"j", 5, 1}, {"out", 128, 1}, {"ki", 3, 1},
                                      {"kj", 3, 1}, {"in", 256, 1}));
        make_window(&c->step, "i", "ki", 1, 1, 1, 4);
        make_window(&c->step, "j", "kj", 1, 1, 1, 5);
        give(c, format, "i j in", "in", "");
        give(c, format, "ki kj in out", "out", "");
        give(c, DL16, "i j out", "out", "");
        return;
    }
    c->step = step_of(c, op, DIMS({"mb", 8, 2}, {"out", 128, 1}, {"in", 256, 1}));
    give(c, format, "mb in", "in", "");
    give(c, format, "in out", "out", "");
    give(c, DL16, "mb out", "out", "");
}

static void pool(call *c, opfunc op)
{
    c->step = step_of(c, op, DIMS({"i", 4, 2}, {"j", 5, 1}, {"out", 128, 1}, {"ki", 3, 1},
                                  {"kj", 2, 1}));
    make_window(&c->step, "i", "ki", 2, 1, 1, 7);
    make_window(&c->step, "j", "kj", 1, 2, 0, 7);
    give(c, DL16, "i j out", "out", "");
    if (op == OPFUNC_AVGPOOLNMAPFWD) give(c, DL16, "i j out", "out", "out");
    if (op == OPFUNC_DEPTHWISECONV2D) give(c, DL16, "ki kj out", "out", "");
    give(c, DL16, "i j out", "out", "");
}

static void positions(call *c, opfunc op)
{
    bool masks = op == OPFUNC_MASKBYINDEX;
    c->step = step_of(c, op, DIMS({"x", 3, 1}, {"mb", 20, 1}, {"out", 128, 2}));
    give(c, DL16, "mb out", "out", "");
    give(c, DL16, "x out", "out", "");
    if (masks) give(c, DL16, "mb out", "out", "");
}

static void build(call *c, opfunc op, bool nonstick)
{
    switch (opfunc_describe(op)->kind) {
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC: element_wise(c, op); return;
    case OPFUNC_KIND_NORM: norm(c, op); return;
    case OPFUNC_KIND_COPY: copy(c, op); return;
    case OPFUNC_KIND_REDUCTION: reduction(c, op, nonstick); return;
    case OPFUNC_KIND_MATMUL: product(c, op); return;
    case OPFUNC_KIND_POOL: pool(c, op); return;
    case OPFUNC_KIND_RANK:
    case OPFUNC_KIND_MASK: positions(c, op); return;
    case OPFUNC_KIND_SCAN: break; // none is published
    }
    fail_msg("no case for %s", opfunc_describe(op)->name);
}

// The table of specification 0248, "Supported OpFuncs".
static const char *const PUBLISHED[] = {
    "batchmatmulfp8", "batchmatmul", "batchmatmulint4", "batchmatmulint8", "conv2dfp8", "conv2d",
    "conv2dint4", "conv2dint8", "add", "batchnormfwd", "biasadd", "equal", "fnms", "greaterequal",
    "layernormnorm", "lesserequal", "maximum", "minimum", "mul", "notequal", "realdiv", "revsub",
    "sub", "where3", "abs", "clip", "exp", "fastexp", "fastsigmoid", "gelufwd", "identity",
    "layernormscale", "leakyrelufwd", "log", "mish", "neg", "reciprocal", "relufwd", "relu6fwd",
    "rsqrt", "sigmoid", "softplus", "silu", "sqrt", "tanh", "absmaxnonstick", "absmax",
    "exx2_zeromean", "exx2", "maxnonstick", "max", "meannonstick", "mean", "minnonstick", "min",
    "quantscalepertokenfp8", "quantscalepertoken", "sumnonstick", "sum", "avgpoolfwd",
    "avgpoolnmapfwd", "depthwiseconv2dnative", "maxpoolfwd", "maskbyindex", "topkindex",
    "topkvalue", "csqint4wt", "csqint4", "csqint8ch", "csqint8mb", "csqint8wt", "dl16tofp32",
    "fp32todl16", "fp8todl16", "qfp8ch", "qfp8mb", "qfp8wt", "ReStickifyOpHBM",
    // Emitted by torch-spyre.
    "greaterthan", "lesserthan", "floor", "shuffle",
};

static void run_name(const char *name)
{
    opfunc op = opfunc_named(name);
    call c = {.t = trial_begin(31, 300 << 10)};
    if (op == OPFUNC_NONE || !opfunc_is_published(op)) fail_msg("%s is not computed", name);
    bool nonstick = strcmp(opfunc_describe(op)->name, name) != 0;
    c.t.infinities = false;
    c.t.index_limit = 10;
    bool bytes = factor_of(op) == INT8 || factor_of(op) == INT4;
    if (bytes) c.t.low = -128, c.t.high = 128;
    build(&c, op, nonstick);
    finish_step(c.t.b, &c.step);
    trial_end(&c.t, 0);
}

static void published__every_name_is_computed(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof PUBLISHED / sizeof *PUBLISHED; n++) run_name(PUBLISHED[n]);
}

static void published__every_row_has_a_name_here(void **state)
{
    (void)state;
    for (int op = 0; op < OPFUNC_FIRST_OWN; op++) {
        bool listed = false;
        for (size_t n = 0; n < sizeof PUBLISHED / sizeof *PUBLISHED && !listed; n++)
            listed = strcmp(PUBLISHED[n], opfunc_describe((opfunc)op)->name) == 0;
        if (!listed) fail_msg("%s is published by no list", opfunc_describe((opfunc)op)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published__every_name_is_computed),
        cmocka_unit_test(published__every_row_has_a_name_here),
    };
    return cmocka_run_group_tests(tests, trial_setup, trial_teardown);
}
