// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <stdlib.h>

#include "dci_sample.h"
#include "tensor/convert.h"

// --- Canonical copies

static void assert_copy(const dci_copy *copy, uint32_t rank, const int64_t *size,
                        const int64_t *card, const int64_t *host)
{
    assert_int_equal(copy->rank, rank);
    for (uint32_t i = 0; i < rank; i++) {
        assert_int_equal(copy->size[i], size[i]);
        assert_int_equal(copy->card_stride[i], card[i]);
        assert_int_equal(copy->host_stride[i], host[i]);
    }
}

static void dci__canonical_example(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const int64_t size[] = {1024, 256};
    spyre_view host = dense_view(size, 2);
    spyre_layout layout;
    dci transfer;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_F16, &transfer));
    assert_int_equal(transfer.copy_count, 1);
    assert_int_equal(transfer.card_format, SPYRE_FORMAT_SEN169_FP16);
    assert_int_equal(transfer.host_format, SPYRE_FORMAT_IEEE_FP16);
    assert_copy(transfer.copies, 3, (int64_t[]){64, 1024, 4}, (int64_t[]){1, 64, 65536},
                (int64_t[]){1, 256, 64});
    arena_destroy(memory);
}

static void dci__remainder_is_a_copy_of_its_own(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const int64_t size[] = {5, 150};
    spyre_view host = dense_view(size, 2);
    host.offset = 7;
    spyre_layout layout;
    dci transfer;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_F16, &transfer));
    assert_int_equal(transfer.copy_count, 2);
    const int64_t card[] = {1, 64, 320}, steps[] = {1, 150, 64};
    assert_copy(&transfer.copies[0], 3, (int64_t[]){64, 5, 2}, card, steps);
    assert_int_equal(transfer.copies[0].card_offset, 0);
    assert_int_equal(transfer.copies[0].host_offset, 7);
    assert_copy(&transfer.copies[1], 3, (int64_t[]){22, 5, 1}, card, steps);
    assert_int_equal(transfer.copies[1].card_offset, 640);
    assert_int_equal(transfer.copies[1].host_offset, 7 + 128);
    arena_destroy(memory);
}

static void dci__empty_tensor_has_no_copies(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const int64_t size[] = {3, 0};
    spyre_view host = dense_view(size, 2);
    spyre_layout layout;
    dci transfer;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_F16, &transfer));
    assert_int_equal(transfer.copy_count, 0);
    assert_ok(dci_to_card(&transfer, NULL, NULL));
    arena_destroy(memory);
}

// --- Round trips against a walk over all device coordinates

// Byte position on the card of a host index by the layout's definition: p1..p(r-1), p0, lanes.
static int64_t card_position(const sample *s, const int32_t *order, uint32_t order_count,
                             const int64_t *index)
{
    int64_t elements = spyre_format_elements_per_stick(s->layout.format);
    int64_t at = 0, lane = 0;
    for (uint32_t place = 0; place < order_count; place++) {
        int32_t dim = order[(place + 1) % order_count];
        int64_t coordinate = dim < 0 ? 0 : index[dim];
        if (dim >= 0 && dim == order[order_count - 1]) {
            lane = coordinate % elements;
            coordinate /= elements;
        }
        at = at * s->layout.device_size[place] + coordinate;
    }
    return at * SPYRE_STICK_BYTES + lane * spyre_format_bytes(s->layout.format);
}

// Sends the tensor, checks every byte of the card (padding keeps its guard), and reads it back.
static void check_transfer(const sample *s, const dci *transfer, const spyre_view *view,
                           int64_t view_elements, const int32_t *order, uint32_t order_count,
                           uint64_t *seed)
{
    uint32_t host_bytes = spyre_dtype_bytes(s->dtype);
    uint32_t card_bytes = spyre_format_bytes(s->layout.format);
    size_t card_length = (size_t)spyre_layout_bytes(&s->layout);
    size_t host_length = (size_t)view_elements * host_bytes;
    unsigned char *host = malloc(host_length), *back = malloc(host_length);
    unsigned char *card = malloc(card_length), *expected = malloc(card_length);
    fill_host(s->dtype, host, view_elements, seed);
    memset(card, GUARD, card_length);
    memset(expected, GUARD, card_length);
    memset(back, GUARD, host_length);
    assert_ok(dci_to_card(transfer, card, host));
    converter one;
    assert_ok(converter_find(s->layout.format, spyre_dtype_host_format(s->dtype), &one));
    int64_t index[SPYRE_MAX_RANK] = {0};
    do {
        int64_t from = host_position(view, index);
        int64_t to = card_position(s, order, order_count, index);
        assert_true(to + card_bytes <= (int64_t)card_length);
        converter_run(&one, expected + to, host + from * host_bytes, 1);
    } while (next_index(view, index));
    assert_memory_equal(card, expected, card_length);
    assert_ok(dci_to_host(transfer, back, card));
    do {
        int64_t at = host_position(view, index) * host_bytes;
        assert_memory_equal(back + at, host + at, host_bytes);
        memset(back + at, GUARD, host_bytes);
    } while (next_index(view, index));
    for (size_t i = 0; i < host_length; i++) assert_int_equal(back[i], GUARD);
    free(host);
    free(back);
    free(card);
    free(expected);
}

static void dci__random_layouts_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 6;
    for (int i = 0; i < 1500; i++) {
        arena *memory = arena_create();
        sample s;
        int32_t order[SPYRE_MAX_RANK + 1];
        dci transfer;
        uint32_t order_count = make_sample(&s, order, &seed);
        s.host.offset = (int64_t)(check_random(&seed) % 3);
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &transfer));
        check_transfer(&s, &transfer, &s.host, count_elements(&s.host) + 5, order, order_count,
                       &seed);
        arena_destroy(memory);
    }
}

static void dci__scalar_is_one_lane(void **state)
{
    (void)state;
    arena *memory = arena_create();
    spyre_view host = {.rank = 0};
    spyre_layout layout;
    dci transfer;
    assert_ok(spyre_layout_default(NULL, 0, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_F16, &transfer));
    uint16_t card[64], value = fp16_from_float(2.0f), back = 0;
    memset(card, GUARD, sizeof card);
    assert_ok(dci_to_card(&transfer, card, &value));
    assert_int_equal(card[0], dl16_from_float(2.0f));
    assert_int_equal(card[1], GUARD << 8 | GUARD);
    assert_ok(dci_to_host(&transfer, &back, card));
    assert_int_equal(back, value);
    arena_destroy(memory);
}

// A (4, 8, 80) tensor laid out as (32, 80), and 12 x 32 rows of which a stick holds one each.
static void dci__flattened_and_half_stick_layouts(void **state)
{
    (void)state;
    arena *memory = arena_create();
    uint64_t seed = 7;
    dci transfer;
    const int64_t size[] = {4, 8, 80}, flat[] = {32, 80}, heads[] = {12, 32};
    const int32_t order[] = {0, 1};
    sample s = {.host = dense_view(flat, 2), .dtype = SPYRE_DTYPE_F16};
    spyre_view deep = dense_view(size, 3);
    assert_ok(spyre_layout_default(flat, 2, s.dtype, &s.layout));
    assert_ok(dci_build(memory, &deep, &s.layout, s.dtype, &transfer));
    check_transfer(&s, &transfer, &s.host, 32 * 80, order, 2, &seed);
    s.host = dense_view(heads, 2);
    assert_ok(spyre_layout_default(heads, 2, s.dtype, &s.layout));
    spyre_view row = {.rank = 1, .size = {384}, .stride = {1}};
    assert_ok(dci_build(memory, &row, &s.layout, s.dtype, &transfer));
    check_transfer(&s, &transfer, &s.host, 384, order, 2, &seed);
    arena_destroy(memory);
}

// A device dim of stride 0 has the same elements at each of its indices.
static void dci__expanding_layouts_repeat(void **state)
{
    (void)state;
    arena *memory = arena_create();
    spyre_view host = dense_view((const int64_t[]){60}, 1);
    spyre_layout layout = {.rank = 3, .format = SPYRE_FORMAT_SEN169_FP16,
                           .device_size = {1, 5, 64}, .stride_map = {64, 0, 1}};
    dci transfer;
    uint16_t sent[60], card[5 * 64] = {0}, back[60] = {0};
    for (uint16_t i = 0; i < 60; i++) sent[i] = fp16_from_float(1.0f + i);
    assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_F16, &transfer));
    assert_ok(dci_to_card(&transfer, card, sent));
    for (int row = 1; row < 5; row++)
        assert_memory_equal(card + row * 64, card, 64 * sizeof *card);
    assert_int_not_equal(card[0], card[59]);
    assert_ok(dci_to_host(&transfer, back, card));
    assert_memory_equal(back, sent, sizeof sent);
    layout.device_size[1] = 5000;
    assert_error(dci_build(memory, &host, &layout, SPYRE_DTYPE_F16, &transfer),
                 SPYRE_UNSUPPORTED, "device dim 1 of 5000 has stride 0");
    arena_destroy(memory);
}

static void dci__host_views_of_any_strides(void **state)
{
    (void)state;
    uint64_t seed = 8;
    for (int i = 0; i < 500; i++) {
        arena *memory = arena_create();
        sample s;
        int32_t order[SPYRE_MAX_RANK + 1], memory_order[SPYRE_MAX_RANK];
        dci transfer;
        uint32_t order_count = make_sample(&s, order, &seed);
        // The same sizes with gaps between the elements of each dim, dims in any order.
        spyre_view view = {.rank = s.host.rank, .offset = (int64_t)(check_random(&seed) % 4)};
        int64_t step = 1 + (int64_t)(check_random(&seed) % 2);
        for (uint32_t d = 0; d < view.rank; d++) memory_order[d] = (int32_t)d;
        shuffle(memory_order, view.rank, &seed);
        for (uint32_t d = 0; d < view.rank; d++) {
            int32_t dim = memory_order[d];
            view.size[dim] = s.host.size[dim];
            view.stride[dim] = step;
            step = step * view.size[dim] + (int64_t)(check_random(&seed) % 2);
        }
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &transfer));
        assert_ok(dci_use_host_view(&transfer, &s.host, &view));
        check_transfer(&s, &transfer, &view, view.offset + step, order, order_count, &seed);
        arena_destroy(memory);
    }
}

static void dci__expanded_views_send_copies(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const int64_t size[] = {3, 70};
    spyre_view storage = dense_view(size, 2), view = storage;
    view.stride[0] = 0;
    spyre_layout layout;
    dci transfer;
    uint16_t host[70], card[2 * 3 * 64];
    for (int i = 0; i < 70; i++) host[i] = fp16_from_float((float)i);
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &storage, &layout, SPYRE_DTYPE_F16, &transfer));
    assert_ok(dci_use_host_view(&transfer, &storage, &view));
    memset(card, GUARD, sizeof card);
    assert_ok(dci_to_card(&transfer, card, host));
    for (int row = 0; row < 3; row++) {
        for (int i = 0; i < 70; i++)
            assert_int_equal(card[i / 64 * 192 + row * 64 + i % 64], dl16_from_float((float)i));
    }
    view.size[0] = 2;
    assert_error(dci_use_host_view(&transfer, &storage, &view), SPYRE_INVALID_ARGUMENT,
                 "Invalid device sizes for host sizes");
    arena_destroy(memory);
}

static void dci__flattened_layouts_need_dense_views(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const int64_t size[] = {4, 8, 80}, flat[] = {32, 80};
    spyre_view storage = dense_view(size, 3), view = storage;
    view.stride[0] = 1000;
    spyre_layout layout;
    dci transfer;
    assert_ok(spyre_layout_default(flat, 2, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &storage, &layout, SPYRE_DTYPE_F16, &transfer));
    assert_error(dci_use_host_view(&transfer, &storage, &view), SPYRE_UNSUPPORTED,
                 "must be dense");
    arena_destroy(memory);
}

// Larger than the blocks of the copy loops, with a row count that they do not divide.
static void dci__large_tensors_cross_blocks(void **state)
{
    (void)state;
    uint64_t seed = 9;
    const int64_t size[] = {77, 1000};
    const int32_t orders[][2] = {{0, 1}, {1, 0}};
    for (int i = 0; i < 2; i++) {
        arena *memory = arena_create();
        sample s = {.host = dense_view(size, 2), .dtype = SPYRE_DTYPE_F16};
        dci transfer;
        assert_ok(spyre_layout_ordered(size, s.host.stride, 2, s.dtype, orders[i], 2, &s.layout));
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &transfer));
        check_transfer(&s, &transfer, &s.host, 77000, orders[i], 2, &seed);
        arena_destroy(memory);
    }
}

static void run_parts(const dci *parts, uint32_t count, void *card, void *host, bool to_card)
{
    for (uint32_t n = 0; n < count; n++)
        assert_ok(to_card ? dci_to_card(&parts[n], card, host)
                          : dci_to_host(&parts[n], host, card));
}

// So large that it goes past the caches, from and to host memory at any place, against its parts,
// which are not.
static void dci__streamed_transfers_equal_their_parts(void **state)
{
    (void)state;
    enum { PARTS = 64, ROWS = 1100, COLUMNS = 1024, LINE = 64 };
    const int64_t size[] = {ROWS, COLUMNS};
    const spyre_view host = dense_view(size, 2);
    const size_t bytes = (size_t)ROWS * COLUMNS * 8;
    char *mine = aligned_alloc(LINE, bytes + LINE), *back = aligned_alloc(LINE, bytes + LINE);
    char *card = aligned_alloc(LINE, bytes), *expected = aligned_alloc(LINE, bytes);
    uint64_t seed = 16;
    arena *memory = arena_create();
    spyre_layout layout;
    dci whole, parts[PARTS];
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_I64, &layout));
    assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_I64, &whole));
    assert_ok(dci_divide(memory, &whole, PARTS, parts));
    for (size_t at = 0; at < LINE; at += 40) {
        fill_host(SPYRE_DTYPE_I64, mine + at, ROWS * COLUMNS, &seed);
        memset(card, GUARD, bytes);
        memset(expected, GUARD, bytes);
        run_parts(parts, PARTS, expected, mine + at, true);
        run_parts(&whole, 1, card, mine + at, true);
        assert_memory_equal(card, expected, bytes);
        memset(back, GUARD, bytes);
        run_parts(&whole, 1, card, back + at, false);
        assert_memory_equal(back + at, mine + at, bytes);
    }
    arena_destroy(memory);
    free(mine);
    free(back);
    free(card);
    free(expected);
}

// Runs, strided runs, streamed ones and formats that nobody watches.
static void dci__integers_that_wrap_are_noted(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{1100, 1024}, {77, 1000}, {5, 3}};
    const int32_t orders[][2] = {{0, 1}, {1, 0}};
    for (int n = 0; n < 6; n++) {
        const int64_t *size = sizes[n / 2];
        const int64_t count = size[0] * size[1];
        const spyre_view host = dense_view(size, 2);
        arena *memory = arena_create();
        spyre_layout layout;
        dci transfer;
        assert_ok(spyre_layout_ordered(size, host.stride, 2, SPYRE_DTYPE_I64, orders[n % 2], 2,
                                       &layout));
        assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_I64, &transfer));
        size_t bytes = (size_t)spyre_layout_bytes(&layout);
        int64_t *values = calloc((size_t)count, sizeof *values);
        char *card = calloc(1, bytes), *expected = calloc(1, bytes);
        for (int64_t at = 0; at < count; at += 1 + at) {
            bool wrapped = false;
            assert_ok(dci_to_card_watched(&transfer, card, values, &wrapped));
            assert_false(wrapped);
            values[at] = INT64_C(3) << 40 | 77;
            assert_ok(dci_to_card_watched(&transfer, card, values, &wrapped));
            assert_true(wrapped);
            assert_ok(dci_to_card(&transfer, expected, values));
            assert_memory_equal(card, expected, bytes);
            values[at] = at;
        }
        transfer.card_format = transfer.host_format = SPYRE_FORMAT_IEEE_FP32;
        bool wrapped = false;
        assert_ok(dci_to_card_watched(&transfer, card, values, &wrapped));
        assert_false(wrapped);
        arena_destroy(memory);
        free(values);
        free(card);
        free(expected);
    }
}

static void dci__other_formats_convert_in_flight(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const int64_t size[] = {3};
    spyre_view host = dense_view(size, 1);
    spyre_layout layout;
    dci transfer;
    float values[] = {1.5f, 1e20f, -2.0f}, back[3];
    uint16_t card[64];
    assert_ok(spyre_layout_default(size, 1, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &host, &layout, SPYRE_DTYPE_F32, &transfer));
    assert_ok(dci_to_card(&transfer, card, values));
    assert_int_equal(card[0], dl16_from_float(1.5f));
    assert_int_equal(card[1], DL16_LARGEST);
    assert_ok(dci_to_host(&transfer, back, card));
    assert_true(back[2] == -2.0f);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dci__canonical_example),
        cmocka_unit_test(dci__remainder_is_a_copy_of_its_own),
        cmocka_unit_test(dci__empty_tensor_has_no_copies),
        cmocka_unit_test(dci__random_layouts_round_trip),
        cmocka_unit_test(dci__scalar_is_one_lane),
        cmocka_unit_test(dci__flattened_and_half_stick_layouts),
        cmocka_unit_test(dci__expanding_layouts_repeat),
        cmocka_unit_test(dci__host_views_of_any_strides),
        cmocka_unit_test(dci__expanded_views_send_copies),
        cmocka_unit_test(dci__flattened_layouts_need_dense_views),
        cmocka_unit_test(dci__large_tensors_cross_blocks),
        cmocka_unit_test(dci__streamed_transfers_equal_their_parts),
        cmocka_unit_test(dci__integers_that_wrap_are_noted),
        cmocka_unit_test(dci__other_formats_convert_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
