// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/variable.h"

static void environment__nearest_names(void **state)
{
    (void)state;
    assert_string_equal(environment_nearest("SPYRE_THREDS"), "SPYRE_THREADS");
    assert_string_equal(environment_nearest("SPYRE_MEMORY_LIMIT"), "SPYRE_MEMORY_LIMIT_GB");
    assert_string_equal(environment_nearest("SPYRE_VALIDATE_GRAF"), "SPYRE_VALIDATE_GRAPH");
    assert_string_equal(environment_nearest("SPYRE_THREADS"), "SPYRE_THREADS");
    assert_null(environment_nearest("SPYRE_QUITE_ANOTHER_THING"));
    assert_null(environment_nearest("SPYRE_"));
    assert_null(environment_nearest("SPYRE_0123456789012345678901234567890123456789012345678901234"
                                    "567890123456789"));
}

static void environment__warns_once_of_unknown_names(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    setenv("SPYRE_THREDS", "2", 1);
    setenv("SPYRE_WORK_DIVISION", "agreed", 1);
    int saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    environment_check();
    environment_check();
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    char said[1024] = {0};
    ssize_t length = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    close(saved);
    assert_true(length > 0);
    const char *first = strstr(said, "SPYRE_THREDS has no effect; is SPYRE_THREADS meant?");
    assert_non_null(first);
    assert_null(strstr(first + 1, "SPYRE_THREDS"));
    assert_null(strstr(said, "SPYRE_WORK_DIVISION"));
}

static void environment__an_empty_variable_is_none(void **state)
{
    (void)state;
    unsetenv("SPYRE_SIDE");
    assert_null(variable_text("SPYRE_SIDE"));
    setenv("SPYRE_SIDE", "", 1);
    assert_null(variable_text("SPYRE_SIDE"));
    setenv("SPYRE_SIDE", "left", 1);
    assert_string_equal(variable_text("SPYRE_SIDE"), "left");
}

static void environment__choices(void **state)
{
    (void)state;
    static const char *const words[] = {"left", "middle", "right"};
    uint32_t index = 9;
    unsetenv("SPYRE_SIDE");
    assert_ok(environment_choice("SPYRE_SIDE", words, 3, &index));
    assert_int_equal(index, 0);
    setenv("SPYRE_SIDE", "right", 1);
    assert_ok(environment_choice("SPYRE_SIDE", words, 3, &index));
    assert_int_equal(index, 2);
    setenv("SPYRE_SIDE", "", 1);
    assert_ok(environment_choice("SPYRE_SIDE", words, 3, &index));
    assert_int_equal(index, 0);
    setenv("SPYRE_SIDE", "Right", 1);
    assert_error(environment_choice("SPYRE_SIDE", words, 3, &index), SPYRE_INVALID_ARGUMENT,
                 "SPYRE_SIDE=Right: expected left, middle or right");
    unsetenv("SPYRE_SIDE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment__nearest_names),
        cmocka_unit_test(environment__warns_once_of_unknown_names),
        cmocka_unit_test(environment__an_empty_variable_is_none),
        cmocka_unit_test(environment__choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
