// SPDX-License-Identifier: Apache-2.0
//
// Where views begin on the card, beside the transfer of every element of the tensor.
#include <stdlib.h>

#include "unit/tensor/dci_sample.h"

static int64_t offset_of(const spyre_view *view, const int64_t *index)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < view->rank; i++) offset += index[i] * view->stride[i];
    return offset;
}

// Every element of the view is so many bytes behind where it is in a view from the start.
static bool is_apart(const sample *s, const int64_t *places, const spyre_view *view, int64_t bytes)
{
    int64_t index[SPYRE_MAX_RANK] = {0}, wide = spyre_format_bytes(s->layout.format);
    do {
        int64_t offset = offset_of(view, index);
        if ((places[view->offset + offset] - places[offset]) * wide != bytes) return false;
    } while (next_index(view, index));
    return true;
}

static sample random_tensor(uint64_t *random)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 40, 64, 96, 130};
    static const spyre_dtype dtypes[] = {SPYRE_DTYPE_F16, SPYRE_DTYPE_F32, SPYRE_DTYPE_I8};
    sample s = {.dtype = dtypes[check_random(random) % 3]};
    int64_t size[SPYRE_MAX_RANK], elements = 1;
    uint32_t rank = 1 + (uint32_t)(check_random(random) % 4);
    int32_t order[SPYRE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        size[i] = sizes[check_random(random) % (elements > 500 ? 4 : 8)];
        elements *= size[i];
        order[i] = (int32_t)i;
    }
    for (uint32_t i = rank; i-- > 1;) {
        uint32_t other = (uint32_t)(check_random(random) % (i + 1));
        int32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    s.host = dense_view(size, rank);
    assert_ok(spyre_layout_ordered(s.host.size, s.host.stride, rank, s.dtype, order, rank,
                                   &s.layout));
    return s;
}

// A slice of each dim, or so many elements one behind the other.
static spyre_view random_view(const sample *s, uint64_t *random)
{
    spyre_view view = s->host;
    int64_t elements = count_elements(&s->host);
    if (check_random(random) % 4 == 0) {
        view = (spyre_view){.rank = 1, .stride = {1}};
        view.offset = (int64_t)(check_random(random) % (uint64_t)elements);
        view.size[0] = 1 + (int64_t)(check_random(random) % (uint64_t)(elements - view.offset));
        return view;
    }
    for (uint32_t i = 0; i < view.rank; i++) {
        int64_t first = (int64_t)(check_random(random) % (uint64_t)view.size[i]);
        if (first > 31 && check_random(random) % 2) first &= ~31;
        view.offset += first * view.stride[i];
        view.size[i] -= first;
        view.size[i] -= (int64_t)(check_random(random) % (uint64_t)view.size[i]);
    }
    return view;
}

static void layout_view__elements_lie_so_far_behind(void **state)
{
    (void)state;
    uint64_t random = 17;
    uint32_t taken = 0, refused = 0;
    for (uint32_t round = 0; round < 4000; round++) {
        arena *memory = arena_create();
        sample s = random_tensor(&random);
        spyre_view view = random_view(&s, &random);
        const int64_t *places = card_places(memory, &s);
        int64_t bytes, wide = spyre_format_bytes(s.layout.format);
        spyre_status status = spyre_layout_view_begin(&s.layout, &s.host, &view, &bytes);
        if (!status) {
            assert_int_equal(bytes % SPYRE_STICK_BYTES, 0);
            assert_true(is_apart(&s, places, &view, bytes));
            taken += view.offset > 0;
        } else {
            // Slices of dims are refused for one reason only.
            bool in_stick = places[view.offset] * wide % SPYRE_STICK_BYTES != 0;
            bool apart = is_apart(&s, places, &view, places[view.offset] * wide);
            if (view.rank == s.host.rank && s.host.rank > 1) assert_true(in_stick || !apart);
            refused++;
        }
        spyre_status_free(status);
        arena_destroy(memory);
    }
    assert_true(taken > 400 && refused > 400);
}

static void layout_view__refusals_say_why(void **state)
{
    (void)state;
    const int64_t size[] = {4, 96};
    spyre_view dense = dense_view(size, 2), view = {.rank = 1, .size = {32}, .stride = {1}};
    spyre_layout layout;
    int64_t bytes;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    view.offset = 2 * 96 + 64;
    assert_ok(spyre_layout_view_begin(&layout, &dense, &view, &bytes));
    assert_int_equal(bytes, (4 + 2) * SPYRE_STICK_BYTES);
    view.size[0] = 33;
    assert_error(spyre_layout_view_begin(&layout, &dense, &view, &bytes), SPYRE_UNSUPPORTED,
                 "goes on behind the end of a dim");
    view.offset = 2 * 96 + 5;
    assert_error(spyre_layout_view_begin(&layout, &dense, &view, &bytes), SPYRE_UNSUPPORTED,
                 "element 5 of a stick");
    view.offset = 4 * 96;
    assert_error(spyre_layout_view_begin(&layout, &dense, &view, &bytes), SPYRE_UNSUPPORTED,
                 "no place of the tensor");
}

// By card byte: 0 padding, 1 an element of the tensor, 2 one of the view.
static uint8_t *owners(arena *memory, const sample *s, const int64_t *places,
                       const spyre_view *view)
{
    int64_t wide = spyre_format_bytes(s->layout.format), index[SPYRE_MAX_RANK] = {0};
    uint8_t *owner = ARENA_NEW(memory, uint8_t, (size_t)spyre_layout_bytes(&s->layout));
    for (int64_t e = 0; e < count_elements(&s->host); e++)
        memset(owner + places[e] * wide, 1, (size_t)wide);
    do
        memset(owner + places[view->offset + offset_of(view, index)] * wide, 2, (size_t)wide);
    while (next_index(view, index));
    return owner;
}

static void layout_view__runs_are_the_elements_of_a_view(void **state)
{
    (void)state;
    uint64_t random = 23;
    uint32_t in_parts = 0, in_whole_sticks = 0;
    for (uint32_t round = 0; round < 2000; round++) {
        arena *memory = arena_create();
        sample s = random_tensor(&random);
        spyre_view view = random_view(&s, &random);
        uint8_t *owner = owners(memory, &s, card_places(memory, &s), &view);
        spyre_layout_runs counted, all;
        assert_ok(spyre_layout_view_runs(&s.layout, &s.host, &view, NULL, &counted));
        spyre_layout_run *runs = ARENA_NEW(memory, spyre_layout_run, (size_t)counted.count);
        assert_ok(spyre_layout_view_runs(&s.layout, &s.host, &view, runs, &all));
        assert_memory_equal(&counted, &all, offsetof(spyre_layout_runs, whole));
        int64_t bytes = 0, left = 0, beside = 0, card_bytes = spyre_layout_bytes(&s.layout);
        for (int64_t r = 0; r < all.count; r++) {
            int64_t first = runs[r].start, end = first + runs[r].bytes;
            assert_true(end <= (first / SPYRE_STICK_BYTES + 1) * SPYRE_STICK_BYTES);
            bytes += runs[r].bytes;
            for (int64_t at = first; at < end; at++) {
                assert_true(owner[at] == 0 || owner[at] == 2);  // not again, and no other's
                if (owner[at] == 2) owner[at] = 3;
            }
            for (int64_t at = first & ~127; at < (first | 127) + 1; at++) beside += owner[at] == 1;
        }
        for (int64_t at = 0; at < card_bytes; at++) left += owner[at] == 2;
        assert_int_equal(left, 0);
        assert_int_equal(bytes, all.bytes);
        assert_int_equal(all.whole, beside == 0 && bytes == all.count * SPYRE_STICK_BYTES);
        if (all.whole) in_whole_sticks++;
        else in_parts++;
        arena_destroy(memory);
    }
    assert_true(in_parts > 100 && in_whole_sticks > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_view__elements_lie_so_far_behind),
        cmocka_unit_test(layout_view__refusals_say_why),
        cmocka_unit_test(layout_view__runs_are_the_elements_of_a_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
