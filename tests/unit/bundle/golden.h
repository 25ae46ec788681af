// SPDX-License-Identifier: Apache-2.0
//
// Bundles made by hand for the tests of this module: a few functions that build steps and place
// tensors, and the cases whose files lie in tests/golden/bundle.
#ifndef UNIT_BUNDLE_GOLDEN_H
#define UNIT_BUNDLE_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>

#include "bundle/step_facts.h"
#include "bundle/interpret.h"
#include "bundle/model.h"
#include "unit/check.h"

typedef struct {
    const char *name;
    int64_t size;
    int32_t slices;
} made_dim;

// A step over `dims` with all cores, the last dim's slices fastest. The list ends with a null name.
static inline bundle_step make_step(arena *memory, opfunc op, const made_dim *dims)
{
    bundle_step_room *room = ARENA_NEW(memory, bundle_step_room, 1);
    assert_non_null(room);
    bundle_step step = bundle_begin_step(room);
    step.op = op;
    step.cores = ARENA_NEW(memory, bundle_division, 1);
    step.mask_constant = -1;
    assert_non_null(step.cores);
    step.cores->core_count = 1;
    step.compute_format = SPYRE_FORMAT_SEN169_FP16;
    step.name = arena_printf(memory, "0_%s", opfunc_describe(op)->name);
    step.tensors = ARENA_NEW(memory, bundle_tensor, BUNDLE_MAX_TENSORS);
    assert_non_null(step.tensors);
    for (; dims->name; dims++) {
        uint32_t d = step.dim_count++;
        snprintf(step.dim_name[d], sizeof step.dim_name[d], "%s", dims->name);
        step.size[d] = dims->size;
        step.cores->slices[d] = dims->slices;
        step.cores->core_count *= (uint32_t)dims->slices;
    }
    for (uint32_t core = 0; core < step.cores->core_count; core++) {
        int32_t rest = (int32_t)core;
        for (uint32_t d = step.dim_count; d-- > 0;) {
            step.cores->core_slice[core][d] = (uint8_t)(rest % step.cores->slices[d]);
            rest /= step.cores->slices[d];
        }
    }
    return step;
}

static inline uint8_t made_dim_number(const bundle_step *step, const char *name, size_t length)
{
    for (uint8_t d = 0; d < step->dim_count; d++) {
        if (strlen(step->dim_name[d]) == length && memcmp(step->dim_name[d], name, length) == 0) {
            return d;
        }
    }
    fail_msg("no dim %s", name);
    return 0;
}

// Adds a tensor of layout `order` ("mb out", fastest first), whose stick dim is `stick`; dims of
// `absent` ("out") have a negative scale. Place it next.
static inline bundle_tensor *make_tensor(bundle_step *step, const char *label, spyre_format format,
                                         const char *order, const char *stick, const char *absent)
{
    bundle_tensor *t = &step->tensors[step->tensor_count];
    snprintf(t->name, sizeof t->name, "Tensor%u", step->tensor_count++);
    snprintf(t->label, sizeof t->label, "%s", label);
    t->format = format;
    t->element_bytes = spyre_format_bytes(format);
    t->stick_elements = spyre_format_elements_per_stick(format);
    t->index_peer = -1;
    for (uint32_t d = 0; d < BUNDLE_MAX_DIMS; d++) t->max_size[d] = -1;
    for (const char *at = order; *at;) {
        size_t length = strcspn(at, " ");
        uint8_t d = made_dim_number(step, at, length);
        t->order[t->order_count++] = d;
        t->label_order[t->label_order_count++] = d;
        t->scale[d] = 1;
        at += length + (at[length] == ' ');
    }
    t->stick_dim = made_dim_number(step, stick, strlen(stick));
    for (const char *at = absent; *at;) {
        size_t length = strcspn(at, " ");
        uint8_t d = made_dim_number(step, at, length);
        t->scale[d] = d == t->stick_dim ? -2 : -1;
        at += length + (at[length] == ' ');
    }
    return t;
}

// Makes the stick one of several dims: "in 8 mb 2 in 8", the fastest first.
static inline void make_digits(const bundle_step *step, bundle_tensor *t, const char *digits)
{
    int64_t most = 0;
    for (const char *at = digits; *at;) {
        size_t length = strcspn(at, " ");
        bundle_digit *digit = &t->digits[t->digit_count++];
        digit->dim = made_dim_number(step, at, length);
        digit->size = (uint16_t)strtol(at + length, (char **)(uintptr_t)&at, 10);
        at += *at == ' ';
    }
    for (uint32_t n = 0; n < t->digit_count; n++) {
        int64_t span = bundle_stick_span(t, t->digits[n].dim);
        if (span > most) t->stick_dim = t->digits[n].dim, most = span;
    }
}

// A window of input 0 along `dim`, whose extent there is `extent`.
static inline void make_window(bundle_step *step, const char *dim, const char *kernel,
                               int64_t stride, int64_t dilation, int64_t front, int64_t extent)
{
    bundle_window *w = &step->windows[step->window_count++];
    *w = (bundle_window){.dim = made_dim_number(step, dim, strlen(dim)),
                         .kernel = made_dim_number(step, kernel, strlen(kernel)),
                         .stride = stride,
                         .dilation = dilation,
                         .front = front};
    int64_t span = (step->size[w->dim] - 1) * stride + (step->size[w->kernel] - 1) * dilation + 1;
    w->back = span > front + extent ? span - front - extent : 0;
    w->total = front + extent + w->back;
}

// Moves where one core finds the tensor.
static inline void put_start(const bundle *b, const bundle_step *step, bundle_tensor *t,
                             uint32_t core, int64_t start)
{
    int64_t starts[BUNDLE_MAX_CORES];
    const uint32_t count = step->cores->core_count;
    for (uint32_t c = 0; c < count; c++) starts[c] = c == core ? start : bundle_start(t, c);
    assert_ok(bundle_set_starts(b->memory, count, starts, t));
}

// Puts the tensor at `offset` of a launch argument (arg < 0: of LX) with every core at its slice.
static inline void place_tensor(const bundle *b, const bundle_step *step, bundle_tensor *t,
                                int32_t arg, int64_t offset)
{
    bundle_geometry g;
    t->in_lx = arg < 0;
    t->arg = arg;
    t->start = offset;
    t->core_offset = NULL;
    assert_ok(bundle_tensor_geometry(b, step, (uint32_t)(t - step->tensors), &g));
    for (uint32_t core = 0; core < step->cores->core_count && arg >= 0; core++) {
        int64_t start = offset;
        for (uint32_t d = 0; d < step->dim_count; d++) {
            int64_t first = bundle_slice_start(step, core, d);
            first /= bundle_stick_span(t, d);
            if (g.moves[d]) start += first * g.stride[d];
        }
        put_start(b, step, t, core, start);
    }
}

// All tensors but the last are inputs. The step keeps its room, for tests that break it.
static inline void finish_step(bundle *b, bundle_step *step)
{
    step->input_count = 0;
    for (uint8_t t = 0; t + 1u < step->tensor_count; t++) step->inputs[step->input_count++] = t;
    step->output = (uint8_t)(step->tensor_count - 1);
    assert_ok(bundle_add_step(b, step));
    bundle_step *added = &b->steps.items[b->steps.count - 1];
    added->symbol_size = step->symbol_size;
    added->masks = step->masks;
    added->windows = step->windows;
    added->constants = step->constants;
}

static inline void add_args(bundle *b, uint32_t count, int64_t bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        bundle_arg arg = {.kind = BUNDLE_ARG_TENSOR, .bytes = bytes};
        assert_ok(VEC_PUSH(b->memory, &b->args, arg));
    }
}

static inline void add_constant(bundle_step *step, const char *name, float value)
{
    bundle_constant *constant = &step->constants[step->constant_count++];
    snprintf(constant->name, sizeof constant->name, "%s", name);
    constant->format = SPYRE_FORMAT_IEEE_FP32;
    element_store(&constant->bits, SPYRE_FORMAT_IEEE_FP32, (double)value);
}

static inline bundle *make_bundle(arena *memory, uint32_t args, int64_t bytes)
{
    bundle *b = bundle_create(memory);
    assert_non_null(b);
    add_args(b, args, bytes);
    return b;
}

#define DIMS(...) ((const made_dim[]){__VA_ARGS__, {NULL, 0, 0}})
#define DL16 SPYRE_FORMAT_SEN169_FP16
#define FP32 SPYRE_FORMAT_IEEE_FP32

// --- The cases

// Two cores add two matrices; the second is one value for all.
static inline bundle *golden_add_scalar(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 0);
    bundle_step s = make_step(memory, OPFUNC_ADD, DIMS({"mb", 4, 2}, {"out", 128, 1}));
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "mb out"), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 2, 0);
    finish_step(b, &s);
    return b;
}

// k is split over two cores, padded and masked; the kernel has no rows for the padding.
static inline bundle *golden_matmul(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 0);
    bundle_step s = make_step(memory, OPFUNC_BATCHMATMUL,
                              DIMS({"mb", 3, 1}, {"out", 64, 1}, {"in", 128, 2}));
    place_tensor(b, &s, make_tensor(&s, "INPUT", DL16, "mb in", "in", ""), 0, 0);
    bundle_tensor *kernel = make_tensor(&s, "KERNEL", DL16, "in out", "out", "");
    kernel->gap[2] = -28;
    place_tensor(b, &s, kernel, 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 2, 0);
    s.masks[s.mask_count++] = (bundle_mask){2, 100, 28};
    finish_step(b, &s);
    return b;
}

// Softmax of rows of 100: the masked maximum and the sum stay in LX.
static inline bundle *golden_softmax(arena *memory)
{
    bundle *b = make_bundle(memory, 2, 0);
    const made_dim dims[] = {{"mb", 4, 2}, {"out", 128, 1}, {NULL, 0, 0}};
    for (uint32_t i = 0; i < 5; i++) {
        static const opfunc ops[] = {OPFUNC_MAX, OPFUNC_SUB, OPFUNC_EXP, OPFUNC_SUM,
                                     OPFUNC_REALDIV};
        bool reduces = i == 0 || i == 3, binary = i == 1 || i == 4;
        bundle_step s = make_step(memory, ops[i], dims);
        s.name = arena_printf(memory, "%u_%s", i, opfunc_describe(ops[i])->name);
        bool from_memory = i < 2;
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""),
                     from_memory ? 0 : -1, from_memory ? 0 : 4096);
        if (binary) {
            place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "out"), -1, 0);
        }
        bundle_tensor *out = make_tensor(&s, "OUTPUT", DL16, "mb out", "out", reduces ? "out" : "");
        place_tensor(b, &s, out, i == 4 ? 1 : -1, reduces || i == 4 ? 0 : 4096);
        if (reduces) {
            s.masks[s.mask_count++] = (bundle_mask){1, 100, 28};
            s.mask_constant = 0;
            add_constant(&s, "samv-maskvalue", opfunc_reduction_identity(ops[i]));
        }
        finish_step(b, &s);
    }
    return b;
}

// Columns summed over rows that four cores share.
static inline bundle *golden_mean_rows(arena *memory)
{
    bundle *b = make_bundle(memory, 2, 0);
    bundle_step s = make_step(memory, OPFUNC_MEAN, DIMS({"mb", 64, 1}, {"out", 8, 4}));
    s.nonstick = true;
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "mb", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "mb", "out"), 1, 0);
    add_constant(&s, "scaling_factor", 0.125f);
    finish_step(b, &s);
    return b;
}

// The three largest of 5 rows in 128 columns and where they are, as torch-spyre's front-end has it.
static inline bundle *golden_topk(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 0);
    for (int32_t i = 0; i < 2; i++) {
        bundle_step s = make_step(memory, i ? OPFUNC_TOPKINDEX : OPFUNC_TOPKVALUE,
                                  DIMS({"mb", 128, 2}, {"x", 3, 1}, {"out", 5, 1}));
        s.name = arena_printf(memory, "%d_%s", i, opfunc_describe(s.op)->name);
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "mb", ""), 0, 0);
        place_tensor(b, &s, make_tensor(&s, "KERNEL", DL16, "x mb", "mb", ""), i + 1, 0);
        finish_step(b, &s);
    }
    return b;
}

// A transposition of 67 x 100, both padded to whole sticks.
static inline bundle *golden_restickify(arena *memory)
{
    bundle *b = make_bundle(memory, 2, 0);
    bundle_step s = make_step(memory, OPFUNC_RESTICKIFY, DIMS({"mb", 128, 1}, {"out", 128, 2}));
    bundle_tensor *source = make_tensor(&s, "OUTPUT", DL16, "out mb", "mb", "");
    source->gap[1] = 61;
    place_tensor(b, &s, source, 0, 0);
    bundle_tensor *target = make_tensor(&s, "KERNEL", DL16, "mb out", "out", "");
    target->gap[0] = 28;
    place_tensor(b, &s, target, 1, 0);
    finish_step(b, &s);
    return b;
}

// Rows of a table of 10 by a vector of 4 indices.
static inline bundle *golden_gather(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 0);
    bundle_step s = make_step(memory, OPFUNC_IDENTITY, DIMS({"mb", 4, 1}, {"out", 128, 2}));
    bundle_tensor *index = make_tensor(&s, "KERNEL_IDX", SPYRE_FORMAT_SENUINT32, "mb", "mb", "");
    index->index_kind = BUNDLE_INDEX_INDEX;
    index->index_peer = 1;
    place_tensor(b, &s, index, 0, 0);
    bundle_tensor *value = make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "");
    value->index_kind = BUNDLE_INDEX_VALUE;
    value->index_peer = 0;
    value->max_size[0] = 1;
    value->indexed_extent = 10;
    place_tensor(b, &s, value, 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 2, 0);
    finish_step(b, &s);
    bundle_step *added = &b->steps.items[0];
    added->inputs[0] = 1;
    added->input_count = 1;
    added->indices[0] = 0;
    added->index_count = 1;
    return b;
}

// Rows of 4 cores in LX become columns of 2, each of which two cores get.
static inline bundle *golden_shuffle(arena *memory)
{
    bundle *b = make_bundle(memory, 0, 0);
    bundle_step s =
        make_step(memory, OPFUNC_SHUFFLE, DIMS({"mb", 4, 1}, {"x", 2, 2}, {"out", 128, 2}));
    bundle_division *owners = ARENA_NEW(memory, bundle_division, 1);
    assert_non_null(owners);
    *owners = (bundle_division){.core_count = 4, .slices = {4, 1, 1}};
    for (uint8_t core = 0; core < 4; core++) owners->core_slice[core][0] = (uint8_t)(3 - core);
    bundle_tensor *source = make_tensor(&s, "OUTPUT", DL16, "mb x out", "out", "x");
    source->owners = owners;
    place_tensor(b, &s, source, -1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb x out", "out", "x"), -1, 1024);
    finish_step(b, &s);
    return b;
}

// exx2, layernormscale, layernormnorm with weight and bias; the moments lie in the pool.
static inline bundle *golden_layernorm(arena *memory)
{
    bundle *b = make_bundle(memory, 5, 0);
    b->args.items[0].kind = BUNDLE_ARG_POOL;
    const made_dim dims[] = {{"mb", 4, 2}, {"out", 128, 1}, {NULL, 0, 0}};
    bundle_step s = make_step(memory, OPFUNC_EXX2, dims);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "out"), 0, 0);
    add_constant(&s, "exx2scale", 1.0f / 128.0f);
    add_constant(&s, "useZeroMean", 0.0f);
    finish_step(b, &s);
    s = make_step(memory, OPFUNC_LAYERNORMSCALE, DIMS({"out", 4, 2}, {"x", 64, 1}));
    s.name = "1_layernormscale";
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out x", "x", "x"), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out x", "x", ""), 0, 512);
    add_constant(&s, "eps", 1e-5f);
    finish_step(b, &s);
    s = make_step(memory, OPFUNC_LAYERNORMNORM, dims);
    s.name = "2_layernormnorm";
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "out"), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "out"), 0, 512);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "mb"), 2, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", "mb"), 3, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 4, 0);
    finish_step(b, &s);
    return b;
}

// Eight launch arguments, more than absolute addresses have segments; the pool is not the first.
static inline bundle *golden_many_arguments(arena *memory)
{
    bundle *b = make_bundle(memory, 8, 0);
    b->args.items[2].kind = BUNDLE_ARG_POOL;
    for (int32_t i = 0; i < 2; i++) {
        bundle_step s = make_step(memory, OPFUNC_MUL, DIMS({"mb", 2, 2}, {"out", 64, 1}));
        s.name = arena_printf(memory, "%d_mul", i);
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), i ? 2 : 0, 0);
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), i ? 6 : 1, 256);
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), i ? 7 : 2, 0);
        finish_step(b, &s);
    }
    return b;
}

// Two nested loops over tiles and one behind them; addresses advance by both.
static inline bundle *golden_loops(arena *memory)
{
    bundle *b = make_bundle(memory, 2, 0);
    bundle_statement outer = {.kind = BUNDLE_LOOP, .count = 3};
    bundle_statement inner = {.kind = BUNDLE_LOOP, .count = 2}, end = {.kind = BUNDLE_END};
    assert_ok(VEC_PUSH(memory, &b->body, outer));
    assert_ok(VEC_PUSH(memory, &b->body, inner));
    for (int32_t i = 0; i < 2; i++) {
        bundle_step s = make_step(memory, OPFUNC_NEG, DIMS({"mb", 2, 2}, {"out", 64, 1}));
        s.name = arena_printf(memory, "%d_neg", i);
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), i, 0);
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 1, i ? 2048 : 0);
        for (uint32_t t = 0; t < 2 && i == 0; t++) {
            s.tensors[t].loop_stride[0] = 512;
            s.tensors[t].loop_stride[1] = 256;
        }
        finish_step(b, &s);
        if (i == 0) assert_ok(VEC_PUSH(memory, &b->body, end));
        if (i == 0) assert_ok(VEC_PUSH(memory, &b->body, end));
    }
    return b;
}

// A launch chooses the rows of a sum, 4, 8 or 12 on two cores, and a loop negates as many tiles of
// two rows, which are 256 bytes apart.
static inline bundle *golden_sizes(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 0);
    const bundle_symbol rows = {.name = "rows", .granularity = 4, .most = 12};
    const bundle_statement loop = {.kind = BUNDLE_LOOP, .count = 6, .symbol = 1, .per = 2};
    const bundle_statement end = {.kind = BUNDLE_END};
    assert_ok(VEC_PUSH(memory, &b->symbols, rows));
    bundle_step s = make_step(memory, OPFUNC_ADD, DIMS({"mb", 12, 2}, {"out", 128, 1}));
    s.symbol[0] = 1;
    s.symbol_size[0] = (bundle_symbol_size){rows.most, rows.granularity};
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "out", "mb"), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "out", ""), 2, 0);
    finish_step(b, &s);
    assert_ok(VEC_PUSH(memory, &b->body, loop));
    s = make_step(memory, OPFUNC_NEG, DIMS({"mb", 2, 2}, {"out", 128, 1}));
    s.name = "1_neg";
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "out", ""), 2, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "out mb", "out", ""), 2, 0);
    for (uint32_t t = 0; t < 2; t++) s.tensors[t].loop_stride[0] = 512;
    finish_step(b, &s);
    assert_ok(VEC_PUSH(memory, &b->body, end));
    return b;
}

// SEN169_FP16 to IEEE_FP32 and back through LX.
static inline bundle *golden_casts(arena *memory)
{
    bundle *b = make_bundle(memory, 2, 0);
    const made_dim dims[] = {{"mb", 2, 1}, {"out", 64, 1}, {NULL, 0, 0}};
    bundle_step s = make_step(memory, OPFUNC_DL16TOFP32, dims);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "KERNEL", FP32, "mb out", "out", ""), -1, 128);
    finish_step(b, &s);
    s = make_step(memory, OPFUNC_FP32TODL16, dims);
    s.name = "1_fp32todl16";
    s.compute_format = FP32;
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", FP32, "mb out", "out", ""), -1, 128);
    place_tensor(b, &s, make_tensor(&s, "KERNEL", DL16, "mb out", "out", ""), 1, 0);
    finish_step(b, &s);
    return b;
}

// Wrapping arithmetic on integers in fp32's place.
static inline bundle *golden_integers(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 256);
    bundle_step s = make_step(memory, OPFUNC_MUL, DIMS({"mb", 2, 1}, {"out", 32, 1}));
    s.compute_format = SPYRE_FORMAT_IEEE_INT32;
    for (int32_t i = 0; i < 3; i++) {
        place_tensor(b, &s,
                     make_tensor(&s, "OUTPUT", SPYRE_FORMAT_IEEE_INT32, "mb out", "out", ""), i, 0);
    }
    finish_step(b, &s);
    return b;
}

// 5 rows on two cores, 3 and 2 of them, through LX; then 5 sticks as 2, 2 and 1.
static inline bundle *golden_uneven(arena *memory)
{
    bundle *b = make_bundle(memory, 2, 0);
    for (int32_t i = 0; i < 3; i++) {
        bundle_step s = make_step(memory, OPFUNC_NEG, i < 2 ? DIMS({"mb", 5, 2}, {"out", 320, 1})
                                                            : DIMS({"mb", 5, 1}, {"out", 320, 3}));
        s.name = arena_printf(memory, "%d_neg", i);
        s.cores->slice_size[i == 2] = i < 2 ? 3 : 128;
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), i == 2 ? 1 : -i,
                     i == 1 ? 256 : 0);
        place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), i ? 1 : -1,
                     i == 2 ? 4096 : i ? 0 : 256);
        finish_step(b, &s);
    }
    return b;
}

// A convolution by 3 x 3, of stride 2 along the lines, which two cores share; the image is padded
// by one.
static inline bundle *golden_convolution(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 0);
    bundle_step s = make_step(memory, OPFUNC_CONV2D,
                              DIMS({"mb", 1, 1}, {"i", 4, 2}, {"j", 3, 1}, {"out", 64, 1},
                                   {"ki", 3, 1}, {"kj", 3, 1}, {"in", 64, 1}));
    make_window(&s, "i", "ki", 1, 1, 1, 4);
    make_window(&s, "j", "kj", 2, 1, 1, 5);
    place_tensor(b, &s, make_tensor(&s, "INPUT", DL16, "j i mb in", "in", ""), 0, 0);
    place_tensor(b, &s, make_tensor(&s, "KERNEL", DL16, "in kj ki out", "out", ""), 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "j i mb out", "out", ""), 2, 0);
    finish_step(b, &s);
    return b;
}

// A product of int4 in the published sticks.
static inline bundle *golden_int4(arena *memory)
{
    bundle *b = make_bundle(memory, 3, 0);
    bundle_step s = make_step(memory, OPFUNC_BATCHMATMULINT4,
                              DIMS({"mb", 4, 2}, {"out", 128, 1}, {"in", 256, 1}));
    s.compute_format = SPYRE_FORMAT_SENINT4;
    bundle_tensor *input = make_tensor(&s, "INPUT", SPYRE_FORMAT_SENINT4, "mb in", "in", "");
    make_digits(&s, input, "in 16 mb 2 in 8");
    place_tensor(b, &s, input, 0, 0);
    bundle_tensor *kernel = make_tensor(&s, "KERNEL", SPYRE_FORMAT_SENINT4, "in out", "out", "");
    make_digits(&s, kernel, "in 4 out 64");
    place_tensor(b, &s, kernel, 1, 0);
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", DL16, "mb out", "out", ""), 2, 0);
    finish_step(b, &s);
    return b;
}

typedef struct {
    const char *name;
    bundle *(*make)(arena *memory);
    bool pool_first;
} golden_case;

static const golden_case golden_cases[] = {
    {"add_scalar", golden_add_scalar, false},
    {"casts", golden_casts, false},
    {"convolution", golden_convolution, false},
    {"gather", golden_gather, false},
    {"shuffle", golden_shuffle, false},
    {"int4", golden_int4, false},
    {"integers", golden_integers, false},
    {"layernorm", golden_layernorm, true},
    {"loops", golden_loops, false},
    {"many_arguments", golden_many_arguments, false},
    {"matmul", golden_matmul, false},
    {"mean_rows", golden_mean_rows, false},
    {"restickify", golden_restickify, false},
    {"sizes", golden_sizes, false},
    {"softmax", golden_softmax, false},
    {"topk", golden_topk, false},
    {"uneven", golden_uneven, false},
};
enum { GOLDEN_CASES = sizeof golden_cases / sizeof *golden_cases };

#endif
