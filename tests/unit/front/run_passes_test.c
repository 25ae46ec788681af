// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static spyre_status compile_without(front_run *run, const char *skipped, front_result *out)
{
    uint32_t node;
    front_options options = {.settings = spyre_settings_default()};
    options.settings.skip_passes = skipped;
    return front_compile(run->graph, &options, run->memory, &node, out);
}

static void run_passes__optional_passes_can_be_left_out(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    front_result result;
    spyre_view view = sizes_view(2, 64, 64, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_unary(&run, "spyre.abs", x, view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
    assert_ok(compile_without(&run, NULL, &result));
    assert_int_equal(result.bundle->steps.count, 1);
    assert_int_equal(result.bundle->steps.items[0].cores->core_count, 32);
    assert_ok(compile_without(&run,
                              "deadcode,dedup_constants,work_distribution,joint_work_division",
                              &result));
    assert_int_equal(result.bundle->steps.count, 2);
    assert_int_equal(result.bundle->steps.items[0].cores->core_count, 1);
    front_run_end(&run);
}

static void check_refusal(const char *skipped, const char *message)
{
    front_run run = front_run_begin();
    front_result result;
    spyre_status status = compile_without(&run, skipped, &result);
    assert_int_equal(spyre_status_code(status), SPYRE_INVALID_ARGUMENT);
    assert_string_equal(spyre_status_message(status), message);
    spyre_status_free(status);
    front_run_end(&run);
}

static void run_passes__other_names_are_refused(void **state)
{
    (void)state;
    check_refusal("deadcode,normalize_loops",
                  "skip_passes: normalize_loops is needed for correctness");
    check_refusal("nonsense", "skip_passes: no pass is named 'nonsense'");
    check_refusal("dead", "skip_passes: no pass is named 'dead'");
    check_refusal("deadcode,,joint_work_division", "skip_passes: no pass is named ''");
}

// A stage that changes nothing leaves nothing behind in the memory of the compilation, but for the
// bundle of the last one.
static void run_passes__no_change_takes_no_memory(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    front_result result;
    spyre_view view = sizes_view(2, 64, 64, 0);
    uint32_t value = front_case_input(&run, view), weight = front_case_input(&run, view);
    for (uint32_t i = 0; i < 40; i++) {
        value = front_case_binary(&run, "spyre.batchmatmul", value, weight, view);
        value = front_case_unary(&run, "spyre.relufwd", value, view);
    }
    front_case_output(&run, value);
    assert_ok(compile_without(&run, "", &result));
    for (uint32_t n = 0; n < result.records.count; n++) {
        const pass_time *r = &result.records.items[n];
        if (!r->changed && r->bytes && strcmp(r->name, "emit") != 0)
            fail_msg("%s leaves %zu bytes", r->name, (size_t)r->bytes);
    }
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_passes__no_change_takes_no_memory),
        cmocka_unit_test(run_passes__optional_passes_can_be_left_out),
        cmocka_unit_test(run_passes__other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
