// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "ktir/coverage.h"

// Two cores, a loop of four, each storing rows of `lanes` lanes 256 bytes apart; core 1 from
// `second` on.
static bool is_whole(const char *extra, int lanes, int second, int64_t bytes)
{
    arena *memory = arena_create();
    isa_program *program;
    bool whole;
    char *source = arena_printf(memory,
        "program\nargument 0 bytes 0\nargument 1 bytes 0\n"
        "kernel 0 \"k\" at \"k:1\" cores 0x00000003 slots 1\n"
        "    core 0: 0\n    core 1: %d\ncode\nkernel 0\n    loop 4\n%s"
        "        store [2, %d]\n            SEN169_FP16 arg0+slot0+0 [256, 2] loops [512]\n"
        "            SEN169_FP16 lx+0 [256, 2]\n    endloop\nendkernel\nhalt\n",
        second, extra, lanes);
    assert_ok(isa_parse(memory, source, "p", &program));
    assert_ok(coverage_is_whole(program, 0, bytes, &whole));
    arena_destroy(memory);
    return whole;
}

static void coverage__stores_cover(void **state)
{
    (void)state;
    assert_true(is_whole("", 128, 2048, 4096));
    assert_true(is_whole("", 128, 1024, 3072));         // overlapping cores
    assert_false(is_whole("", 128, 2048, 4098));        // two bytes more
    assert_false(is_whole("", 127, 2048, 4096));        // a hole a row
    assert_false(is_whole("", 128, 2050, 4096));        // a hole between cores, and beyond the end
}

static void coverage__what_is_read_counts(void **state)
{
    (void)state;
    const char *load = "        load [64]\n            SEN169_FP16 lx+0 [2]\n"
                       "            SEN169_FP16 arg%d+0 [2]\n";
    char source[200];
    snprintf(source, sizeof source, load, 0);
    assert_false(is_whole(source, 128, 2048, 4096));
    snprintf(source, sizeof source, load, 1);
    assert_true(is_whole(source, 128, 2048, 4096));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coverage__stores_cover),
        cmocka_unit_test(coverage__what_is_read_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
