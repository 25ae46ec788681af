// SPDX-License-Identifier: Apache-2.0
//
// Memory, transfers, launches, streams and events through the public interface.
#include "unit/card/program.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/job.h"

enum { COUNT = 4096 };

static spyre_context *the_context;

static int open_context(void **state)
{
    (void)state;
    setenv("SPYRE_MEMORY_LIMIT_GB", "1", 1);
    assert_ok(spyre_context_create(2, &the_context));
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    spyre_context_destroy(the_context);
    return 0;
}

static uint64_t allocate(uint32_t card_id, int64_t bytes)
{
    uint64_t address;
    assert_ok(spyre_memory_allocate(the_context, card_id, 0, bytes, &address));
    return address;
}

static const int64_t sizes[1] = {COUNT};
static const spyre_view dense = {.rank = 1, .size = {COUNT}, .stride = {1}};

static spyre_layout flat_layout(void)
{
    spyre_layout layout;
    assert_ok(spyre_layout_default(sizes, 1, SPYRE_DTYPE_F32, &layout));
    return layout;
}

static void put(uint32_t card_id, uint32_t stream_id, uint64_t address, const float *values)
{
    spyre_layout layout = flat_layout();
    const spyre_transfer transfer = {card_id, stream_id, address, &layout, &dense,
                                     SPYRE_DTYPE_F32, NULL, NULL};
    assert_ok(spyre_copy_to_card(the_context, &transfer, values));
}

static spyre_status get(uint32_t card_id, uint32_t stream_id, uint64_t address, float *values)
{
    spyre_layout layout = flat_layout();
    const spyre_transfer transfer = {card_id, stream_id, address, &layout, &dense,
                                     SPYRE_DTYPE_F32, NULL, NULL};
    return spyre_copy_to_host(the_context, &transfer, values);
}

// buffer 0 = input 0 + constants, through the pool, `repeats` times; `past` bytes beyond the end.
static isa_program *add_program(uint32_t repeats, int64_t past)
{
    isa_program *p = new_program(4);
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = repeats;
    isa_operand a = in_lx(0, SPYRE_FORMAT_IEEE_FP32), b = in_lx(COUNT * 4, SPYRE_FORMAT_IEEE_FP32);
    for (uint16_t step = 0; step < 2; step++) {
        uint16_t first = step == 0 ? 0 : 2, last = step == 0 ? 2 : 3;
        if (step == 1) wait_for(p, ISA_QUEUE_LOAD, 2);
        isa_operand from = in_memory(first, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_FP32);
        isa_operand constant = in_memory(1, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_FP32);
        isa_operand to = in_memory(last, ISA_NO_SLOT, step ? past : 0, SPYRE_FORMAT_IEEE_FP32);
        emit_flat(p, ISA_LOAD, COUNT, 2, (isa_operand[]){a, from});
        emit_flat(p, ISA_LOAD, COUNT, 2, (isa_operand[]){b, constant});
        signal_to(p, ISA_QUEUE_LOAD, 0);
        wait_for(p, ISA_QUEUE_SFP, 0);
        emit_flat(p, ISA_VECTOR, COUNT, 3, (isa_operand[]){a, a, b})->op = OPFUNC_ADD;
        signal_to(p, ISA_QUEUE_SFP, 1);
        wait_for(p, ISA_QUEUE_STORE, 1);
        emit_flat(p, ISA_STORE, COUNT, 2, (isa_operand[]){to, a});
        signal_to(p, ISA_QUEUE_STORE, step ? 3 : 2);
    }
    wait_for(p, ISA_QUEUE_LOAD, 3);
    emit(p, ISA_END_LOOP);
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

// A job that adds 2 * 1.0, its program and constants.
typedef struct {
    job *j;
    isa_program *program;
    float ones[COUNT];
} adder;

static adder *make_adder(uint32_t repeats, int64_t past)
{
    adder *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (int n = 0; n < COUNT; n++) a->ones[n] = 1.0f;
    a->program = add_program(repeats, past);
    const job_argument arguments[4] = {{.kind = JOB_INPUT, .bytes = COUNT * 4},
                                       {.kind = JOB_CONSTANTS, .bytes = COUNT * 4, .data = a->ones},
                                       {.kind = JOB_POOL, .bytes = COUNT * 4},
                                       {.kind = JOB_BUFFER, .bytes = COUNT * 4}};
    const job_plan plan = {.program = a->program,
                           .argument_count = 4,
                           .arguments = arguments,
                           .name = "adder",
                           .forgets_lx = true};
    assert_ok(job_create(&plan, &a->j));
    return a;
}

static void free_adder(adder *a)
{
    job_destroy(a->j);
    free_program(a->program);
    free(a);
}

static spyre_status launch(adder *a, uint32_t card_id, uint32_t stream_id, uint64_t input,
                           uint64_t buffer)
{
    return job_launch(the_context, card_id, stream_id, a->j, &input, &buffer);
}

static void device__round_trip_and_launch_on_two_cards(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    for (uint32_t card_id = 0; card_id < 2; card_id++) {
        float values[COUNT], back[COUNT];
        for (int n = 0; n < COUNT; n++) values[n] = (float)n + (float)card_id;
        uint64_t x = allocate(card_id, COUNT * 4), y = allocate(card_id, COUNT * 4);
        put(card_id, 0, x, values);
        assert_ok(get(card_id, 0, x, back));
        assert_memory_equal(values, back, sizeof values);
        assert_ok(launch(a, card_id, 0, x, y));
        assert_ok(get(card_id, 0, y, back));
        for (int n = 0; n < COUNT; n++) assert_true(back[n] == values[n] + 2.0f);
        spyre_memory_free(the_context, card_id, x);
        spyre_memory_free(the_context, card_id, y);
    }
    free_adder(a);
}

static void device__statistics_are_flat_over_many_allocations(void **state)
{
    (void)state;
    spyre_memory_statistics before, after;
    spyre_memory_read_statistics(the_context, 0, &before);
    uint64_t addresses[64] = {0}, seed = 11;
    for (int n = 0; n < 10000; n++) {
        uint64_t *slot = &addresses[next_random(&seed) % 64];
        if (*slot) spyre_memory_free(the_context, 0, *slot);
        *slot = allocate(0, next_random(&seed) % 100000);
    }
    for (int n = 0; n < 64; n++)
        if (addresses[n]) spyre_memory_free(the_context, 0, addresses[n]);
    spyre_memory_read_statistics(the_context, 0, &after);
    assert_int_equal(after.allocated_bytes, before.allocated_bytes);
    assert_int_equal(after.allocation_count, before.allocation_count);
    assert_int_equal(after.total_allocations, before.total_allocations + 10000);
    assert_true(after.peak_bytes > 64 * 1024);
    assert_true(after.reserved_bytes < 16 << 20);
    assert_int_equal(after.limit_bytes, 1 << 30);
    spyre_memory_reset_peak(the_context, 0);
    spyre_memory_read_statistics(the_context, 0, &after);
    assert_int_equal(after.peak_bytes, after.allocated_bytes);
}

static void device__out_of_memory_names_bytes(void **state)
{
    (void)state;
    uint64_t address;
    assert_error(spyre_memory_allocate(the_context, 1, 0, 2LL << 30, &address), SPYRE_OUT_OF_MEMORY,
                 "card 1: card out of memory: 2147483648 bytes asked, ");
    assert_error(spyre_memory_allocate(the_context, 0, 0, -1, &address), SPYRE_INVALID_ARGUMENT,
                 "-1 bytes");
}

static void device__bad_addresses_are_refused(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4), small = allocate(0, 100);
    assert_error(launch(a, 0, 0, 0x7000000, x), SPYRE_INVALID_ARGUMENT,
                 "adder: input 0: address 0x7000000 is not allocated on card 0");
    assert_error(launch(a, 0, 0, x, small), SPYRE_INVALID_ARGUMENT,
                 "16384 bytes needed, its allocation has 128 left");
    float values[COUNT];
    assert_error(get(0, 0, small, values), SPYRE_INVALID_ARGUMENT, "copy to host");
    assert_error(spyre_stream_synchronize(the_context, 0, 65), SPYRE_INVALID_ARGUMENT,
                 "stream 65");
    assert_error(spyre_stream_synchronize(the_context, 2, 0), SPYRE_INVALID_ARGUMENT, "card 2");
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, small);
    free_adder(a);
}

static void device__a_job_has_one_pool(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    job *j = NULL;
    const job_argument arguments[4] = {{.kind = JOB_INPUT},
                                       {.kind = JOB_POOL, .bytes = COUNT * 4},
                                       {.kind = JOB_POOL, .bytes = COUNT * 4},
                                       {.kind = JOB_BUFFER}};
    const job_plan plan = {a->program, 4, arguments, "two", false};
    assert_error(job_create(&plan, &j), SPYRE_UNSUPPORTED, "job two: 2 pools, at most one");
    assert_null(j);
    free_adder(a);
}

static void device__fault_is_sticky_until_reported(void **state)
{
    (void)state;
    adder *good = make_adder(1, 0), *bad = make_adder(1, 128);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    put(0, 0, x, values);
    uint32_t side = spyre_stream_from_pool(the_context, 0, false);
    assert_ok(launch(bad, 0, 0, x, y));
    assert_ok(launch(bad, 0, side, x, y));
    // Enqueueing reports without clearing; synchronising reports and clears the default stream.
    spyre_status status = launch(good, 0, 0, x, y);
    if (status) assert_int_equal(spyre_status_code(status), SPYRE_DEVICE_FAULT);
    spyre_status_free(status);
    assert_error(spyre_stream_synchronize(the_context, 0, 0), SPYRE_DEVICE_FAULT,
                 "adder: core 0, kernel 0_test (model.py:7)");
    assert_ok(spyre_stream_synchronize(the_context, 0, 0));
    assert_false(spyre_stream_failed(the_context, 0, 0));
    assert_ok(launch(good, 0, 0, x, y));
    assert_ok(get(0, 0, y, values));
    assert_true(values[7] == 2.0f);
    // The other stream stays failed, the card complains once.
    assert_error(spyre_card_synchronize(the_context, 0), SPYRE_DEVICE_FAULT, "adder");
    assert_ok(spyre_card_synchronize(the_context, 0));
    assert_true(spyre_stream_failed(the_context, 0, side));
    assert_true(spyre_stream_failed(the_context, 0, 65));      // there is none
    assert_error(launch(good, 0, side, x, y), SPYRE_DEVICE_FAULT, "adder");
    assert_error(spyre_stream_synchronize(the_context, 0, side), SPYRE_DEVICE_FAULT, "adder");
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    free_adder(good);
    free_adder(bad);
}

static void device__blocking_copy_reports_and_clears(void **state)
{
    (void)state;
    adder *bad = make_adder(100, 128);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    put(0, 0, x, values);
    assert_ok(launch(bad, 0, 0, x, y));
    assert_error(get(0, 0, y, values), SPYRE_DEVICE_FAULT, "argument 3");
    assert_ok(get(0, 0, x, values));
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    free_adder(bad);
}

// A long launch keeps a stream busy while memory is freed and jobs are destroyed behind it.
static void device__frees_wait_for_work_under_way(void **state)
{
    (void)state;
    float values[COUNT], back[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (float)n;
    spyre_memory_statistics before, after;
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_memory_read_statistics(the_context, 0, &before);
    for (int round = 0; round < 5; round++) {
        adder *a = make_adder(2000, 0);
        uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
        uint32_t side = spyre_stream_from_pool(the_context, 0, round % 2);
        put(0, side, x, values);
        assert_ok(launch(a, 0, side, x, y));
        assert_ok(launch(a, 0, side, y, y));
        spyre_memory_free(the_context, 0, x);
        free_adder(a);
        // Would take x's place if the free were not ordered behind the launch.
        uint64_t z = allocate(0, COUNT * 4);
        put(0, 0, z, (float[COUNT]){0});
        assert_ok(get(0, side, y, back));
        for (int n = 0; n < COUNT; n++) assert_true(back[n] == values[n] + 2.0f + 4000.0f);
        spyre_memory_free(the_context, 0, y);
        spyre_memory_free(the_context, 0, z);
    }
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_memory_read_statistics(the_context, 0, &after);
    assert_int_equal(after.allocated_bytes, before.allocated_bytes);
}

static void device__streams_keep_order(void **state)
{
    (void)state;
    adder *slow = make_adder(300, 0), *quick = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    for (uint32_t stream_id = 0; stream_id < 65; stream_id += 32) {
        put(0, stream_id, x, (float[COUNT]){0});
        for (int n = 0; n < 10; n++) assert_ok(launch(n % 3 ? quick : slow, 0, stream_id, x, x));
        assert_ok(get(0, stream_id, x, values));
        // `slow` repeats: each repetition reads x again, so it adds 2 * 300.
        assert_true(values[100] == 4 * 600.0f + 6 * 2.0f);
        assert_true(spyre_stream_query(the_context, 0, stream_id));
    }
    spyre_memory_free(the_context, 0, x);
    free_adder(slow);
    free_adder(quick);
}

static void device__events_order_streams(void **state)
{
    (void)state;
    adder *slow = make_adder(1000, 0), *quick = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    put(0, 20, x, values);
    spyre_event *begin = NULL, *end = NULL;
    assert_ok(spyre_event_record(the_context, 0, 20, &begin));
    assert_ok(launch(slow, 0, 20, x, x));
    assert_ok(spyre_event_record(the_context, 0, 20, &end));
    assert_ok(spyre_event_wait(the_context, 0, 50, end));
    assert_ok(launch(quick, 0, 50, x, y));
    assert_ok(get(0, 50, y, values));
    assert_true(values[5] == 2002.0f);
    assert_true(spyre_event_query(end));
    spyre_event_synchronize(end);
    assert_true(spyre_event_elapsed_ms(begin, end) > 0);
    spyre_event_destroy(begin);
    spyre_event_destroy(end);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    free_adder(slow);
    free_adder(quick);
}

// A transfer of several MiB is divided among threads; a transposed host view goes without staging.
static void device__large_transfers_and_views(void **state)
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

static void device__parts_of_a_tensor_travel_alone(void **state)
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

static void device__raw_copy_and_zero(void **state)
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

static void device__activity_is_recorded_when_enabled(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    spyre_activity records[8];
    put(0, 0, x, values);
    assert_int_equal(spyre_events_take(the_context, records, 8), 0);
    spyre_events_enable(the_context, true);
    put(0, 0, x, values);
    assert_ok(launch(a, 0, 2, x, x));
    assert_ok(spyre_stream_synchronize(the_context, 0, 2));
    assert_ok(get(0, 0, x, values));
    spyre_events_enable(the_context, false);
    assert_int_equal(spyre_events_take(the_context, records, 8), 3);
    assert_string_equal(records[0].kind, "copy_to_card");
    assert_string_equal(records[1].kind, "launch");
    assert_string_equal(records[1].name, "adder");
    assert_string_equal(records[2].kind, "copy_to_host");
    assert_int_equal(records[1].stream, 2);
    assert_int_equal(records[0].bytes, COUNT * 4);
    for (int n = 0; n < 3; n++) {
        assert_true(records[n].host_end_us >= records[n].host_begin_us);
        assert_true(records[n].card_end_us > records[n].card_begin_us);
        assert_int_equal(records[n].correlation, records[0].correlation + (uint64_t)n);
    }
    spyre_memory_free(the_context, 0, x);
    free_adder(a);
}

// On the virtual clock launches exclude each other whatever their streams, a transfer runs beside
// them, and what the host submits after it has waited comes later.
static void device__the_virtual_clock_schedules(void **state)
{
    (void)state;
    adder *slow = make_adder(1000, 0);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4), z = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    spyre_activity r[8];
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_events_enable(the_context, true);
    assert_ok(launch(slow, 0, 3, x, y));
    assert_ok(launch(slow, 0, 4, x, z));
    assert_ok(spyre_stream_synchronize(the_context, 0, 4));
    assert_ok(spyre_stream_synchronize(the_context, 0, 3));
    put(0, 5, x, values);
    assert_ok(launch(slow, 0, 3, x, y));
    put(0, 6, z, values);
    assert_ok(spyre_stream_synchronize(the_context, 0, 3));
    spyre_events_enable(the_context, false);
    assert_int_equal(spyre_events_take(the_context, r, 8), 5);
    // Records come in the order of ends on the host; the last two may change places.
    uint32_t third = strcmp(r[3].kind, "launch") == 0 ? 3 : 4, copy = 7 - third;
    double launch_us = job_counters(slow->j, NULL)->us;
    assert_true(launch_us > 500);
    assert_true(fabs(r[0].card_end_us - r[0].card_begin_us - launch_us) < 1e-6 * launch_us);
    assert_true(r[1].card_begin_us == r[0].card_end_us);
    assert_true(r[2].card_begin_us == r[1].card_end_us);
    assert_true(r[third].card_begin_us == r[2].card_end_us);
    assert_true(r[copy].card_begin_us == r[2].card_end_us);
    assert_true(r[copy].card_end_us < r[third].card_end_us);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    spyre_memory_free(the_context, 0, z);
    free_adder(slow);
}

static void device__a_forked_child_gets_an_error(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        uint64_t address;
        spyre_status status = spyre_memory_allocate(the_context, 0, 0, 128, &address);
        bool right = status && strstr(spyre_status_message(status), "forked child");
        spyre_memory_free(the_context, 0, 128);
        spyre_context_destroy(the_context);
        _exit(right ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void device__a_job_outlives_its_context(void **state)
{
    (void)state;
    spyre_context *other;
    assert_ok(spyre_context_create(1, &other));
    adder *a = make_adder(1, 0);
    uint64_t x;
    assert_ok(spyre_memory_allocate(other, 0, 0, COUNT * 4, &x));
    assert_ok(job_launch(other, 0, 0, a->j, &x, &x));
    spyre_context_destroy(other);
    uint64_t y = allocate(0, COUNT * 4);
    assert_ok(launch(a, 0, 0, y, y));
    spyre_memory_free(the_context, 0, y);
    free_adder(a);
    assert_ok(spyre_card_synchronize(the_context, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device__round_trip_and_launch_on_two_cards),
        cmocka_unit_test(device__statistics_are_flat_over_many_allocations),
        cmocka_unit_test(device__out_of_memory_names_bytes),
        cmocka_unit_test(device__bad_addresses_are_refused),
        cmocka_unit_test(device__a_job_has_one_pool),
        cmocka_unit_test(device__fault_is_sticky_until_reported),
        cmocka_unit_test(device__blocking_copy_reports_and_clears),
        cmocka_unit_test(device__frees_wait_for_work_under_way),
        cmocka_unit_test(device__streams_keep_order),
        cmocka_unit_test(device__events_order_streams),
        cmocka_unit_test(device__large_transfers_and_views),
        cmocka_unit_test(device__parts_of_a_tensor_travel_alone),
        cmocka_unit_test(device__raw_copy_and_zero),
        cmocka_unit_test(device__activity_is_recorded_when_enabled),
        cmocka_unit_test(device__the_virtual_clock_schedules),
        cmocka_unit_test(device__a_forked_child_gets_an_error),
        cmocka_unit_test(device__a_job_outlives_its_context),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
