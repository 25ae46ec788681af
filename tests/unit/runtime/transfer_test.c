// SPDX-License-Identifier: Apache-2.0
//
// Transfers through the public interface.
#include "device_case.h"

// A transfer of several MiB is divided among threads; a transposed host view goes without staging.
static void transfer__large_transfers_and_views(void **state)
{
    (void)state;
    enum { ROWS = 1000, COLUMNS = 1030 };
    const int64_t shape[2] = {ROWS, COLUMNS};
    const spyre_view storage = {.rank = 2, .size = {ROWS, COLUMNS}, .stride = {COLUMNS, 1}};
    const spyre_view transposed = {
        .rank = 2, .size = {ROWS, COLUMNS}, .stride = {1, ROWS + 8}, .offset = 5};
    spyre_layout layout;
    assert_ok(spyre_layout_default(shape, 2, SPYRE_DTYPE_F32, &layout));
    size_t room = (size_t)COLUMNS * (ROWS + 8) + 5;
    float *host = calloc(room, sizeof *host), *back = calloc(room, sizeof *back);
    assert_true(host && back);
    for (size_t n = 0; n < room; n++) host[n] = (float)n;
    uint64_t x = allocate(0, spyre_layout_bytes(&layout));
    const spyre_transfer whole = {.address = x, .layout = &layout, .storage = &storage,
                                  .dtype = SPYRE_DTYPE_F32};
    spyre_transfer turned = whole;
    turned.view = &transposed;
    assert_ok(spyre_copy_to_card(the_context, &turned, host));
    assert_ok(spyre_copy_to_host(the_context, &whole, back));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLUMNS; c++)
            assert_true(back[r * COLUMNS + c] == host[5 + r + c * (ROWS + 8)]);
    memset(back, 0, room * sizeof *back);
    assert_ok(spyre_copy_to_host(the_context, &turned, back));
    for (size_t n = 0; n < room; n++) {
        size_t row = (n - 5) % (ROWS + 8);
        assert_true(back[n] == (n >= 5 && row < ROWS ? host[n] : 0.0f));
    }
    const spyre_view other = {.rank = 1, .size = {ROWS}, .stride = {1}};
    turned.view = &other;
    assert_error(spyre_copy_to_card(the_context, &turned, host), SPYRE_INVALID_ARGUMENT,
                 "copy to card: ");
    spyre_memory_free(the_context, 0, x);
    free(host);
    free(back);
}

static void transfer__parts_of_a_tensor_travel_alone(void **state)
{
    (void)state;
    const int64_t size[] = {64, 64};
    const spyre_view storage = {.rank = 2, .size = {64, 64}, .stride = {64, 1}};
    const spyre_view rows = {.rank = 2, .size = {2, 64}, .stride = {64, 1}, .offset = 3 * 64};
    spyre_layout layout;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F32, &layout));
    uint64_t x = allocate(0, spyre_layout_bytes(&layout));
    static float values[COUNT], back[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (float)n;
    assert_ok(spyre_copy_raw(the_context, 0, 0, x, 0, spyre_layout_bytes(&layout)));
    const spyre_transfer whole = {.address = x, .layout = &layout, .storage = &storage,
                                  .dtype = SPYRE_DTYPE_F32};
    spyre_transfer part = whole;
    part.part = &rows;
    assert_ok(spyre_copy_to_card(the_context, &part, values));
    assert_ok(spyre_copy_to_host(the_context, &whole, back));
    for (int n = 0; n < COUNT; n++)
        assert_true(back[n] == (n / 64 == 3 || n / 64 == 4 ? values[n] : 0.0f));
    for (int n = 0; n < COUNT; n++) back[n] = -1.0f;
    assert_ok(spyre_copy_to_host(the_context, &part, back));
    for (int n = 0; n < COUNT; n++)
        assert_true(back[n] == (n / 64 == 3 || n / 64 == 4 ? values[n] : -1.0f));
    spyre_transfer view = whole;
    view.view = &rows;
    assert_error(spyre_copy_to_host(the_context, &view, back), SPYRE_INVALID_ARGUMENT,
                 "copy to host: ");
    view.part = &rows;
    assert_error(spyre_copy_to_host(the_context, &view, back), SPYRE_INVALID_ARGUMENT,
                 "copy to host: both a view and a part");
    // Nothing else than the whole buffer is good enough for the address.
    part.address += 128;
    assert_error(spyre_copy_to_host(the_context, &part, back), SPYRE_INVALID_ARGUMENT,
                 "copy to host: ");
    spyre_memory_free(the_context, 0, x);
}

static void transfer__pieces(void **state)
{
    (void)state;
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT], back[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (float)n;
    put(0, 0, x, values);
    put(0, 0, y, values);
    spyre_piece pieces[] = {{.target = 0, .source = 16, .bytes = 8},
                            {.target = COUNT * 4 - 4, .source = 0, .bytes = 4},
                            {.target = 4, .source = 4, .bytes = 0}};
    assert_ok(spyre_copy_pieces(the_context, 0, 0, y, x, pieces, 3));
    assert_ok(spyre_copy_pieces(the_context, 0, 0, y, x, NULL, 0));
    assert_ok(get(0, 0, y, back));
    values[COUNT - 1] = values[0];
    values[0] = 4;
    values[1] = 5;
    assert_memory_equal(back, values, sizeof back);
    pieces[1].target = COUNT * 4;
    assert_error(spyre_copy_pieces(the_context, 0, 0, y, x, pieces, 3), SPYRE_INVALID_ARGUMENT,
                 "copy of pieces");
    pieces[2].source = -1;
    assert_error(spyre_copy_pieces(the_context, 0, 0, y, x, pieces, 3), SPYRE_INVALID_ARGUMENT,
                 "piece 2: a negative offset or size");
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
}

// Whichever thread moves the integer.
static void transfer__integers_that_wrap_are_told(void **state)
{
    (void)state;
    enum { ROWS = 600, COLUMNS = 100 };
    const int64_t size[] = {ROWS, COLUMNS};
    const spyre_view storage = {.rank = 2, .size = {ROWS, COLUMNS}, .stride = {COLUMNS, 1}};
    spyre_layout layout;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_I64, &layout));
    uint64_t x = allocate(0, spyre_layout_bytes(&layout));
    static int64_t values[ROWS * COLUMNS];
    const int places[] = {0, ROWS * COLUMNS / 2, ROWS * COLUMNS - 1};
    bool wrapped;
    const spyre_transfer asked = {.address = x, .layout = &layout, .storage = &storage,
                                  .dtype = SPYRE_DTYPE_I64, .out_wrapped = &wrapped};
    for (int n = 0; n < 3; n++) {
        wrapped = true;
        assert_ok(spyre_copy_to_card(the_context, &asked, values));
        assert_false(wrapped);
        values[places[n]] = INT64_C(1) << 31;
        assert_ok(spyre_copy_to_card(the_context, &asked, values));
        assert_true(wrapped);
        values[places[n]] = -(INT64_C(1) << 31);
    }
    spyre_memory_free(the_context, 0, x);
}

static void transfer__raw_copy_and_zero(void **state)
{
    (void)state;
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT], back[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (float)n;
    put(0, 0, x, values);
    assert_ok(spyre_copy_raw(the_context, 0, 0, y, x, COUNT * 4));
    assert_ok(spyre_copy_raw(the_context, 0, 0, x, 0, COUNT * 2));
    assert_ok(get(0, 0, y, back));
    assert_memory_equal(back, values, sizeof back);
    assert_ok(get(0, 0, x, back));
    assert_true(back[COUNT / 2 - 1] == 0.0f && back[COUNT / 2] == values[COUNT / 2]);
    assert_error(spyre_copy_raw(the_context, 0, 0, x, y, COUNT * 4 + 1), SPYRE_INVALID_ARGUMENT,
                 "raw copy");
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
}

static void check_range(const spyre_transfer *storage, const int64_t *values, int64_t count)
{
    spyre_integer_range wanted = {values[0], values[0], false}, found;
    for (int64_t i = 0; i < count; i++) {
        wanted.least = values[i] < wanted.least ? values[i] : wanted.least;
        wanted.most = values[i] > wanted.most ? values[i] : wanted.most;
        wanted.has_zero |= values[i] == 0;
    }
    assert_ok(spyre_read_integer_range(the_context, storage, &found));
    assert_int_equal(found.least, wanted.least);
    assert_int_equal(found.most, wanted.most);
    assert_int_equal(found.has_zero, wanted.has_zero);
}

// The ends are the first and the last element, or stand somewhere between; memory behind the last
// elements of a row does not count.
static void transfer__ranges_of_integers(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1},  {3, 32},   {1, 33},
                                          {33, 7}, {40, 100}, {700, 130}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        const int64_t rows = shapes[n][0], columns = shapes[n][1], count = rows * columns;
        const spyre_view storage = {.rank = 2, .size = {rows, columns}, .stride = {columns, 1}};
        spyre_layout layout;
        assert_ok(spyre_layout_default(shapes[n], 2, SPYRE_DTYPE_I64, &layout));
        const int64_t bytes = spyre_layout_bytes(&layout);
        int64_t *values = calloc((size_t)count, sizeof *values);
        assert_non_null(values);
        uint64_t x = allocate(0, bytes);
        const spyre_transfer whole = {.address = x, .layout = &layout, .storage = &storage,
                                      .dtype = SPYRE_DTYPE_I64};
        for (int64_t i = 0; i < count; i++) values[i] = 5 + i % 3;
        assert_ok(spyre_copy_raw(the_context, 0, 0, x, 0, bytes)); // zeros, in the gaps, too
        assert_ok(spyre_copy_to_card(the_context, &whole, values));
        check_range(&whole, values, count);
        for (int64_t i = 0; i < count; i += count / 3 + 1) {
            values[i] = i % 2 ? INT32_MIN : INT32_MAX;
            values[count - 1 - i] = i % 2 ? 0 : -1;
            assert_ok(spyre_copy_to_card(the_context, &whole, values));
            check_range(&whole, values, count);
        }
        spyre_memory_free(the_context, 0, x);
        free(values);
    }
}

static void transfer__ranges_of_other_storages(void **state)
{
    (void)state;
    const int64_t shape[1] = {COUNT};
    const spyre_view storage = {.rank = 1, .size = {COUNT}, .stride = {1}};
    spyre_integer_range found;
    spyre_layout layout;
    assert_ok(spyre_layout_default(shape, 1, SPYRE_DTYPE_F32, &layout));
    uint64_t x = allocate(0, spyre_layout_bytes(&layout));
    spyre_transfer whole = {.address = x, .layout = &layout, .storage = &storage};
    assert_error(spyre_read_integer_range(the_context, &whole, &found), SPYRE_UNSUPPORTED,
                 "integer range: IEEE_FP32, or a layout with gaps");
    assert_ok(spyre_layout_default(shape, 1, SPYRE_DTYPE_I32, &layout));
    whole.address += 128;
    assert_error(spyre_read_integer_range(the_context, &whole, &found), SPYRE_INVALID_ARGUMENT,
                 "integer range: ");
    spyre_memory_free(the_context, 0, x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfer__large_transfers_and_views),
        cmocka_unit_test(transfer__parts_of_a_tensor_travel_alone),
        cmocka_unit_test(transfer__pieces),
        cmocka_unit_test(transfer__integers_that_wrap_are_told),
        cmocka_unit_test(transfer__raw_copy_and_zero),
        cmocka_unit_test(transfer__ranges_of_integers),
        cmocka_unit_test(transfer__ranges_of_other_storages),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
