// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "base/text.h"
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
    assert_ok(coverage_is_whole(memory, program, 0, bytes, &whole));
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

// A store of [e0, e1] in a loop of e2 on two cores, the second `second` bytes further; twice, the
// second time `again` bytes further.
typedef struct {
    int extent[3], stride[3], second, again;
} nest;

static nest random_nest(uint64_t *seed)
{
    static const int orders[][5] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 0, 1, 3},
                                    {3, 0, 4, 2, 1}, {1, 2, 3, 4, 0}};
    const int *order = orders[check_random(seed) % 5];
    int extent[5] = {1, 1, 1, 2, 2}, stride[5], reach = 2;
    for (int n = 0; n < 3; n++) extent[n] = 1 + (int)(check_random(seed) % 4);
    for (int n = 0; n < 5; n++) {
        stride[order[n]] = reach;
        reach *= extent[order[n]];
    }
    int hurt = (int)(check_random(seed) % 10);          // half of them have no gap
    if (hurt < 5) stride[hurt] += check_random(seed) % 2 || stride[hurt] == 2 ? 2 : -2;
    nest made = {.second = stride[3], .again = stride[4]};
    memcpy(made.extent, extent, sizeof made.extent);
    memcpy(made.stride, stride, sizeof made.stride);
    return made;
}

static int64_t bytes_without_gap(const nest *n)
{
    enum { MOST = 4096 };
    static bool written[MOST];
    int64_t farthest = 0, count = 0;
    memset(written, 0, sizeof written);
    for (int a = 0; a < n->extent[0]; a++)
        for (int b = 0; b < n->extent[1]; b++)
            for (int c = 0; c < n->extent[2]; c++)
                for (int k = 0; k < 4; k++) {
                    int at = a * n->stride[0] + b * n->stride[1] + c * n->stride[2] +
                             k % 2 * n->second + k / 2 * n->again;
                    written[at] = true;
                    if (at + 2 > farthest) farthest = at + 2;
                }
    for (int64_t at = 0; at < farthest; at += 2) count += written[at];
    return 2 * count == farthest ? farthest : -farthest;
}

static void coverage__agrees_with_elements(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0, whole_ones = 0; round < 2000 || whole_ones < 500; round++) {
        nest n = random_nest(&seed);
        int64_t bytes = bytes_without_gap(&n);
        arena *memory = arena_create();
        isa_program *program;
        bool whole;
        text source = {0};
        text_printf(&source, "program\nargument 0 bytes 0\n"
                    "kernel 0 \"k\" at \"k:1\" cores 0x00000003 slots 1\n"
                    "    core 0: 0\n    core 1: %d\ncode\nkernel 0\n    loop %d\n", n.second,
                    n.extent[2]);
        for (int k = 0; k < 2; k++)
            text_printf(&source, "        store [%d, %d]\n            SEN169_FP16 arg0+slot0+%d "
                        "[%d, %d] loops [%d]\n            SEN169_FP16 lx+0 [0, 0]\n",
                        n.extent[0], n.extent[1], k * n.again, n.stride[0], n.stride[1],
                        n.stride[2]);
        text_printf(&source, "    endloop\nendkernel\nhalt\n");
        assert_ok(isa_parse(memory, text_string(&source), "p", &program));
        assert_ok(coverage_is_whole(memory, program, 0, bytes < 0 ? -bytes : bytes, &whole));
        assert_int_equal(whole, bytes > 0);
        whole_ones += whole;
        text_free(&source);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coverage__stores_cover),
        cmocka_unit_test(coverage__what_is_read_counts),
        cmocka_unit_test(coverage__agrees_with_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
