// SPDX-License-Identifier: Apache-2.0
//
// Every rule once: a right bundle, one field broken, the message.
#include "unit/bundle/golden.h"

#include "bundle/verify.h"

static void verify__golden_cases_are_right(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GOLDEN_CASES; i++) {
        arena *memory = arena_create();
        assert_ok(bundle_verify(golden_cases[i].make(memory)));
        arena_destroy(memory);
    }
}

// Makes the named bundle; `s` is its first step, `t` that step's tensors.
#define BROKEN(maker, change, code, message)                  \
    do {                                                      \
        arena *memory_ = arena_create();                      \
        bundle *b = maker(memory_);                           \
        bundle_step *s = &b->steps.items[0];                  \
        bundle_tensor *t = s->tensors;                        \
        (void)t;                                              \
        change;                                               \
        assert_error(bundle_verify(b), (code), (message));    \
        arena_destroy(memory_);                               \
    } while (0)
#define BAD(maker, change, message) BROKEN(maker, change, SPYRE_INVALID_ARGUMENT, message)
#define LACKS(maker, change, message) BROKEN(maker, change, SPYRE_UNSUPPORTED, message)

static void verify__space(void **state)
{
    (void)state;
    BAD(golden_add_scalar, s->op = OPFUNC_NONE, "step 0 0_add: opFuncName: unknown opfunc");
    BAD(golden_add_scalar, s->dim_count = 11, "N_: 11 dims, 1 to 10 are possible");
    BAD(golden_add_scalar, s->dim_name[1][0] = '\0', "N_: dim 1 has no name");
    BAD(golden_add_scalar, memcpy(s->dim_name[1], "mb", 3), "N_: two dims mb");
    BAD(golden_add_scalar, s->size[0] = 0, "N_: dim mb has size 0, at least 1 is needed");
    BAD(golden_add_scalar, s->size[0] = 1LL << 40, "more than 2^40 points");
    BAD(golden_add_scalar, s->cores->slices[0] = 3, "3 slices do not divide dim mb of size 4");
    BAD(golden_add_scalar, s->cores->slices[0] = 0, "0 slices do not divide dim mb");
    BAD(golden_uneven, s->cores->slice_size[0] = 0, "2 slices do not divide dim mb of size 5");
    BAD(golden_uneven, s->cores->slice_size[0] = 5,
        "wkSliceSizePerDim_: 2 slices of 5 do not cover dim mb of size 5 with a shorter last one");
    BAD(golden_uneven, s->cores->slice_size[0] = 2, "2 slices of 2 do not cover dim mb of size 5");
    BAD(golden_uneven, s->cores->slice_size[0] = -1,
        "2 slices of -1 do not cover dim mb of size 5");
    BAD(golden_add_scalar, s->cores->slice_size[0] = 2,
        "2 slices of 2 do not cover dim mb of size 4");
    BAD(golden_add_scalar, s->cores->core_count = 33, "33 cores, 1 to 32 are possible");
    BAD(golden_add_scalar, s->cores->core_count = 1,
        "the slices multiply to 2, but 1 cores are used");
    BAD(golden_add_scalar, s->cores->core_slice[1][0] = 2,
        "core 1 has slice 2 of dim mb, which has 2");
    BAD(golden_add_scalar, s->cores->core_slice[1][0] = 0, "cores 0 and 1 own the same slices");
}

static void verify__layouts(void **state)
{
    (void)state;
    BAD(golden_add_scalar, t[0].order_count = 0, "Tensor0: layoutDimOrder_: 0 dims, 1 to 2");
    BAD(golden_add_scalar, t[0].order[0] = 5, "Tensor0: layoutDimOrder_: dim 5 is not in N_");
    BAD(golden_add_scalar, t[1].order[0] = 1, "Tensor1: layoutDimOrder_: dim out occurs twice");
    BAD(golden_add_scalar, t[2].label_order_count = 1, "not the dims of the shared layout OUTPUT");
    BAD(golden_gather, t[0].stick_dim = 1, "the stick dim is not in the layout");
    BAD(golden_gather, t[0].scale[1] = 1, "Tensor0: scale_: dim out is not in the layout");
    BAD(golden_add_scalar, t[0].scale[0] = 2, "scale_: 2 for dim mb, 1, -1 and -2 are possible");
    BAD(golden_add_scalar, t[1].scale[0] = -2, "scale_: -2 for dim mb, which is not the stick dim");
    BAD(golden_add_scalar, t[1].stick_dim = 0; t[1].scale[1] = -1,
        "primaryDsInfo_: Tensor0 and Tensor1 differ in the layout OUTPUT");
    LACKS(golden_add_scalar, t[0].format = SPYRE_FORMAT_SENINT4, "SENINT4 is not supported");
    BAD(golden_add_scalar, t[0].element_bytes = 4, "wordLength: 4, but SEN169_FP16 has 2 bytes");
    BAD(golden_add_scalar, t[0].stick_elements = 32,
        "stickSize_: 32 elements of 2 bytes are not a stick of 128 bytes");
    BAD(golden_matmul, s->cores->slices[1] = 2; s->cores->slices[2] = 1;
        s->cores->core_slice[1][1] = 1;
        s->cores->core_slice[1][2] = 0,
        "a slice of dim out has 32 elements, not whole sticks of 64");
}

static void verify__windows(void **state)
{
    (void)state;
    BAD(golden_convolution, s->windows[0].stride = 0, "paddingSizes_: dim i has stride 0");
    BAD(golden_convolution, s->windows[0].front = -1, "dim i has stride 1, dilation 1, padding -1");
    BAD(golden_convolution, s->windows[1].kernel = 11, "paddingSizes_: dims 2 and 11 of 7");
    BAD(golden_convolution, s->windows[1].total = 6,
        "windows of dim j reach over 7 of totalSize_ 6, of which 2 are padding");
    BAD(golden_convolution, s->windows[1].kernel = 4, "dim j or ki has two windows");
    BAD(golden_convolution, s->windows[1].kernel = 6; s->windows[1].total = 100,
        "neither has the window's in");
    BAD(golden_convolution, s->windows[0].front = 3; s->windows[0].back = 0;
        s->windows[0].total = 7,
        "window 0 of dim i is all padding");
    BAD(golden_convolution, s->window_count = 4, "paddingSizes_: 4 windows of conv2d");
    BAD(golden_matmul, s->window_count = 1, "paddingSizes_: 1 windows of batchmatmul");
    BAD(golden_convolution, s->op = OPFUNC_MAXPOOLFWD; s->window_count = 0,
        "inputLabeledDs: 2 inputs, maxpoolfwd has 1 to 1");
    BAD(golden_convolution, b->args.items[0].bytes = 4 * 5 * 128 - 1,
        "core 1 reaches bytes 640 to 2560 of the 2559 bytes");
    BAD(golden_convolution, s->op = OPFUNC_DEPTHWISECONV2D,
        "depthwiseconv2dnative reduces dim in, which is not a window's");
}

static void verify__sticks_of_several_dims(void **state)
{
    (void)state;
    BAD(golden_int4, t[0].digits[0].size = 8,
        "stickSize_: 128 elements, a stick of SENINT4 has 256");
    BAD(golden_int4, t[0].digits[1].dim = 1, "stickDimOrder_: dim 1 is not in the layout");
    LACKS(golden_int4, s->op = OPFUNC_BATCHMATMULINT8, "batchmatmulint8 of SENINT4");
    BAD(golden_int4, t[2].format = SPYRE_FORMAT_SENINT8; t[2].element_bytes = 1;
        t[2].stick_elements = 128, "dataFormat_: batchmatmulint4 to SENINT8");
    BAD(golden_int4, s->size[0] = 2, "a slice of dim mb has 1 elements, not whole sticks of 2");
    BAD(golden_matmul, s->op = OPFUNC_BATCHMATMULINT8, "batchmatmulint8 of SEN169_FP16");
    BAD(golden_int4, t[0].digit_count = 5, "stickDimOrder_: 5 dims, at most 4");
    LACKS(golden_softmax, b->body.items[0].step = 0; t[0].digit_count = 2;
          t[0].digits[0] = ((bundle_digit){0, 2}); t[0].digits[1] = ((bundle_digit){1, 32}),
          "stickDimOrder_: max of a stick of several dims");
}

static void verify__gaps(void **state)
{
    (void)state;
    BAD(golden_matmul, t[1].gap[2] = -128, "backGapCore_: -128 for dim in leaves nothing of 128");
    BAD(golden_matmul, t[1].gap[2] = -29,
        "dim in has 128 indices, but those from 99 on are not masked");
    BAD(golden_matmul, t[1].gap[2] = 1LL << 41, "for dim in is out of range");
    BAD(golden_add_scalar, t[0].gap[0] = -1, "those from 3 on are not masked");
    BAD(golden_restickify, t[1].gap[0] = 128, "backGapCore_: 128 for dim mb leaves nothing of 128");
    BAD(golden_softmax, b->body.items[0].step = 1; s[1].tensors[1].gap[0] = -1,
        "dim mb is split over cores, its part in LX cannot be shorter");
}

static void verify__addresses(void **state)
{
    (void)state;
    BAD(golden_add_scalar, t[0].arg = -1, "it is in LX, but component_ is hbm");
    BAD(golden_softmax, t[1].arg = 0, "it is in memory, but component_ is lx");
    BAD(golden_add_scalar, t[0].arg = 3, "launch argument 3 of 3");
    BAD(golden_add_scalar, put_start(b, s, &t[0], 1, 63),
        "core 1: 63 is not a multiple of 2 below");
    BAD(golden_add_scalar, t[0].start = -128, "core 0: -128 is not a multiple of 2");
    BAD(golden_loops, t[0].loop_stride[1] = 100, "a loop adds 100 bytes, not a multiple of 128");
    BAD(golden_loops, t[0].loop_stride[1] = 1LL << 40, "a loop adds 1099511627776 bytes");
    BAD(golden_integers, b->args.items[2].bytes = 255,
        "Tensor2: startAddressCoreCorelet_: core 0 reaches bytes 0 to 256 of the 255 bytes of its "
        "launch argument");
    BAD(golden_loops, b->args.items[0].bytes = 1536 - 128,
        "Tensor0: startAddressCoreCorelet_: core 1 reaches bytes 128 to 1536 of the 1408 bytes");
    BAD(golden_loops, b->args.items[0].bytes = 4096; t[0].loop_stride[0] = -128,
        "core 0 reaches bytes -256 to 384");
    BAD(golden_softmax, put_start(b, s, &t[1], 1, (2 << 20) - 128),
        "core 1 reaches bytes 2097024 to 2097280 of the 2097152 bytes of LX");
}

static void verify__operands(void **state)
{
    (void)state;
    BAD(golden_add_scalar, s->tensor_count = 0, "labeledDs_: 0 tensors");
    BAD(golden_add_scalar, s->input_count = 1, "inputLabeledDs: 1 inputs, add has 2 to 2");
    BAD(golden_add_scalar, s->output = 3, "outputLabeledDs: tensor 3 of 3");
    BAD(golden_add_scalar, s->inputs[0] = 7, "inputLabeledDs: tensor 7 of 3");
    BAD(golden_add_scalar, s->inputs[0] = 2, "inputLabeledDs: Tensor2 is the output");
    BAD(golden_add_scalar, s->inputs[0] = 1, "computeOp_: Tensor0 is neither input nor output");
    BAD(golden_mean_rows, s->constant_count = 0, "mean needs a constant scaling_factor");
    LACKS(golden_mean_rows, s->constants[0].format = SPYRE_FORMAT_SENINT2,
          "constantInfo_: scaling_factor has format SENINT2");
    LACKS(golden_mean_rows, t[0].format = SPYRE_FORMAT_SENINT16,
          "mean of integers is not supported");
    BAD(golden_mean_rows, s->nonstick = false, "opFuncName: mean, but the stick dim mb is kept");
    BAD(golden_softmax, s->nonstick = true, "maxnonstick, but the stick dim out is reduced");
    BAD(golden_softmax, t[1].scale[1] = 1; t[1].start = 0, "scale_: max reduces no dim");
    BAD(golden_add_scalar, t[2].scale[1] = -2, "the output lacks dim out, but add does not reduce");
    BAD(golden_add_scalar, t[0].scale[0] = t[2].scale[0] = -1,
        "cores that split dim mb would all write one output");
    BAD(golden_casts, s->op = OPFUNC_FP32TODL16, "fp32todl16 from SEN169_FP16 to IEEE_FP32");
}

static void verify__masks(void **state)
{
    (void)state;
    BAD(golden_softmax, s->masks[0].dim = 0, "coordinateMasking_: dim mb is not reduced");
    BAD(golden_softmax, s->masks[0].dim = 9, "a dim is unknown or masked twice");
    BAD(golden_softmax, s->mask_count = 2; s->masks[1] = s->masks[0], "masked twice");
    BAD(golden_softmax, s->masks[0].length = 27, "[100, 27] is not the end of dim out of size 128");
    BAD(golden_softmax, s->masks[0].start = 0; s->masks[0].length = 128, "[0, 128] is not the end");
    BAD(golden_softmax, s->mask_constant = 1, "maskingConstId_: 1 is not a constant of the step");
    BAD(golden_add_scalar, s->mask_count = 1; s->masks[0] = ((bundle_mask){1, 100, 28}),
        "coordinateMasking_: dim out is not reduced");
}

static void verify__live_lanes(void **state)
{
    (void)state;
    BAD(golden_add_scalar, s->live_lanes = 129, "liveLanes_: 129 of dim out, whose size is 128");
    BAD(golden_add_scalar, s->live_lanes = -1, "liveLanes_: -1 of dim out");
}

static void verify__rankings(void **state)
{
    (void)state;
    BAD(golden_topk, t[1].format = SPYRE_FORMAT_IEEE_INT32; t[1].element_bytes = 4;
        t[1].stick_elements = 32, "dataFormat_: topkvalue from SEN169_FP16 to IEEE_INT32");
    BAD(golden_topk, s->cores->slices[0] = 1; s->cores->slices[2] = 2; s->size[2] = 6;
        s->cores->core_slice[1][0] = 0;
        s->cores->core_slice[1][2] = 1, "numWkSlicesPerDim_: dim out of topkvalue cannot be split");
    BAD(golden_topk, s->cores->slices[0] = 1; s->cores->slices[1] = 2; s->size[1] = 4;
        s->cores->core_slice[1][0] = 0;
        s->cores->core_slice[1][1] = 1, "numWkSlicesPerDim_: dim x of topkvalue cannot be split");
    BAD(golden_topk, t[0].scale[2] = -1, "scale_: topkvalue reduces no dim");
    LACKS(golden_topk, s->size[1] = 1 << 21,
          "N_: topkvalue of 2097152 of 5, at most 1048576 of 2^31");
}

static void verify__gathers(void **state)
{
    (void)state;
    LACKS(golden_gather, s->op = OPFUNC_NEG, "1 index tensors of neg are not supported");
    BAD(golden_gather, t[0].index_kind = BUNDLE_INDEX_NONE, "Tensor0 must be the index tensor");
    BAD(golden_gather, t[0].index_peer = 2, "Tensor0 and Tensor1 do not name each other");
    BAD(golden_gather, t[0].format = FP32, "dataFormat_: an index of IEEE_FP32");
    BAD(golden_gather, t[2].format = SPYRE_FORMAT_IEEE_FP16,
        "a gather does not convert SEN169_FP16 to IEEE_FP16");
    BAD(golden_gather, s->inputs[0] = 2; s->output = 1; t[2].format = SPYRE_FORMAT_IEEE_FP16,
        "a scatter does not convert IEEE_FP16 to SEN169_FP16");
    LACKS(golden_gather, t[1].max_size[0] = -1, "Tensor1 needs exactly one indexed dim");
    LACKS(golden_gather, t[1].max_size[1] = 1, "Tensor1 needs exactly one indexed dim");
    BAD(golden_gather, t[1].indexed_extent = -1, "indexedDimSize_: -1");
    BAD(golden_add_scalar, t[0].index_kind = BUNDLE_INDEX_VALUE; t[0].indexed_extent = 4,
        "Tensor0 is indirect, but the step has no index tensor");
    LACKS(golden_gather, t[1].in_lx = true; t[1].arg = -1,
          "a value tensor in LX is not supported");
}

static void verify__bodies(void **state)
{
    (void)state;
    BAD(golden_loops, b->body.items[0].count = 0, "statement 0: a loop of 0 iterations");
    BAD(golden_loops, b->body.items[2].step = 2, "statement 2: step 2 of 2");
    BAD(golden_loops, b->body.items[0].kind = BUNDLE_END, "statement 0: an end without a loop");
    BAD(golden_loops, b->body.count = 4, "the body ends inside a loop");
    BAD(
        golden_loops,
        for (int i = 0; i < 4; i++)
            assert_ok(VEC_PUSH(b->memory, &b->body, b->body.items[0]));
        assert_ok(VEC_PUSH(b->memory, &b->body, b->body.items[0])),
        "more than 4 nested loops");
}

static void verify__shuffle(void **state)
{
    (void)state;
    static bundle_division o;
    bundle_step *at;
    arena *memory = arena_create();
    at = &golden_shuffle(memory)->steps.items[0];
    const bundle_division good = *at->tensors[0].owners;
#define OWNED(change, message) \
    o = good;                  \
    BAD(golden_shuffle, t[0].owners = &o; change, message)
    OWNED(o.slices[0] = 3, "Tensor0: coordinates_: 3 slices of dim mb of size 4");
    OWNED(o.slices[1] = 2, "coordinates_: 2 slices of dim x of size 2");
    OWNED(o.core_count = 2, "the slices multiply to 4, but 2 cores are used");
    OWNED(o.core_count = 33, "33 cores, 1 to 32 are possible");
    OWNED(o.core_slice[0][0] = 0, "coordinates_: coreIdToWkSlice_: cores 0 and 3 own the same");
    OWNED(o.core_slice[0][0] = 4, "core 0 has slice 4 of dim mb, which has 4");
    OWNED(o.slices[0] = 1; o.slices[2] = 4; for (uint8_t c = 0; c < 4; c++) {
        o.core_slice[c][0] = 0;
        o.core_slice[c][2] = c;
    }, "a slice of dim out has 32 elements, not whole sticks of 64");
#undef OWNED
    arena_destroy(memory);
    BAD(golden_shuffle, t[1].owners = t[0].owners,
        "the owners of a shuffle's output are not those of the step");
    BAD(golden_shuffle, s->op = OPFUNC_IDENTITY, "coordinates_: identity has owners of its own");
    BAD(golden_shuffle, t[0].gap[0] = 1; t[1].gap[0] = 1, "a shuffle moves all of dim mb");
    BAD(golden_shuffle, put_start(b, s, &t[0], 1, 128), "lie at one place on all cores");
    BAD(golden_shuffle, t[0].format = FP32; t[0].element_bytes = 4; t[0].stick_elements = 32;
        t[0].label[0] = 'A', "dataFormat_: shuffle from IEEE_FP32 to SEN169_FP16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verify__golden_cases_are_right),
        cmocka_unit_test(verify__space),
        cmocka_unit_test(verify__layouts),
        cmocka_unit_test(verify__windows),
        cmocka_unit_test(verify__sticks_of_several_dims),
        cmocka_unit_test(verify__gaps),
        cmocka_unit_test(verify__addresses),
        cmocka_unit_test(verify__shuffle),
        cmocka_unit_test(verify__operands),
        cmocka_unit_test(verify__masks),
        cmocka_unit_test(verify__live_lanes),
        cmocka_unit_test(verify__rankings),
        cmocka_unit_test(verify__gathers),
        cmocka_unit_test(verify__bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
