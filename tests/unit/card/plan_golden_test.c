// SPDX-License-Identifier: Apache-2.0
//
// Every tests/golden/plan/<name>.program is translated for two host threads, and the plan after
// every pass compared with <name>.plan. Programs of compiled graphs pass the check that stands
// between passes. After an intended change run the test with SPYRE_BLESS=1, which rewrites the
// files, and review the diff.
#include "unit/check.h"

#include <dirent.h>
#include <stdlib.h>

#include "base/file.h"
#include "card/card.h"

#define PLANS SPYRE_TESTS_DIR "/golden/plan"
#define GRAPHS SPYRE_TESTS_DIR "/golden/graph"

enum { THREADS = 2, LIMIT_BYTES = 1 << 20 };

static void print_plan(arena *memory, const char *path, text *out)
{
    char *source;
    size_t length;
    isa_program *program;
    assert_ok(file_read(memory, path, LIMIT_BYTES, &source, &length));
    assert_ok(isa_parse(memory, source, path, &program));
    assert_ok(card_print_plan(program, THREADS, out));
}

static void plan_golden__passes(void **state)
{
    (void)state;
    static const char *const names[] = {"layer_norm", "narrow_norm", "mlp"};
    const char *bless = getenv("SPYRE_BLESS");
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        arena *memory = arena_create();
        const char *path = arena_printf(memory, PLANS "/%s.plan", names[n]);
        char *expected;
        size_t length;
        text found = {0};
        print_plan(memory, arena_printf(memory, PLANS "/%s.program", names[n]), &found);
        if (bless && strcmp(bless, "1") == 0)
            assert_ok(file_write(path, text_string(&found), found.length));
        assert_ok(file_read(memory, path, LIMIT_BYTES, &expected, &length));
        assert_string_equal(expected, text_string(&found));
        text_free(&found);
        arena_destroy(memory);
    }
}

static bool is_program(const char *name)
{
    return text_ends_in(name, ".listing") && strcmp(name, "host.listing") != 0;
}

static void plan_golden__compiled_graphs(void **state)
{
    (void)state;
    DIR *folder = opendir(GRAPHS);
    uint32_t programs = 0;
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (!is_program(entry->d_name)) continue;
        arena *memory = arena_create();
        text plan = {0};
        print_plan(memory, arena_printf(memory, GRAPHS "/%s", entry->d_name), &plan);
        assert_non_null(strstr(text_string(&plan), "\nstage of "));
        text_free(&plan);
        arena_destroy(memory);
        programs++;
    }
    closedir(folder);
    assert_true(programs > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_golden__passes),
        cmocka_unit_test(plan_golden__compiled_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
