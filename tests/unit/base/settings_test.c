// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "spyre/settings.h"

static void check_refused(const char *name, const char *value, const char *expected)
{
    spyre_settings settings = spyre_settings_default();
    const spyre_settings before = settings;
    spyre_status status = spyre_settings_set(&settings, name, value);
    assert_non_null(status);
    assert_non_null(strstr(spyre_status_message(status), expected));
    assert_memory_equal(&settings, &before, sizeof settings);
    spyre_status_free(status);
}

static void settings__defaults_are_those_of_the_table(void **state)
{
    (void)state;
    spyre_settings settings = spyre_settings_default();
    assert_int_equal(settings.sencores, 32);
    assert_true(settings.lx_planning);
    assert_true(settings.dxp_lx_frac_avail == 0.2);
    assert_null(settings.skip_passes);
}

static void settings__take_their_text_form(void **state)
{
    (void)state;
    spyre_settings settings = spyre_settings_default();
    assert_ok(spyre_settings_set(&settings, "sencores", "7"));
    assert_ok(spyre_settings_set(&settings, "lx_planning", "0"));
    assert_ok(spyre_settings_set(&settings, "dxp_lx_frac_avail", "0.5"));
    assert_ok(spyre_settings_set(&settings, "layout_solver", "bestfit"));
    assert_ok(spyre_settings_set(&settings, "skip_passes", "deadcode"));
    assert_int_equal(settings.sencores, 7);
    assert_false(settings.lx_planning);
    assert_true(settings.dxp_lx_frac_avail == 0.5);
    char *printed;
    assert_ok(spyre_settings_print(&settings, &printed));
    assert_non_null(strstr(printed, "sencores=7\nlx_planning=0\ndxp_lx_frac_avail=0.5\n"));
    assert_non_null(strstr(printed, "layout_solver=bestfit\n"));
    assert_non_null(strstr(printed, "skip_passes=deadcode\n"));
    free(printed);
}

static void settings__choices_may_have_two_names(void **state)
{
    (void)state;
    static const char *const names[] = {"search", "simulated_annealing", "exact", "cpsat"};
    uint32_t choice[4];
    char *printed;
    spyre_settings settings = spyre_settings_default();
    for (uint32_t i = 0; i < 4; i++) {
        assert_ok(spyre_settings_set(&settings, "layout_solver", names[i]));
        choice[i] = settings.layout_solver;
    }
    assert_int_equal(choice[0], 0);
    assert_int_equal(choice[1], 0);
    assert_int_equal(choice[2], 4);
    assert_int_equal(choice[3], 4);
    assert_ok(spyre_settings_print(&settings, &printed));
    assert_non_null(strstr(printed, "layout_solver=exact\n"));
    free(printed);
}

static void settings__nonsense_is_refused_with_the_rule(void **state)
{
    (void)state;
    check_refused("sencores", "33", "invalid SENCORES value '33': expected a whole number 1..32");
    static const char *const no_count[] = {"0",   "",    "-1", "1.5", "0x8", "many",
                                           "nan", "1e1", " 4", "4 "};
    for (size_t i = 0; i < sizeof no_count / sizeof no_count[0]; i++)
        check_refused("sencores", no_count[i], "expected a whole number 1..32");
    check_refused("dxp_lx_frac_avail", "1.01", "expected a number 0..1");
    check_refused("lx_planning", "yes", "expected 0 or 1");
    check_refused("layout_solver", "best",
                  "expected one of search=simulated_annealing greedy firstfit");
    check_refused("layout_solver", "search=simulated_annealing", "expected one of");
    check_refused("layout_solver", "",
                  "expected one of search=simulated_annealing greedy firstfit");
    check_refused("lx_plannin", "1", "no setting is named 'lx_plannin'");
    check_refused("SENCORES", "9", "named 'SENCORES'; it is the variable of sencores");
}

static void settings__are_checked_as_a_whole(void **state)
{
    (void)state;
    spyre_settings settings = spyre_settings_default();
    assert_ok(spyre_settings_check(&settings));
    settings.sencores = 33;
    assert_error(spyre_settings_check(&settings), SPYRE_UNSUPPORTED,
                 "invalid SENCORES value 33: expected a whole number 1..32");
    settings = spyre_settings_default();
    settings.layout_solver = 99;
    assert_error(spyre_settings_check(&settings), SPYRE_UNSUPPORTED,
                 "invalid LAYOUT_SOLVER value 99");
    settings = spyre_settings_default();
    settings.dxp_lx_frac_avail = NAN;
    assert_error(spyre_settings_check(&settings), SPYRE_UNSUPPORTED, "expected a number 0..1");
}

static void settings__environment_names_the_variable(void **state)
{
    (void)state;
    spyre_settings settings;
    setenv("SENCORES", "5", 1);
    setenv("LX_PLANNING", "", 1); // empty: not set
    assert_ok(spyre_settings_from_environment(&settings));
    assert_int_equal(settings.sencores, 5);
    assert_true(settings.lx_planning);
    setenv("SENCORES", "64", 1);
    spyre_status status = spyre_settings_from_environment(&settings);
    assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
    assert_string_equal(spyre_status_message(status),
                        "invalid SENCORES value '64': expected a whole number 1..32");
    spyre_status_free(status);
    unsetenv("SENCORES");
    unsetenv("LX_PLANNING");
}

static void settings__every_row_says_what_it_is(void **state)
{
    (void)state;
    assert_null(spyre_setting_at(spyre_setting_count()));
    for (uint32_t i = 0; i < spyre_setting_count(); i++) {
        const spyre_setting *row = spyre_setting_at(i);
        assert_true(*row->name && *row->rule && *row->summary && row->variable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings__defaults_are_those_of_the_table),
        cmocka_unit_test(settings__take_their_text_form),
        cmocka_unit_test(settings__choices_may_have_two_names),
        cmocka_unit_test(settings__nonsense_is_refused_with_the_rule),
        cmocka_unit_test(settings__are_checked_as_a_whole),
        cmocka_unit_test(settings__environment_names_the_variable),
        cmocka_unit_test(settings__every_row_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
