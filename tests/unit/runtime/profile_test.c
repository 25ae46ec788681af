// SPDX-License-Identifier: Apache-2.0
//
// Records for profilers: what is told of a launch, and where it stands on the host's clock.
#include "device_case.h"

#include <math.h>
#include <string.h>

#include "runtime/profile.h"

enum { MOST = 16 };

static uint32_t profile(adder *a, uint64_t x, spyre_activity *out_records)
{
    spyre_profile_enable(the_context, true);
    assert_ok(launch(a, 0, 0, x, x));
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_profile_enable(the_context, false);
    return spyre_profile_take(the_context, out_records, MOST);
}

static const spyre_activity *find(const spyre_activity *records, uint32_t count,
                                  spyre_activity_kind kind, bool submission)
{
    const spyre_activity *found = NULL;
    for (uint32_t n = 0; n < count; n++) {
        if (records[n].kind != kind || records[n].submission != submission) continue;
        assert_null(found);
        found = &records[n];
    }
    assert_non_null(found);
    return found;
}

static void profile__a_launch_has_a_submission_and_kernels(void **state)
{
    (void)state;
    adder *a = make_adder(3, 0);
    uint64_t x = allocate(0, COUNT * 4);
    spyre_activity records[MOST];
    spyre_profile_tag(77);
    uint32_t count = profile(a, x, records);
    spyre_profile_tag(0);
    assert_int_equal(count, 3);
    const spyre_activity *submission = find(records, count, SPYRE_ACTIVITY_LAUNCH, true);
    const spyre_activity *whole = find(records, count, SPYRE_ACTIVITY_LAUNCH, false);
    const spyre_activity *kernel = find(records, count, SPYRE_ACTIVITY_KERNEL, false);
    const card_counters *kernels, *total = job_counters(a->j, &kernels);
    assert_string_equal(submission->name, "adder");
    assert_string_equal(whole->name, "adder");
    assert_string_equal(kernel->name, "adder#0_test");
    assert_string_equal(kernel->source, "model.py:7");
    assert_int_equal(whole->bytes, total->memory_read_bytes + total->memory_written_bytes);
    assert_int_equal(kernel->bytes, whole->bytes);
    assert_int_equal(kernel->runs, 1);
    assert_true(kernel->card_begin_us == whole->card_begin_us);
    assert_true(fabs(kernel->card_end_us - kernel->card_begin_us - kernels[0].us) < 1e-9);
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(records[n].correlation, whole->correlation);
        assert_int_equal(records[n].tag, 77);
        assert_int_equal(records[n].thread, submission->thread);
        assert_true(records[n].submitted_us <= records[n].host_begin_us);
        assert_true(records[n].host_begin_us <= records[n].host_end_us);
    }
    spyre_memory_free(the_context, 0, x);
    free_adder(a);
}

// A loop around kernels is one record; kernels beside it have their own.
static void profile__a_loop_around_kernels_is_one_record(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    card_counters kernels[4] = {0};
    const char *const names[] = {"0_copy", "1_exp", "2_mul", "3_add"};
    for (uint32_t k = 0; k < 4; k++) {
        if (k == 1) emit(p, ISA_LOOP)->count = 8;
        begin_kernel(p, 1, 0);
        emit(p, ISA_LOOP)->count = 5;
        emit(p, ISA_END_LOOP);
        end_kernel(p);
        if (k == 2) emit(p, ISA_END_LOOP);
        p->kernels.items[k].name = names[k];
        kernels[k].us = k + 1;
        kernels[k].runs = k == 1 || k == 2 ? 8 : 1;
        kernels[k].memory_read_bytes = 100;
        kernels[k].busy_us[CARD_PT] = 0.5;
    }
    emit(p, ISA_HALT);
    profile_list *list;
    profile_outline *outline;
    assert_ok(profile_list_create(&list));
    assert_ok(profile_outline_create(p, kernels, &outline));
    free_program(p);                    // launches may outlive it
    spyre_activity launch_record = {.kind = SPYRE_ACTIVITY_LAUNCH, .card_begin_us = 10,
                                    .card_end_us = 20, .name = "p"};
    profile_kernel_rows(outline, &launch_record, list);
    spyre_context context = {.records = list};
    spyre_activity r[MOST];
    assert_int_equal(spyre_profile_take(&context, r, MOST), 3);
    assert_string_equal(r[0].name, "p#0_copy");
    assert_string_equal(r[1].name, "p#1_exp..2_mul");
    assert_string_equal(r[2].name, "p#3_add");
    assert_int_equal(r[1].runs, 16);
    assert_int_equal(r[1].bytes, 200);
    assert_true(r[1].pt_busy_us == 1.0);
    assert_true(r[0].card_begin_us == 10 && r[0].card_end_us == 11);
    assert_true(r[1].card_begin_us == 11 && r[1].card_end_us == 16);
    assert_true(r[2].card_begin_us == 16 && r[2].card_end_us == 20);
    memset(launch_record.name, 'x', SPYRE_PROFILE_NAME - 1);
    profile_kernel_rows(outline, &launch_record, list);
    assert_int_equal(spyre_profile_take(&context, r, MOST), 3);
    assert_int_equal(strlen(r[1].name), SPYRE_PROFILE_NAME - 1);
    assert_string_equal(strchr(r[1].name, '#'), "#1_exp..2_mul");
    profile_list_destroy(list);
    profile_outline_destroy(outline);
}

// Jobs and programs go while their launches are queued.
static void profile__a_launch_that_outlives_its_program_tells_its_kernels(void **state)
{
    (void)state;
    enum { LAUNCHES = 4 };
    uint64_t x = allocate(0, COUNT * 4);
    uint32_t side = spyre_stream_from_pool(the_context, 0, false), kernels = 0;
    spyre_activity records[MOST];
    spyre_profile_enable(the_context, true);
    for (int n = 0; n < LAUNCHES; n++) {
        adder *a = make_adder(500, 0);
        assert_ok(launch(a, 0, side, x, x));
        free_adder(a);
    }
    spyre_profile_enable(the_context, false);
    assert_ok(spyre_card_synchronize(the_context, 0));
    uint32_t count = spyre_profile_take(the_context, records, MOST);
    assert_int_equal(count, 3 * LAUNCHES);
    for (uint32_t n = 0; n < count; n++) {
        if (records[n].kind != SPYRE_ACTIVITY_KERNEL) continue;
        assert_string_equal(records[n].name, "adder#0_test");
        assert_string_equal(records[n].source, "model.py:7");
        kernels++;
    }
    assert_int_equal(kernels, LAUNCHES);
    spyre_memory_free(the_context, 0, x);
}

static spyre_activity on_card(uint32_t card_id, double begin_us, double end_us, double submitted_us)
{
    return (spyre_activity){.card = card_id, .card_begin_us = begin_us, .card_end_us = end_us,
                            .submitted_us = submitted_us};
}

static void assert_placed(const spyre_activity *r, double begin_us, double end_us)
{
    assert_true(fabs(r->placed_begin_us - begin_us) < 1e-6);
    assert_true(fabs(r->placed_end_us - end_us) < 1e-6);
}

static void profile__nothing_begins_before_it_was_submitted(void **state)
{
    (void)state;
    spyre_activity r[] = {
        on_card(0, 30, 40, 1100),       // in any order
        on_card(0, 0, 10, 1000),
        on_card(0, 10, 30, 1005),
        on_card(1, 0, 5, 500),
        on_card(0, 40, 40.0001, 1101),  // below a nanosecond
        on_card(0, 40.0001, 41, 1101),
        {.submission = true, .host_begin_us = 7, .host_end_us = 9},
    };
    assert_ok(spyre_profile_place(r, 7));
    assert_placed(&r[1], 1000, 1010);
    assert_placed(&r[2], 1010, 1030);   // submitted while the card was busy
    assert_placed(&r[0], 1100, 1110);   // the card waited for the host
    assert_placed(&r[3], 500, 505);     // cards have clocks of their own
    assert_placed(&r[4], 1110, 1110.001);
    assert_placed(&r[5], 1110.001, 1110.001 + 0.9999);
    assert_placed(&r[6], 7, 9);
    assert_true(r[2].card_begin_us == 10 && r[2].card_end_us == 30);
    assert_ok(spyre_profile_place(NULL, 0));
}

// Whatever begins together stays in order: a launch, its first kernel of no time, the second one.
static void profile__kernels_of_no_time_stay_in_order(void **state)
{
    (void)state;
    spyre_activity r[] = {on_card(0, 10, 12, 100), on_card(0, 10, 10, 100),
                          on_card(0, 10, 12, 100)};
    r[0].kind = r[1].kind = SPYRE_ACTIVITY_KERNEL;
    assert_ok(spyre_profile_place(r, 3));
    assert_placed(&r[2], 100, 102);
    assert_placed(&r[1], 100, 100.001);
    assert_placed(&r[0], 100.001, 102.001);
}

static void profile__a_fill_is_told_from_a_copy(void **state)
{
    (void)state;
    uint64_t x = allocate(0, 1024), y = allocate(0, 1024);
    spyre_activity records[MOST];
    spyre_profile_enable(the_context, true);
    assert_ok(spyre_copy_raw(the_context, 0, 0, x, 0, 1024));
    assert_ok(spyre_copy_raw(the_context, 0, 0, y, x, 1024));
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_profile_enable(the_context, false);
    assert_ok(spyre_copy_raw(the_context, 0, 0, x, 0, 1024));
    uint32_t count = spyre_profile_take(the_context, records, MOST);
    assert_int_equal(count, 4);
    const spyre_activity *fill = find(records, count, SPYRE_ACTIVITY_FILL, false);
    const spyre_activity *copy = find(records, count, SPYRE_ACTIVITY_COPY_ON_CARD, false);
    assert_int_equal(fill->bytes, 1024);
    assert_int_equal(copy->bytes, 1024);
    // The published rates: 150 GB/s in one direction, 105 GB/s read and written together.
    assert_true(fabs(1024 / (fill->card_end_us - fill->card_begin_us) - 150e3) < 10);
    assert_true(fabs(2 * 1024 / (copy->card_end_us - copy->card_begin_us) - 105e3) < 500);
    assert_int_equal(spyre_profile_take(the_context, records, MOST), 0);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
}

static void profile__what_has_no_room_is_counted(void **state)
{
    (void)state;
    profile_list *list;
    assert_ok(profile_list_create(&list));
    spyre_context context = {.records = list};
    spyre_activity record = {0};
    for (uint32_t n = 0; n < SPYRE_PROFILE_MOST + 3; n++) {
        record.correlation = n;
        profile_append(list, &record);
    }
    assert_int_equal(spyre_profile_lost(&context), 3);
    assert_int_equal(spyre_profile_lost(&context), 0);
    assert_int_equal(spyre_profile_take(&context, &record, 1), 1);
    assert_int_equal(record.correlation, 0);
    assert_int_equal(spyre_profile_take(&context, &record, 1), 1);
    assert_int_equal(record.correlation, 1);
    // What was taken left room.
    for (uint32_t n = 0; n < 3; n++) {
        record.correlation = SPYRE_PROFILE_MOST + n;
        profile_append(list, &record);
    }
    assert_int_equal(spyre_profile_lost(&context), 1);
    static spyre_activity some[3000];
    uint64_t expected = 2;
    for (uint32_t count; (count = spyre_profile_take(&context, some, 3000)) > 0;)
        for (uint32_t n = 0; n < count; n++) assert_true(some[n].correlation == expected++);
    assert_int_equal(expected, SPYRE_PROFILE_MOST + 2);
    profile_list_destroy(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profile__a_launch_has_a_submission_and_kernels),
        cmocka_unit_test(profile__a_loop_around_kernels_is_one_record),
        cmocka_unit_test(profile__a_launch_that_outlives_its_program_tells_its_kernels),
        cmocka_unit_test(profile__nothing_begins_before_it_was_submitted),
        cmocka_unit_test(profile__kernels_of_no_time_stay_in_order),
        cmocka_unit_test(profile__a_fill_is_told_from_a_copy),
        cmocka_unit_test(profile__what_has_no_room_is_counted),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
