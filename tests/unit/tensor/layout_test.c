// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "spyre/layout.h"

// The layout prints as expected.
static void assert_prints(const spyre_layout *layout, const char *expected)
{
    char buffer[512];
    size_t length = spyre_layout_format(layout, buffer, sizeof buffer);
    assert_int_equal(length, strlen(buffer));
    assert_string_equal(buffer, expected);
}

#define DL16(size, map) \
    "SpyreTensorLayout(device_size=[" size "], stride_map =[" map                                 \
    "], device_dtype=DataFormats.SEN169_FP16)"

static void layout__default_examples(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank;
        int64_t size[SPYRE_MAX_RANK];
        const char *expected;
    } rows[] = {
        {0, {0}, DL16("1, 64", "-1, -1")},
        {1, {100}, DL16("2, 64", "64, 1")},
        {1, {1}, DL16("1, 64", "-1, -1")},
        {2, {1024, 256}, DL16("4, 1024, 64", "64, 256, 1")},
        {2, {8, 40}, DL16("1, 8, 64", "64, 40, 1")},
        {2, {8, 1}, DL16("1, 8, 64", "-1, 1, -1")},
        {3, {5, 100, 150}, DL16("100, 3, 5, 64", "150, 64, 15000, 1")},
        {3, {1, 7, 64}, DL16("7, 1, 1, 64", "64, 64, -1, 1")},
        {4, {2, 3, 4, 128}, DL16("3, 4, 2, 2, 64", "512, 128, 64, 1536, 1")},
        {6, {2, 2, 2, 2, 2, 2}, DL16("2, 2, 2, 2, 1, 2, 64", "16, 8, 4, 2, 64, 32, 1")},
        {2, {0, 5}, DL16("1, 0, 64", "64, 5, 1")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spyre_layout layout;
        assert_ok(spyre_layout_default(rows[i].size, rows[i].rank, SPYRE_DTYPE_F16, &layout));
        assert_ok(spyre_layout_check(&layout));
        assert_prints(&layout, rows[i].expected);
    }
}

static void layout__sticks_follow_the_dtype(void **state)
{
    (void)state;
    const int64_t size[] = {3, 100};
    spyre_layout layout;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F32, &layout));
    assert_int_equal(layout.device_size[2], 32);
    assert_int_equal(layout.device_size[0], 4);
    assert_int_equal(spyre_layout_bytes(&layout), 128 * 4 * 3);
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_I8, &layout));
    assert_int_equal(layout.device_size[2], 128);
    assert_int_equal(spyre_layout_bytes(&layout), 128 * 1 * 3);
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_I64, &layout));
    assert_int_equal(layout.format, SPYRE_FORMAT_IEEE_INT32);
    assert_int_equal(layout.device_size[2], 32);
}

static void layout__ordered_examples(void **state)
{
    (void)state;
    const int64_t size[] = {512, 256}, stride[] = {256, 1}, transposed[] = {1, 512};
    const int32_t sparse[] = {0, 1, -1}, swapped[] = {1, 0}, same[] = {0, 1};
    spyre_layout layout;
    assert_ok(spyre_layout_ordered(size, stride, 2, SPYRE_DTYPE_F16, sparse, 3, &layout));
    assert_prints(&layout, DL16("256, 1, 512, 64", "1, -1, 256, -1"));
    assert_ok(spyre_layout_ordered(size, stride, 2, SPYRE_DTYPE_F16, swapped, 2, &layout));
    assert_prints(&layout, DL16("8, 256, 64", "16384, 1, 256"));
    assert_ok(spyre_layout_ordered(size, transposed, 2, SPYRE_DTYPE_F16, same, 2, &layout));
    assert_prints(&layout, DL16("4, 512, 64", "32768, 1, 512"));
    const int64_t cube[] = {512, 8, 256}, steps[] = {2048, 256, 1};
    const int32_t inner[] = {0, 2, 1};      // sticks of a dim that has less than one
    assert_ok(spyre_layout_ordered(cube, steps, 3, SPYRE_DTYPE_F16, inner, 3, &layout));
    assert_prints(&layout, DL16("256, 1, 512, 64", "1, 16384, 2048, 256"));
}

static void layout__default_is_the_identity_order(void **state)
{
    (void)state;
    const int64_t size[] = {3, 5, 70}, stride[] = {350, 70, 1};
    const int32_t order[] = {0, 1, 2}, other[] = {1, 0, 2};
    spyre_layout a, b;
    assert_ok(spyre_layout_default(size, 3, SPYRE_DTYPE_F16, &a));
    assert_ok(spyre_layout_ordered(size, stride, 3, SPYRE_DTYPE_F16, order, 3, &b));
    assert_true(spyre_layout_equal(&a, &b));
    b.arrangement = SPYRE_ARRANGEMENT_EXX2;
    assert_false(spyre_layout_equal(&a, &b));
    assert_ok(spyre_layout_ordered(size, stride, 3, SPYRE_DTYPE_F16, other, 3, &b));
    assert_false(spyre_layout_equal(&a, &b));
}

static void layout__wrong_arguments_are_named(void **state)
{
    (void)state;
    const spyre_code invalid = SPYRE_INVALID_ARGUMENT;
    const int64_t size[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2}, stride[2] = {2, 1}, negative[2] = {2, -1};
    const int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    const int32_t twice[] = {0, 0}, beyond[] = {0, 2}, early[] = {-1, 0}, three[] = {0, 1, 0};
    spyre_layout layout;
    assert_error(spyre_layout_default(size, 9, SPYRE_DTYPE_F16, &layout), SPYRE_UNSUPPORTED,
                 "Unsupported tensor rank");
    assert_error(spyre_layout_default(size, 2, SPYRE_DTYPE_F64, &layout), SPYRE_UNSUPPORTED,
                 "does not support dtype float64");
    assert_error(spyre_layout_default(negative, 2, SPYRE_DTYPE_F16, &layout), invalid,
                 "size[1] is -1");
    assert_error(spyre_layout_default(huge, 2, SPYRE_DTYPE_F16, &layout), invalid, "2^63");
    const int32_t *orders[] = {twice, beyond, early};
    for (int i = 0; i < 3; i++) {
        assert_error(spyre_layout_ordered(size, stride, 2, SPYRE_DTYPE_F16, orders[i], 2, &layout),
                     invalid, "must name each of 2 dims once");
    }
    assert_error(spyre_layout_ordered(size, stride, 2, SPYRE_DTYPE_F16, three, 3, &layout), invalid,
                 "Incompatible host_size and dim_order");
    assert_error(spyre_layout_ordered(size, negative, 2, SPYRE_DTYPE_F16, three, 2, &layout),
                 invalid, "stride[1] is -1");
}

static void layout__check_names_the_field(void **state)
{
    (void)state;
    const spyre_code invalid = SPYRE_INVALID_ARGUMENT;
    const spyre_layout good = {.rank = 2, .device_size = {2, 64}, .stride_map = {64, 1}};
    spyre_layout wrong = good;
    assert_ok(spyre_layout_check(&good));
    wrong.rank = 17;
    assert_error(spyre_layout_check(&wrong), invalid, "17 device dims");
    wrong = good, wrong.rank = 0;
    assert_error(spyre_layout_check(&wrong), invalid, "0 device dims");
    wrong = good, wrong.device_size[1] = 65;
    assert_error(spyre_layout_check(&wrong), invalid, "device_size[1] is 65, must be 1..64");
    wrong = good, wrong.device_size[0] = -2;
    assert_error(spyre_layout_check(&wrong), invalid, "device_size[0] is -2");
    wrong = good, wrong.stride_map[0] = -2;
    assert_error(spyre_layout_check(&wrong), invalid, "stride_map[0] is -2");
    wrong = good, wrong.format = SPYRE_FORMAT_INVALID;
    assert_error(spyre_layout_check(&wrong), invalid, "device_dtype INVALID");
    wrong = good, wrong.arrangement = (spyre_arrangement)9;
    assert_error(spyre_layout_check(&wrong), invalid, "element_arrangement 9");
    wrong = good, wrong.device_size[0] = INT64_MAX / 2;
    assert_error(spyre_layout_check(&wrong), invalid, "2^63 bytes");
    // The pool tensor of other front-ends shows one byte of each stick.
    const spyre_layout pool = {.rank = 3, .device_size = {7, 1, 1}, .stride_map = {1, -1, -1},
                               .format = SPYRE_FORMAT_SENINT8};
    assert_ok(spyre_layout_check(&pool));
    assert_int_equal(spyre_layout_bytes(&pool), 7 * 128);
}

static void layout__format_respects_the_capacity(void **state)
{
    (void)state;
    spyre_layout layout = {.rank = 2, .device_size = {2, 64}, .stride_map = {64, 1},
                           .arrangement = SPYRE_ARRANGEMENT_DL16_TO_FP32};
    char whole[256], part[16];
    size_t length = spyre_layout_format(&layout, whole, sizeof whole);
    assert_int_equal(length, strlen(whole));
    assert_non_null(strstr(whole, "element_arrangement=ElementArrangement.DL16_TO_FP32)"));
    memset(part, '#', sizeof part);
    assert_int_equal(spyre_layout_format(&layout, part, 8), length);
    assert_memory_equal(part, "SpyreTe\0########", 16);
    assert_int_equal(spyre_layout_format(&layout, NULL, 0), length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout__default_examples),
        cmocka_unit_test(layout__sticks_follow_the_dtype),
        cmocka_unit_test(layout__ordered_examples),
        cmocka_unit_test(layout__default_is_the_identity_order),
        cmocka_unit_test(layout__wrong_arguments_are_named),
        cmocka_unit_test(layout__check_names_the_field),
        cmocka_unit_test(layout__format_respects_the_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
