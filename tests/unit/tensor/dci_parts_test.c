// SPDX-License-Identifier: Apache-2.0
//
// Parts of a storage travel alone, and a transfer is the sum of its parts.
#include "unit/check.h"

#include <stdlib.h>

#include "dci_sample.h"

static int64_t part_bytes(const spyre_view *storage, const spyre_layout *layout,
                          const spyre_view *part)
{
    arena *memory = arena_create();
    dci transfer;
    assert_ok(dci_build(memory, storage, layout, SPYRE_DTYPE_F16, &transfer));
    dci_use_part(&transfer, storage, part);
    int64_t bytes = dci_card_bytes(&transfer);
    arena_destroy(memory);
    return bytes;
}

static void dci_parts__move_little(void **state)
{
    (void)state;
    const int64_t size[] = {1024, 256};
    spyre_view storage = dense_view(size, 2);
    spyre_layout layout;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    const spyre_view row = {.rank = 1, .size = {256}, .stride = {1}, .offset = 5 * 256};
    const spyre_view rows = {.rank = 2, .size = {256, 7}, .stride = {1, 256}, .offset = 256};
    const spyre_view thirds = {.rank = 2, .size = {3, 256}, .stride = {768, 1}};
    const spyre_view lanes = {.rank = 2, .size = {1024, 10}, .stride = {256, 1}, .offset = 70};
    const spyre_view tiles = {.rank = 2, .size = {1024, 65}, .stride = {256, 1}, .offset = 64};
    const spyre_view element = {.rank = 0, .offset = 777};
    const spyre_view run = {.rank = 1, .size = {600}, .stride = {1}, .offset = 512};
    const spyre_view carried = {.rank = 2, .size = {2, 256}, .stride = {1, 256}, .offset = 255};
    assert_int_equal(part_bytes(&storage, &layout, &storage), 1024 * 256 * 2);
    assert_int_equal(part_bytes(&storage, &layout, &row), 256 * 2);
    assert_int_equal(part_bytes(&storage, &layout, &rows), 7 * 256 * 2);
    assert_int_equal(part_bytes(&storage, &layout, &thirds), 3 * 256 * 2);
    assert_int_equal(part_bytes(&storage, &layout, &lanes), 1024 * 10 * 2);
    assert_int_equal(part_bytes(&storage, &layout, &tiles), 1024 * 128 * 2);
    assert_int_equal(part_bytes(&storage, &layout, &element), 2);
    assert_int_equal(part_bytes(&storage, &layout, &run), 3 * 256 * 2);
    assert_int_equal(part_bytes(&storage, &layout, &carried), 257 * 256 * 2);
    const spyre_view beyond = {.rank = 1, .size = {257}, .stride = {1}, .offset = 1023 * 256};
    assert_int_equal(part_bytes(&storage, &layout, &beyond), 1024 * 256 * 2);
}

// A slice of every dim with a step, dims in any order; or any run with a step.
static spyre_view random_part(const spyre_view *storage, uint64_t *seed)
{
    spyre_view part = {.offset = storage->offset};
    if (check_random(seed) % 4 == 0) {
        int64_t elements = count_elements(storage);
        int64_t begin = (int64_t)(check_random(seed) % (uint64_t)elements);
        part.rank = 1;
        part.stride[0] = 1 + (int64_t)(check_random(seed) % 9);
        part.size[0] = 1 + (elements - 1 - begin) / part.stride[0];
        part.offset += begin;
        return part;
    }
    int32_t order[SPYRE_MAX_RANK];
    for (uint32_t d = 0; d < storage->rank; d++) order[d] = (int32_t)d;
    shuffle(order, storage->rank, seed);
    for (uint32_t d = 0; d < storage->rank; d++) {
        int64_t size = storage->size[order[d]], stride = storage->stride[order[d]];
        int64_t begin = (int64_t)(check_random(seed) % (uint64_t)size);
        int64_t step = 1 + (int64_t)(check_random(seed) % 3);
        int64_t count = 1 + (int64_t)(check_random(seed) % (uint64_t)(size - begin)) / step;
        part.offset += begin * stride;
        if (count == 1 && check_random(seed) % 2) continue;
        part.size[part.rank] = count;
        part.stride[part.rank++] = step * stride;
    }
    return part;
}

// Marks the elements of the storage that the part touches.
static void mark_part(const spyre_view *part, unsigned char *marks)
{
    int64_t index[SPYRE_MAX_RANK] = {0};
    do {
        marks[host_position(part, index)] = 1;
    } while (next_index(part, index));
}

// Where marked, `got` holds `fresh`; elsewhere `fresh` or `old`.
static void assert_part(const unsigned char *marks, int64_t count, size_t element_bytes,
                        const unsigned char *got, const unsigned char *fresh,
                        const unsigned char *old)
{
    for (int64_t i = 0; i < count; i++) {
        size_t at = (size_t)i * element_bytes;
        bool moved = memcmp(got + at, fresh + at, element_bytes) == 0;
        if (!moved && (marks[i] || memcmp(got + at, old + at, element_bytes) != 0))
            fail_msg("element %lld of %lld", (long long)i, (long long)count);
    }
}

static void check_part(const sample *s, const dci *whole, const dci *piece,
                       const spyre_view *part, int64_t count, uint64_t *seed)
{
    size_t element_bytes = spyre_dtype_bytes(s->dtype), length = (size_t)count * element_bytes;
    unsigned char *old = malloc(length), *fresh = malloc(length), *got = malloc(length);
    unsigned char *card = malloc((size_t)spyre_layout_bytes(&s->layout));
    unsigned char *marks = calloc((size_t)count, 1);
    mark_part(part, marks);
    fill_host(s->dtype, old, count, seed);
    fill_host(s->dtype, fresh, count, seed);
    assert_ok(dci_to_card(whole, card, fresh));
    memcpy(got, old, length);
    assert_ok(dci_to_host(piece, got, card));
    assert_part(marks, count, element_bytes, got, fresh, old);
    assert_ok(dci_to_card(whole, card, old));
    assert_ok(dci_to_card(piece, card, fresh));
    memcpy(got, old, length);
    assert_ok(dci_to_host(whole, got, card));
    assert_part(marks, count, element_bytes, got, fresh, old);
    free(old);
    free(fresh);
    free(got);
    free(card);
    free(marks);
}

static void dci_parts__hold_what_the_view_touches(void **state)
{
    (void)state;
    uint64_t seed = 14;
    for (int i = 0; i < 1500; i++) {
        arena *memory = arena_create();
        sample s;
        int32_t order[SPYRE_MAX_RANK + 1];
        dci whole, piece;
        make_sample(&s, order, &seed);
        s.host.offset = (int64_t)(check_random(&seed) % 3);
        int64_t count = count_elements(&s.host) + s.host.offset;
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &whole));
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &piece));
        spyre_view part = random_part(&s.host, &seed);
        dci_use_part(&piece, &s.host, &part);
        assert_true(dci_card_bytes(&piece) <= dci_card_bytes(&whole));
        check_part(&s, &whole, &piece, &part, count, &seed);
        arena_destroy(memory);
    }
}

static void assert_same_elements(const spyre_view *a, const unsigned char *a_bytes,
                                 const spyre_view *b, const unsigned char *b_bytes, size_t size)
{
    int64_t index[SPYRE_MAX_RANK] = {0};
    do {
        size_t at = (size_t)host_position(a, index) * size;
        size_t other = (size_t)host_position(b, index) * size;
        assert_memory_equal(a_bytes + at, b_bytes + other, size);
    } while (next_index(a, index));
}

// Both ways through a buffer with room for what moves and no more.
static void check_packed(const sample *s, const dci *whole, const dci *packed,
                         const spyre_view *part, const spyre_view *packed_part, int64_t elements,
                         uint64_t *seed)
{
    size_t size = spyre_dtype_bytes(s->dtype);
    int64_t count = count_elements(&s->host) + s->host.offset;
    unsigned char *host = malloc((size_t)count * size), *buffer = malloc((size_t)elements * size);
    unsigned char *card = malloc((size_t)spyre_layout_bytes(&s->layout));
    fill_host(s->dtype, host, count, seed);
    assert_ok(dci_to_card(whole, card, host));
    assert_ok(dci_to_host(packed, buffer, card));
    assert_same_elements(part, host, packed_part, buffer, size);
    fill_host(s->dtype, buffer, elements, seed);
    assert_ok(dci_to_card(packed, card, buffer));
    assert_ok(dci_to_host(whole, host, card));
    assert_same_elements(part, host, packed_part, buffer, size);
    free(host);
    free(buffer);
    free(card);
}

static void dci_parts__lie_in_a_buffer_of_their_own(void **state)
{
    (void)state;
    uint64_t seed = 16;
    int packs = 0, smaller = 0;
    for (int i = 0; i < 1500; i++) {
        arena *memory = arena_create();
        sample s;
        int32_t order[SPYRE_MAX_RANK + 1];
        dci whole, piece;
        int64_t elements;
        make_sample(&s, order, &seed);
        s.host.offset = (int64_t)(check_random(&seed) % 3);
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &whole));
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &piece));
        spyre_view part = random_part(&s.host, &seed), packed;
        dci_use_part(&piece, &s.host, &part);
        if (dci_pack(&piece, &s.host, &part, &packed, &elements)) {
            assert_true(elements <= count_elements(&s.host));
            check_packed(&s, &whole, &piece, &part, &packed, elements, &seed);
            packs++;
            smaller += elements < count_elements(&s.host);
        }
        arena_destroy(memory);
    }
    assert_true(packs > 1200 && smaller > 600);
}

// Of a matrix by rows: elements that move, with those that cannot be left out.
static int64_t packed_elements(const spyre_view *part)
{
    const int64_t size[] = {1024, 256};
    spyre_view storage = dense_view(size, 2), packed;
    spyre_layout layout;
    dci piece;
    int64_t elements = 0;
    arena *memory = arena_create();
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    assert_ok(dci_build(memory, &storage, &layout, SPYRE_DTYPE_F16, &piece));
    dci_use_part(&piece, &storage, part);
    assert_true(dci_pack(&piece, &storage, part, &packed, &elements));
    assert_int_equal(dci_card_bytes(&piece), elements * 2);
    arena_destroy(memory);
    return elements;
}

static void dci_parts__take_columns_and_every_third_row(void **state)
{
    (void)state;
    const spyre_view column = {.rank = 1, .size = {1024}, .stride = {256}, .offset = 5};
    const spyre_view thirds = {.rank = 2, .size = {256, 341}, .stride = {1, 768}, .offset = 256};
    const spyre_view tiles = {.rank = 2, .size = {1024, 65}, .stride = {256, 1}, .offset = 64};
    assert_int_equal(packed_elements(&column), 1024);
    assert_int_equal(packed_elements(&thirds), 341 * 256);
    assert_int_equal(packed_elements(&tiles), 1024 * 128);
}

// Loops that walk along several dims of the host are not shortened wrongly.
static void dci_parts__of_flattened_layouts(void **state)
{
    (void)state;
    uint64_t seed = 15;
    const int64_t size[] = {4, 8, 80}, flat[] = {32, 80};
    for (int i = 0; i < 200; i++) {
        arena *memory = arena_create();
        sample s = {.host = dense_view(size, 3), .dtype = SPYRE_DTYPE_F16};
        dci whole, piece;
        assert_ok(spyre_layout_default(flat, 2, s.dtype, &s.layout));
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &whole));
        assert_ok(dci_build(memory, &s.host, &s.layout, s.dtype, &piece));
        spyre_view part = random_part(&s.host, &seed);
        dci_use_part(&piece, &s.host, &part);
        check_part(&s, &whole, &piece, &part, 4 * 8 * 80, &seed);
        arena_destroy(memory);
    }
}

// Parts run one by one move what the whole moves, and nothing twice.
static void dci_parts__make_the_whole(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{3, 5, 70}, {1, 1, 1000}, {7, 64, 128}, {1, 1, 1}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        arena *memory = arena_create();
        spyre_layout layout;
        assert_ok(spyre_layout_default(shapes[n], 3, SPYRE_DTYPE_F32, &layout));
        int64_t plane = shapes[n][1] * shapes[n][2], count = shapes[n][0] * plane;
        const spyre_view dense = {.rank = 3,
                                  .size = {shapes[n][0], shapes[n][1], shapes[n][2]},
                                  .stride = {plane, shapes[n][2], 1}};
        dci whole, parts[5];
        assert_ok(dci_build(memory, &dense, &layout, SPYRE_DTYPE_F32, &whole));
        assert_ok(dci_divide(memory, &whole, 5, parts));
        size_t bytes = (size_t)spyre_layout_bytes(&layout);
        float *host = malloc((size_t)count * sizeof *host), *back = calloc((size_t)count, 4);
        char *expected = calloc(1, bytes), *actual = calloc(1, bytes);
        assert_true(host && back && expected && actual);
        for (int64_t i = 0; i < count; i++) host[i] = (float)i + 1;
        assert_ok(dci_to_card(&whole, expected, host));
        for (int p = 0; p < 5; p++) assert_ok(dci_to_card(&parts[p], actual, host));
        assert_memory_equal(actual, expected, bytes);
        int64_t moved = 0;
        for (int p = 0; p < 5; p++) {
            assert_ok(dci_to_host(&parts[p], back, expected));
            for (uint32_t c = 0; c < parts[p].copy_count; c++) {
                int64_t elements = 1;
                for (uint32_t i = 0; i < parts[p].copies[c].rank; i++)
                    elements *= parts[p].copies[c].size[i];
                moved += elements;
            }
        }
        assert_memory_equal(back, host, (size_t)count * sizeof *host);
        assert_int_equal(moved, count);
        free(host);
        free(back);
        free(expected);
        free(actual);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dci_parts__move_little),
        cmocka_unit_test(dci_parts__hold_what_the_view_touches),
        cmocka_unit_test(dci_parts__lie_in_a_buffer_of_their_own),
        cmocka_unit_test(dci_parts__take_columns_and_every_third_row),
        cmocka_unit_test(dci_parts__of_flattened_layouts),
        cmocka_unit_test(dci_parts__make_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
