// SPDX-License-Identifier: Apache-2.0
//
// Allocations in several chunks: every transfer, view and launch across each boundary of chunks
// does what it does to one chunk.
#include "unit/runtime/device_case.h"

#include <string.h>

#include "card/card.h"
#include "runtime/device.h"
#include "spyre/placement.h"

static const spyre_placement everywhere = {.kind = SPYRE_PLACE_INTERLEAVE};

static uint64_t place(const spyre_placement *p, int64_t bytes)
{
    uint64_t address;
    assert_ok(spyre_memory_place(the_context, 0, 0, bytes, p, &address));
    return address;
}

static void release(uint64_t address)
{
    spyre_memory_free(the_context, 0, address);
}

static uint32_t chunks_of(uint64_t address, spyre_chunk *chunks)
{
    uint32_t count;
    assert_ok(spyre_memory_chunks(the_context, 0, address, chunks, &count));
    return count;
}

static uint8_t *physical(const spyre_chunk *chunk)
{
    device *d;
    assert_ok(device_of(the_context, 0, 0, &d));
    return card_memory(d->machine, chunk->region * CARD_SEGMENT_BYTES + chunk->offset,
                       (uint64_t)chunk->bytes);
}

static int64_t free_bytes(uint32_t domain)
{
    int64_t bytes[SPYRE_MEMORY_DOMAINS];
    assert_ok(spyre_memory_domains(the_context, 0, bytes));
    return bytes[domain];
}

static void composite_allocation__chunks(void **state)
{
    (void)state;
    int64_t page = (int64_t)card_page_bytes(), pages[] = {1, 2, 6, 7, 8, 20};
    for (size_t n = 0; n < sizeof pages / sizeof *pages; n++) {
        spyre_chunk chunks[SPYRE_MEMORY_DOMAINS];
        uint64_t address = place(&everywhere, pages[n] * page - 1);
        uint32_t count = chunks_of(address + 5, chunks);
        assert_int_equal(count, pages[n] < 7 ? pages[n] : 7);
        int64_t sum = 0;
        for (uint32_t k = 0; k < count; k++) {
            assert_int_equal(chunks[k].domain, k);
            assert_int_equal(chunks[k].offset % 128, 0);
            sum += chunks[k].bytes;
        }
        assert_int_equal(sum, pages[n] * page);
        release(address);
    }
    const spyre_placement some = {.kind = SPYRE_PLACE_INTERLEAVE, .domains = 0x52};
    spyre_chunk chunks[SPYRE_MEMORY_DOMAINS];
    uint64_t address = place(&some, 5 * page);
    assert_int_equal(chunks_of(address, chunks), 3);
    const uint32_t domain[] = {1, 4, 6};
    const int64_t bytes[] = {2 * page, 2 * page, page};
    for (uint32_t k = 0; k < 3; k++) {
        assert_int_equal(chunks[k].domain, domain[k]);
        assert_int_equal(chunks[k].bytes, bytes[k]);
    }
    release(address);
    const spyre_placement third = {.kind = SPYRE_PLACE_BIND, .domains = 8};
    address = place(&third, 5 * page);
    assert_int_equal(chunks_of(address, chunks), 1);
    assert_int_equal(chunks[0].region, 3);
    assert_int_equal(address, 3 * CARD_SEGMENT_BYTES + chunks[0].offset);
    release(address);
}

// What is written through the range lies in the chunks, in order, and the other way round.
static void composite_allocation__range_and_chunks_are_one_memory(void **state)
{
    (void)state;
    enum { FLOATS = 7 * 4096 };
    static float values[FLOATS], back[FLOATS];
    for (int n = 0; n < FLOATS; n++) values[n] = (float)n;
    const int64_t size[] = {FLOATS};
    const spyre_view whole = {.rank = 1, .size = {FLOATS}, .stride = {1}};
    spyre_layout layout;
    assert_ok(spyre_layout_default(size, 1, SPYRE_DTYPE_F32, &layout));
    uint64_t address = place(&everywhere, sizeof values);
    const spyre_transfer transfer = {.address = address, .layout = &layout, .storage = &whole,
                                     .dtype = SPYRE_DTYPE_F32};
    assert_ok(spyre_copy_to_card(the_context, &transfer, values));
    spyre_chunk chunks[SPYRE_MEMORY_DOMAINS];
    uint32_t count = chunks_of(address, chunks);
    assert_int_equal(count, 7);
    size_t at = 0;
    for (uint32_t k = 0; k < count; at += (size_t)chunks[k++].bytes) {
        assert_memory_equal(physical(&chunks[k]), (char *)values + at, (size_t)chunks[k].bytes);
        *(float *)(void *)physical(&chunks[k]) = -1.0f;
    }
    assert_ok(spyre_copy_to_host(the_context, &transfer, back));
    at = 0;
    for (uint32_t k = 0; k < count; at += (size_t)chunks[k++].bytes / 4) values[at] = -1.0f;
    assert_memory_equal(back, values, sizeof values);
    release(address);
}

// Parts, raw copies and zeros that end, begin or lie across each boundary of chunks.
static void composite_allocation__every_boundary(void **state)
{
    (void)state;
    enum { ROWS = 7 * 32, COLUMNS = 32 };       // a row is a stick, 32 rows a page of 4 KiB
    static float values[ROWS * COLUMNS], part[ROWS * COLUMNS], back[ROWS * COLUMNS];
    const int64_t size[] = {ROWS, COLUMNS};
    const spyre_view whole = {.rank = 2, .size = {ROWS, COLUMNS}, .stride = {COLUMNS, 1}};
    spyre_layout layout;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F32, &layout));
    uint64_t address = place(&everywhere, sizeof values), plain = allocate(0, sizeof values);
    spyre_transfer transfer = {.address = address, .layout = &layout, .storage = &whole,
                               .dtype = SPYRE_DTYPE_F32};
    for (int n = 0; n < ROWS * COLUMNS; n++) values[n] = (float)n;
    assert_ok(spyre_copy_to_card(the_context, &transfer, values));
    for (int n = 0; n < ROWS * COLUMNS; n++) part[n] = -(float)n;
    for (int64_t boundary = 32; boundary < ROWS; boundary += 32) {
        for (int64_t before = 0; before <= 2; before++) {
            int64_t first = boundary - before, rows = 2;
            spyre_view view = {.rank = 2, .size = {rows, COLUMNS}, .stride = {COLUMNS, 1},
                               .offset = first * COLUMNS};
            transfer.part = &view;
            assert_ok(spyre_copy_to_card(the_context, &transfer, part));
            for (int64_t n = first * COLUMNS; n < (first + rows) * COLUMNS; n++)
                values[n] = part[n];
            transfer.part = NULL;
            assert_ok(spyre_copy_to_host(the_context, &transfer, back));
            assert_memory_equal(back, values, sizeof values);
        }
        assert_ok(spyre_copy_raw(the_context, 0, 0, address + (uint64_t)(boundary - 1) * 128, 0,
                                 256));
        memset(&values[(boundary - 1) * COLUMNS], 0, 256);
    }
    assert_ok(spyre_copy_raw(the_context, 0, 0, plain, address, sizeof values));
    transfer.address = plain;
    assert_ok(spyre_copy_to_host(the_context, &transfer, back));
    assert_memory_equal(back, values, sizeof values);
    // Pages and more of zeros, which the host need not write.
    assert_ok(spyre_copy_raw(the_context, 0, 0, address + 128, 0, sizeof values - 256));
    transfer.address = address;
    assert_ok(spyre_copy_to_host(the_context, &transfer, back));
    for (int n = 0; n < ROWS * COLUMNS; n++) {
        bool edge = n < COLUMNS || n >= (ROWS - 1) * COLUMNS;
        assert_true(back[n] == (edge ? values[n] : 0.0f));
    }
    release(address);
    release(plain);
}

static void composite_allocation__launch(void **state)
{
    (void)state;
    float values[COUNT], result[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (float)n;
    adder *a = make_adder(1, 0);
    uint64_t input = place(&everywhere, sizeof values), output = place(&everywhere, sizeof values);
    put(0, 0, input, values);
    assert_ok(launch(a, 0, 0, input, output));
    assert_ok(get(0, 0, output, result));
    for (int n = 0; n < COUNT; n++) assert_true(result[n] == values[n] + 2);
    // Beyond the last chunk is beyond the allocation.
    free_adder(a);
    a = make_adder(1, 128);
    assert_ok(launch(a, 0, 0, input, output));
    assert_error(spyre_stream_synchronize(the_context, 0, 0), SPYRE_DEVICE_FAULT, "argument 3");
    free_adder(a);
    release(input);
    release(output);
}

static void composite_allocation__memory_comes_back(void **state)
{
    (void)state;
    int64_t before[SPYRE_MEMORY_DOMAINS], after[SPYRE_MEMORY_DOMAINS];
    spyre_memory_statistics start, held, end;
    spyre_memory_read_statistics(the_context, 0, &start);
    assert_ok(spyre_memory_domains(the_context, 0, before));
    uint64_t address = place(&everywhere, 1 << 20);
    spyre_memory_read_statistics(the_context, 0, &held);
    assert_int_equal(held.allocated_bytes - start.allocated_bytes, 1 << 20);
    assert_true(free_bytes(5) < before[5]);
    release(address);
    spyre_memory_read_statistics(the_context, 0, &end);
    assert_int_equal(end.allocated_bytes, start.allocated_bytes);
    assert_ok(spyre_memory_domains(the_context, 0, after));
    assert_memory_equal(before, after, sizeof before);
}

static void composite_allocation__errors(void **state)
{
    (void)state;
    uint64_t address;
    const struct {
        spyre_placement placement;
        int64_t bytes;
        spyre_code code;
        const char *text;
    } cases[] = {
        {{SPYRE_PLACE_BIND, 0}, 128, SPYRE_INVALID_ARGUMENT, "expected one of domains 0 to 6"},
        {{SPYRE_PLACE_BIND, 3}, 128, SPYRE_INVALID_ARGUMENT, "expected one of domains 0 to 6"},
        {{SPYRE_PLACE_BIND, 128}, 128, SPYRE_INVALID_ARGUMENT, "memory domains 0x80"},
        {{SPYRE_PLACE_INTERLEAVE, 129}, 128, SPYRE_INVALID_ARGUMENT, "memory domains 0x81"},
        {{SPYRE_PLACE_BIND, 4}, 2LL << 30, SPYRE_OUT_OF_MEMORY, "out of memory in domain 2"},
        {{SPYRE_PLACE_INTERLEAVE, 0}, 2LL << 30, SPYRE_OUT_OF_MEMORY, "out of memory in domain"},
    };
    int64_t before = free_bytes(0);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        assert_error(spyre_memory_place(the_context, 0, 0, cases[n].bytes, &cases[n].placement,
                                        &address),
                     cases[n].code, cases[n].text);
    }
    assert_int_equal(free_bytes(0), before);
    // A chunk is no allocation of its own.
    spyre_chunk chunks[SPYRE_MEMORY_DOMAINS];
    address = place(&everywhere, 1 << 16);
    uint32_t count;
    assert_int_equal(chunks_of(address, chunks), 7);
    uint64_t chunk = chunks[1].region * CARD_SEGMENT_BYTES + chunks[1].offset;
    assert_error(spyre_copy_raw(the_context, 0, 0, chunk, 0, 128), SPYRE_INVALID_ARGUMENT,
                 "is not allocated on card 0");
    spyre_memory_free(the_context, 0, chunk);
    assert_ok(spyre_memory_chunks(the_context, 0, address, chunks, &count));
    release(address);
    assert_error(spyre_memory_chunks(the_context, 0, address, chunks, &count),
                 SPYRE_INVALID_ARGUMENT, "is not allocated on card 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composite_allocation__chunks),
        cmocka_unit_test(composite_allocation__range_and_chunks_are_one_memory),
        cmocka_unit_test(composite_allocation__every_boundary),
        cmocka_unit_test(composite_allocation__launch),
        cmocka_unit_test(composite_allocation__memory_comes_back),
        cmocka_unit_test(composite_allocation__errors),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
