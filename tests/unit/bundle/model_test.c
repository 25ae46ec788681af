// SPDX-License-Identifier: Apache-2.0
#include "unit/bundle/golden.h"

static void model__strides_follow_the_tensor_s_own_order(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = make_bundle(memory, 1, 0);
    bundle_step s = make_step(memory, OPFUNC_ADD, DIMS({"mb", 6, 2}, {"x", 4, 1}, {"out", 192, 3}));
    bundle_tensor *t = make_tensor(&s, "OUTPUT", DL16, "x out mb", "out", "");
    bundle_geometry g;
    place_tensor(b, &s, t, 0, 256);
    assert_ok(bundle_tensor_geometry(b, &s, 0, &g));
    assert_int_equal(g.stride[1], 128);                 // x is fastest
    assert_int_equal(g.stride[2], 4 * 128);             // of a stick
    assert_int_equal(g.stride[0], 3 * 4 * 128);
    assert_int_equal(g.extent[2], 3);
    assert_int_equal(g.valid[2], 192);
    assert_true(g.moves[0] && g.moves[1] && g.moves[2]);
    assert_int_equal(g.bytes, 6 * 3 * 4 * 128);
    // Core 4 has slice 1 of mb and slice 1 of out.
    assert_int_equal(bundle_start(t, 4), 256 + 3 * 3 * 4 * 128 + 4 * 128);
    // LX holds the core's slice only.
    place_tensor(b, &s, t, -1, 0);
    assert_ok(bundle_tensor_geometry(b, &s, 0, &g));
    assert_int_equal(g.stride[0], 4 * 128);
    assert_int_equal(g.bytes, 3 * 4 * 128);
    arena_destroy(memory);
}

static void model__absent_dims_do_not_move(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = make_bundle(memory, 1, 0);
    bundle_step s = make_step(memory, OPFUNC_ADD, DIMS({"mb", 6, 1}, {"x", 4, 1}, {"out", 192, 1}));
    bundle_geometry g;
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", FP32, "x out mb", "out", "x out"), 0, 0);
    assert_ok(bundle_tensor_geometry(b, &s, 0, &g));
    assert_false(g.moves[1] || g.moves[2]);
    assert_int_equal(g.stride[1], 0);
    assert_int_equal(g.stride[0], 128);                 // one stick an element
    assert_int_equal(g.bytes, 6 * 128);
    arena_destroy(memory);
}

static void model__gaps_widen_a_view(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = make_bundle(memory, 1, 0);
    bundle_step s = make_step(memory, OPFUNC_ADD, DIMS({"mb", 6, 1}, {"out", 64, 1}, {"x", 2, 1}));
    bundle_tensor *t = make_tensor(&s, "OUTPUT", DL16, "mb out x", "out", "");
    bundle_geometry g;
    t->gap[0] = 4;
    t->gap[1] = 100;
    place_tensor(b, &s, t, 0, 0);
    assert_ok(bundle_tensor_geometry(b, &s, 0, &g));
    assert_int_equal(g.extent[0], 10);
    assert_int_equal(g.extent[1], 3);                   // 164 elements are 3 sticks
    assert_int_equal(g.stride[2], 3 * 10 * 128);
    assert_int_equal(g.valid[0], 6);
    assert_int_equal(g.bytes, (3 * 10 + 5 + 1) * 128);  // to the last stick that is used
    arena_destroy(memory);
}

static void model__relayout_reverses_the_sign_of_gaps(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = golden_restickify(memory);
    bundle_step *s = &b->steps.items[0];
    bundle_geometry g;
    assert_ok(bundle_tensor_geometry(b, s, 0, &g));
    assert_int_equal(g.extent[1], 67);
    assert_int_equal(g.valid[1], 67);
    assert_int_equal(g.stride[0], 67 * 128);
    assert_ok(bundle_tensor_geometry(b, s, 1, &g));
    assert_int_equal(g.valid[0], 100);
    assert_int_equal(g.valid[1], 128);
    assert_int_equal(g.stride[1], 100 * 128);
    // Elsewhere a negative gap means fewer indices.
    b = golden_matmul(memory);
    s = &b->steps.items[0];
    assert_ok(bundle_tensor_geometry(b, s, 1, &g));
    assert_int_equal(g.valid[2], 100);
    assert_int_equal(g.extent[2], 100);
    assert_int_equal(g.bytes, 100 * 128);
    assert_int_equal(bundle_unmasked_size(s, 2), 100);
    assert_int_equal(bundle_unmasked_size(s, 1), 64);
    arena_destroy(memory);
}

static void model__indexed_extent(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = golden_gather(memory);
    bundle_step *s = &b->steps.items[0];
    bundle_geometry g;
    assert_int_equal(bundle_indexed_dim(s, 1), 0);
    assert_int_equal(bundle_indexed_dim(s, 2), -1);
    assert_ok(bundle_tensor_geometry(b, s, 1, &g));
    assert_int_equal(g.valid[0], 10);
    assert_int_equal(g.stride[1], 10 * 128);
    s->tensors[1].indexed_extent = 0;
    b->args.items[1].bytes = 2 * 37 * 128 + 128;
    assert_ok(bundle_tensor_geometry(b, s, 1, &g));
    assert_int_equal(g.valid[0], 37);
    assert_int_equal(g.stride[1], 37 * 128);
    b->args.items[1].bytes = 0;
    assert_error(bundle_tensor_geometry(b, s, 1, &g), SPYRE_INVALID_ARGUMENT,
                 "Tensor1: the extent of indexed dim mb is unknown");
    arena_destroy(memory);
}

static void model__too_large(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = make_bundle(memory, 1, 0);
    bundle_step s = make_step(memory, OPFUNC_ADD,
                              DIMS({"mb", 1LL << 38, 1}, {"x", 1LL << 39, 1}, {"out", 64, 1}));
    bundle_geometry g;
    make_tensor(&s, "OUTPUT", DL16, "mb x out", "out", "");
    assert_error(bundle_tensor_geometry(b, &s, 0, &g), SPYRE_INVALID_ARGUMENT,
                 "Tensor0: the tensor is larger than a segment of 16 GiB");
    s.size[0] = 3;
    s.tensors[0].gap[0] = -3;
    assert_error(bundle_tensor_geometry(b, &s, 0, &g), SPYRE_INVALID_ARGUMENT,
                 "Tensor0: dim mb has 0 strides with its gap, at least 1 is needed");
    arena_destroy(memory);
}

static void model__reduced_dims(void **state)
{
    (void)state;
    arena *memory = arena_create();
    uint8_t dims[BUNDLE_MAX_DIMS];
    bundle *b = golden_matmul(memory);
    assert_int_equal(bundle_reduced_dims(b, &b->steps.items[0], dims), 1);
    assert_int_equal(dims[0], 2);
    b = golden_mean_rows(memory);
    assert_int_equal(bundle_reduced_dims(b, &b->steps.items[0], dims), 1);
    assert_int_equal(dims[0], 1);
    b = golden_add_scalar(memory);
    assert_int_equal(bundle_reduced_dims(b, &b->steps.items[0], dims), 0);
    arena_destroy(memory);
}

static void model__steps_execute_in_order(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = golden_softmax(memory);
    assert_int_equal(b->steps.count, 5);
    assert_int_equal(b->body.count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(b->body.items[i].kind, BUNDLE_EXECUTE);
        assert_int_equal(b->body.items[i].step, i);
    }
    assert_true(bundle_constant_value(&b->steps.items[3], 0) == 0.0f);
    assert_int_equal(bundle_find_constant(&b->steps.items[3], "samv-maskvalue"), 0);
    assert_int_equal(bundle_find_constant(&b->steps.items[3], "eps"), -1);
    assert_int_equal(bundle_slice_start(&b->steps.items[0], 1, 0), 2);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model__strides_follow_the_tensor_s_own_order),
        cmocka_unit_test(model__absent_dims_do_not_move),
        cmocka_unit_test(model__gaps_widen_a_view),
        cmocka_unit_test(model__relayout_reverses_the_sign_of_gaps),
        cmocka_unit_test(model__indexed_extent),
        cmocka_unit_test(model__too_large),
        cmocka_unit_test(model__reduced_dims),
        cmocka_unit_test(model__steps_execute_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
