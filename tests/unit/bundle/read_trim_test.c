// SPDX-License-Identifier: Apache-2.0
//
// Conversions whose N_ is rounded up to the longer stick, into memory of the bundle's own.
#include "unit/bundle/golden.h"

#include "bundle/read.h"

enum { POOL_BYTES = 768, AT = 256 };

// fp8 of two rows to fp16 whose second stick is taken for dim "out" and a gap, and a step that
// reads `read` elements of it.
static bundle *converted_and_read(arena *memory, int64_t read, int64_t gap)
{
    const spyre_format fp8 = SPYRE_FORMAT_SEN143_FP8;
    bundle *b = make_bundle(memory, 3, 0);
    b->args.items[0] = (bundle_arg){.kind = BUNDLE_ARG_POOL, .bytes = POOL_BYTES};
    bundle_step s = make_step(memory, OPFUNC_FP8TODL16,
                              DIMS({"mb", 2, 2}, {"x", 128, 1}, {"out", 1, 1}));
    s.compute_format = fp8;
    place_tensor(b, &s, make_tensor(&s, "OUTPUT", fp8, "mb out x", "x", ""), 1, 0);
    bundle_tensor *result = make_tensor(&s, "KERNEL", DL16, "out mb x", "x", "");
    result->gap[2] = gap;
    place_tensor(b, &s, result, 0, AT);
    finish_step(b, &s);
    s = make_step(memory, OPFUNC_ABS, DIMS({"mb", 2, 2}, {"x", read, 1}, {"out", 1, 1}));
    s.name = "1_abs";
    result = make_tensor(&s, "OUTPUT", DL16, "out mb x", "x", "");
    result->gap[2] = gap;
    place_tensor(b, &s, result, 0, AT);
    place_tensor(b, &s, make_tensor(&s, "KERNEL", DL16, "mb out x", "x", ""), 2, 0);
    finish_step(b, &s);
    return b;
}

static void read_trim__what_no_step_reads_goes(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = converted_and_read(memory, 64, 1);
    assert_error(bundle_verify(b), SPYRE_INVALID_ARGUMENT, "reaches bytes 256 to 896 of the 768");
    read_trim_conversions(b);
    assert_int_equal(b->steps.items[0].size[1], 64);
    assert_ok(bundle_verify(b));
    arena_destroy(memory);
}

static void read_trim__all_else_stays(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *cases[] = {
        converted_and_read(memory, 128, 1),     // read
        converted_and_read(memory, 64, 0),      // no gap: the sticks are behind the rows
        converted_and_read(memory, 64, 1),      // of a launch: the host reads it
        converted_and_read(memory, 64, 1),      // no reader
        converted_and_read(memory, 64, 1),      // a reader of lane 0
    };
    cases[2]->args.items[0] = (bundle_arg){.kind = BUNDLE_ARG_TENSOR};
    cases[3]->steps.items[1].tensors[0].start = 0;
    cases[4]->steps.items[1].tensors[0].scale[1] = -2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_trim_conversions(cases[i]);
        assert_int_equal(cases[i]->steps.items[0].size[1], 128);
    }
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_trim__what_no_step_reads_goes),
        cmocka_unit_test(read_trim__all_else_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
