// SPDX-License-Identifier: Apache-2.0
//
// Bundles of one or a few steps whose listings are kept in tests/golden/back, also used to check
// what must hold for every size.
#ifndef UNIT_BACK_CASES_H
#define UNIT_BACK_CASES_H

#include <math.h>

#include "unit/bundle/golden.h"

#include "back/back.h"

#define DL16 SPYRE_FORMAT_SEN169_FP16

typedef struct {
    const char *name;
    bundle *(*make)(arena *memory, int64_t scale);      // scale multiplies the first dim
} back_case;

static inline bundle_tensor *case_tensor(bundle *b, bundle_step *step, spyre_format format,
                                         const char *order, const char *stick, const char *absent,
                                         int32_t arg)
{
    char label[16];
    snprintf(label, sizeof label, "L%u", step->tensor_count);
    bundle_tensor *t = make_tensor(step, label, format, order, stick, absent);
    place_tensor(b, step, t, arg, 0);
    return t;
}

static inline bundle *case_add(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 3, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_ADD, (made_dim[]){{"mb", 512 * scale, 2}, {"out", 256, 1}, {0}});
    step.location = "model.py:7";
    case_tensor(b, &step, DL16, "mb out", "out", "", 0);
    case_tensor(b, &step, DL16, "mb out", "out", "out", 1);
    case_tensor(b, &step, DL16, "mb out", "out", "", 2);
    finish_step(b, &step);
    return b;
}

// x * x: one tile for both inputs.
static inline bundle *case_square(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_MUL, (made_dim[]){{"mb", 512 * scale, 2}, {"out", 256, 1}, {0}});
    case_tensor(b, &step, DL16, "mb out", "out", "", 0);
    case_tensor(b, &step, DL16, "mb out", "out", "", 0);
    case_tensor(b, &step, DL16, "mb out", "out", "", 1);
    finish_step(b, &step);
    return b;
}

// In LX, used in place: one VECTOR.
static inline bundle *case_exp_in_lx(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 0, 0);
    bundle_step step = make_step(
        memory, OPFUNC_EXP, (made_dim[]){{"mb", 16 * scale, 2}, {"out", 128, 1}, {0}});
    case_tensor(b, &step, DL16, "mb out", "out", "", -1);
    case_tensor(b, &step, DL16, "mb out", "out", "", -1);
    finish_step(b, &step);
    return b;
}

static inline bundle *case_slice_copy(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_IDENTITY, (made_dim[]){{"mb", 128 * scale, 2}, {"out", 128, 1}, {0}});
    bundle_tensor *source = case_tensor(b, &step, DL16, "mb out", "out", "", 0);
    source->gap[1] = 64;
    place_tensor(b, &step, source, 0, 128);
    case_tensor(b, &step, DL16, "out mb", "out", "", 1);
    finish_step(b, &step);
    return b;
}

// 100 x 67 elements in 128 x 128: valid extents differ between the two cores.
static inline bundle *case_restickify(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_step step = make_step(memory, OPFUNC_RESTICKIFY,
                                 (made_dim[]){{"mb", 128 * scale, 2}, {"out", 128, 1}, {0}});
    bundle_tensor *in = case_tensor(b, &step, DL16, "mb out", "out", "", 0);
    in->gap[0] = 28;
    place_tensor(b, &step, in, 0, 0);
    bundle_tensor *out = case_tensor(b, &step, DL16, "out mb", "mb", "", 1);
    out->gap[1] = 61;
    place_tensor(b, &step, out, 1, 0);
    finish_step(b, &step);
    return b;
}

// The last stick has 36 elements.
static inline bundle *case_max_masked(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_MAX, (made_dim[]){{"mb", 64 * scale, 2}, {"out", 128, 1}, {0}});
    step.masks[step.mask_count++] = (bundle_mask){1, 100, 28};
    step.mask_constant = 0;
    add_constant(&step, "samv-maskvalue", -HUGE_VALF);
    case_tensor(b, &step, DL16, "mb out", "out", "", 0);
    case_tensor(b, &step, DL16, "mb out", "out", "out", 1);
    finish_step(b, &step);
    return b;
}

// As torch-spyre's front-end writes topk(x, 4) of [128 * scale, 2000]; tiles of it count on.
static inline bundle *case_topk(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_TOPKINDEX,
        (made_dim[]){{"mb", 128 * scale, 2}, {"x", 4, 1}, {"out", 2000, 1}, {0}});
    case_tensor(b, &step, DL16, "out mb", "mb", "", 0);
    case_tensor(b, &step, SPYRE_FORMAT_IEEE_INT32, "x mb", "mb", "", 1);
    finish_step(b, &step);
    return b;
}

// Three cores share one output.
static inline bundle *case_mean_chain(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_MEAN, (made_dim[]){{"mb", 48 * scale, 3}, {"out", 256, 2}, {0}});
    step.nonstick = true;
    add_constant(&step, "scaling_factor", 1.0f / 48);
    case_tensor(b, &step, DL16, "out mb", "out", "", 0);
    case_tensor(b, &step, DL16, "mb out", "out", "mb", 1);
    finish_step(b, &step);
    return b;
}

// All of k fits: B stays.
static inline bundle *case_matmul(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 3, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_BATCHMATMUL,
        (made_dim[]){{"mb", 1024 * scale, 2}, {"out", 128, 1}, {"in", 256, 1}, {0}});
    case_tensor(b, &step, DL16, "mb in", "in", "", 0);
    case_tensor(b, &step, DL16, "in out", "out", "", 1);
    case_tensor(b, &step, DL16, "mb out", "out", "", 2);
    finish_step(b, &step);
    return b;
}

// Two cores split k; the result stays in LX, so it travels back.
static inline bundle *case_matmul_chain(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_BATCHMATMUL,
        (made_dim[]){{"mb", 8 * scale, 1}, {"out", 64, 1}, {"in", 8192, 2}, {0}});
    case_tensor(b, &step, DL16, "mb in", "in", "", 0);
    case_tensor(b, &step, DL16, "in out", "out", "", 1);
    case_tensor(b, &step, DL16, "mb out", "out", "", -1);
    finish_step(b, &step);
    return b;
}

static inline bundle *case_gather(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 3, 1 << 30);
    bundle_step step = make_step(
        memory, OPFUNC_IDENTITY, (made_dim[]){{"mb", 512 * scale, 2}, {"out", 256, 2}, {0}});
    bundle_tensor *index =
        case_tensor(b, &step, SPYRE_FORMAT_SENUINT32, "mb", "mb", "", 0);
    bundle_tensor *value = make_tensor(&step, "V", DL16, "mb out", "out", "");
    index->index_kind = BUNDLE_INDEX_INDEX;
    index->index_peer = 1;
    value->index_kind = BUNDLE_INDEX_VALUE;
    value->index_peer = 0;
    value->max_size[0] = 1;
    value->indexed_extent = 1000;
    place_tensor(b, &step, value, 1, 0);
    case_tensor(b, &step, DL16, "mb out", "out", "", 2);
    step.inputs[step.input_count++] = 1;
    step.indices[step.index_count++] = 0;
    step.output = 2;
    assert_ok(bundle_add_step(b, &step));
    return b;
}

// exx2 into LX, layernormscale in LX, inside a loop of the bundle.
static inline bundle *case_norm_loop(arena *memory, int64_t scale)
{
    bundle *b = make_bundle(memory, 2, 1 << 30);
    bundle_statement loop = {.kind = BUNDLE_LOOP, .count = 4}, end = {.kind = BUNDLE_END};
    assert_ok(VEC_PUSH(memory, &b->body, loop));
    bundle_step moments = make_step(
        memory, OPFUNC_EXX2, (made_dim[]){{"mb", 32 * scale, 2}, {"out", 512, 1}, {0}});
    add_constant(&moments, "exx2scale", 1.0f / 512);
    add_constant(&moments, "useZeroMean", 0);
    bundle_tensor *x = case_tensor(b, &moments, DL16, "mb out", "out", "", 0);
    x->loop_stride[0] = 1 << 20;
    case_tensor(b, &moments, DL16, "mb out", "out", "out", -1);
    finish_step(b, &moments);
    bundle_step inverse = make_step(memory, OPFUNC_LAYERNORMSCALE,
                                    (made_dim[]){{"out", 32 * scale, 2}, {"x", 64, 1}, {0}});
    add_constant(&inverse, "eps", 1e-5f);
    case_tensor(b, &inverse, DL16, "out x", "x", "x", -1);
    bundle_tensor *y = case_tensor(b, &inverse, DL16, "out x", "x", "", 1);
    y->loop_stride[0] = 1 << 14;
    finish_step(b, &inverse);
    assert_ok(VEC_PUSH(memory, &b->body, end));
    return b;
}

static const back_case back_cases[] = {
    {"add", case_add},
    {"square", case_square},
    {"exp_in_lx", case_exp_in_lx},
    {"slice_copy", case_slice_copy},
    {"restickify", case_restickify},
    {"max_masked", case_max_masked},
    {"topk", case_topk},
    {"mean_chain", case_mean_chain},
    {"matmul", case_matmul},
    {"matmul_chain", case_matmul_chain},
    {"gather", case_gather},
    {"norm_loop", case_norm_loop},
};
enum { BACK_CASES = sizeof back_cases / sizeof *back_cases };

#endif
