// SPDX-License-Identifier: Apache-2.0
//
// Transfers that are refused, or that stay inside their buffers whatever the layout says.
#include "unit/check.h"

#include <stdlib.h>

#include "dci_sample.h"
#include "tensor/convert.h"

static void dci_invalid__wrong_layouts_are_refused(void **state)
{
    (void)state;
    static const char message[] = "Invalid device sizes and stride map";
    arena *memory = arena_create();
    const int64_t size[] = {10, 150};
    spyre_view host = dense_view(size, 2);
    spyre_layout good, wrong;
    dci transfer;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &good));
    assert_ok(dci_build(memory, &host, &good, SPYRE_DTYPE_F16, &transfer));
    const struct {
        int64_t device_size[3];
        int64_t stride_map[3];
    } rows[] = {
        {{2, 10, 64}, {64, 150, 1}},        // a tile is missing
        {{3, 9, 64}, {64, 150, 1}},         // a row is missing
        {{3, 10, 64}, {64, 151, 1}},        // rows overlap nothing
        {{3, 10, 64}, {70, 150, 1}},        // a gap between tiles
        {{3, 10, 64}, {64, 150, 2}},        // every other element
        {{3, 10, 64}, {64, 64, 1}},         // two dims of one stride
        {{3, 10, 64}, {64, -1, 1}},         // rows have no image
        {{3, 10, 64}, {64, 0, 1}},          // all rows are one
        {{3, 10, 64}, {64, 150, -1}},       // lanes have no image
        {{0, 10, 64}, {64, 150, 1}},        // no tiles
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wrong = good;
        memcpy(wrong.device_size, rows[i].device_size, sizeof rows[i].device_size);
        memcpy(wrong.stride_map, rows[i].stride_map, sizeof rows[i].stride_map);
        assert_error(dci_build(memory, &host, &wrong, SPYRE_DTYPE_F16, &transfer),
                     SPYRE_INVALID_ARGUMENT, message);
    }
    host.stride[0] = 151;
    assert_error(dci_build(memory, &host, &good, SPYRE_DTYPE_F16, &transfer),
                 SPYRE_INVALID_ARGUMENT, message);
    host = dense_view((const int64_t[]){11, 150}, 2);
    assert_error(dci_build(memory, &host, &good, SPYRE_DTYPE_F16, &transfer),
                 SPYRE_INVALID_ARGUMENT, "1650 host elements");
    wrong = good;
    wrong.device_size[2] = 99;
    assert_error(dci_build(memory, &host, &wrong, SPYRE_DTYPE_F16, &transfer),
                 SPYRE_INVALID_ARGUMENT, "device_size[2] is 99");
    arena_destroy(memory);
}

// Random sizes and strides never crash and never give copies that leave either buffer.
static void dci_invalid__random_nonsense_is_refused_or_inside(void **state)
{
    (void)state;
    static const int64_t steps[] = {-1, 0, 1, 2, 3, 64, 128, 150, 192, 300, INT64_MAX};
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 64, 65, INT64_C(1) << 62};
    uint64_t seed = 10;
    uint32_t built = 0;
    arena *memory = arena_create();
    for (int i = 0; i < 50000; i++) {
        spyre_layout layout = {.rank = 1 + (uint32_t)(check_random(&seed) % 4)};
        for (uint32_t d = 0; d < layout.rank; d++) {
            layout.device_size[d] = sizes[check_random(&seed) % 8];
            layout.stride_map[d] = steps[check_random(&seed) % 11];
        }
        layout.device_size[layout.rank - 1] = 64;
        const int64_t size[] = {(int64_t)(check_random(&seed) % 4), i % 2 ? 150 : 64};
        spyre_view host = dense_view(size, 2);
        dci transfer;
        spyre_status status = dci_build(memory, &host, &layout, SPYRE_DTYPE_F16, &transfer);
        int64_t moved = 0;
        for (uint32_t k = 0; !status && k < transfer.copy_count; k++) {
            const dci_copy *copy = &transfer.copies[k];
            int64_t last_host = copy->host_offset, last_card = copy->card_offset, count = 1;
            for (uint32_t d = 0; d < copy->rank; d++) {
                last_host += (copy->size[d] - 1) * copy->host_stride[d];
                last_card += (copy->size[d] - 1) * copy->card_stride[d];
                count *= copy->size[d];
            }
            assert_in_range(last_host, 0, size[0] * size[1] - 1);
            assert_true(last_card < spyre_layout_bytes(&layout) / 2);
            moved += count;
        }
        int64_t repeats = 1;
        for (uint32_t d = 0; !status && moved && d < layout.rank; d++)
            if (layout.stride_map[d] == 0) repeats *= layout.device_size[d];
        if (!status) assert_int_equal(moved, repeats * size[0] * size[1]);
        built += !status && moved;
        spyre_status_free(status);
    }
    assert_true(built > 20);
    arena_destroy(memory);
}

static void dci_invalid__formats_must_convert(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const int64_t size[] = {3};
    spyre_view host = dense_view(size, 1);
    spyre_layout layout;
    dci transfer;
    assert_ok(spyre_layout_default(size, 1, SPYRE_DTYPE_F16, &layout));
    assert_error(dci_build(memory, &host, &layout, SPYRE_DTYPE_F64, &transfer), SPYRE_UNSUPPORTED,
                 "no conversion from INVALID");
    assert_error(dci_build(memory, &host, &layout, SPYRE_DTYPE_U8, &transfer), SPYRE_UNSUPPORTED,
                 "no conversion from uint8 to SEN169_FP16");
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dci_invalid__wrong_layouts_are_refused),
        cmocka_unit_test(dci_invalid__random_nonsense_is_refused_or_inside),
        cmocka_unit_test(dci_invalid__formats_must_convert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
