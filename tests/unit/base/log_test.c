// SPDX-License-Identifier: Apache-2.0
//
// SPYRE_LOG is read once a process, so each level is tried in a child process.
#include "unit/check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

// What a process with that SPYRE_LOG (null: unset) writes to stderr for one message of each level.
static void run_child(const char *level, char *output, size_t capacity)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (level) setenv("SPYRE_LOG", level, 1);
        else unsetenv("SPYRE_LOG");
        log_critical("c");
        log_error("e %d", 1);
        log_warn("w");
        log_info("i");
        log_debug("d");
        _exit(log_enabled(LOG_LEVEL_OFF));
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], output + length, capacity - 1 - length)) > 0;)
        length += (size_t)got;
    output[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void log__levels_are_thresholds(void **state)
{
    (void)state;
    char output[512];
    run_child(NULL, output, sizeof output);
    assert_string_equal(output, "spyre critical: c\nspyre error: e 1\nspyre warning: w\n");
    run_child("off", output, sizeof output);
    assert_string_equal(output, "");
    run_child("critical", output, sizeof output);
    assert_string_equal(output, "spyre critical: c\n");
    run_child("error", output, sizeof output);
    assert_string_equal(output, "spyre critical: c\nspyre error: e 1\n");
    run_child("info", output, sizeof output);
    assert_string_equal(output, "spyre critical: c\nspyre error: e 1\nspyre warning: w\n"
                                "spyre info: i\n");
    run_child("debug", output, sizeof output);
    assert_non_null(strstr(output, "spyre debug: d\n"));
}

static void log__wrong_level_is_said_once(void **state)
{
    (void)state;
    char output[512];
    run_child("loud", output, sizeof output);
    assert_string_equal(output, "spyre warning: SPYRE_LOG=loud: expected off, critical, error, "
                                "warn, info or debug\nspyre critical: c\nspyre error: e 1\n"
                                "spyre warning: w\n");
}

static void log__names_are_exact(void **state)
{
    (void)state;
    log_level level = LOG_LEVEL_OFF;
    assert_true(log_level_named("debug", &level));
    assert_int_equal(level, LOG_LEVEL_DEBUG);
    assert_false(log_level_named("Debug", &level));
    assert_false(log_level_named("", &level));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log__levels_are_thresholds),
        cmocka_unit_test(log__wrong_level_is_said_once),
        cmocka_unit_test(log__names_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
