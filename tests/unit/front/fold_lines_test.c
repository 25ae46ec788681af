// SPDX-License-Identifier: Apache-2.0
//
// Passes seam_sticks and fold_lines: what long lines cost that are read or written inside of
// sticks.
#include "unit/check.h"

#include "front/front.h"
#include "graph/segments/segments.h"

enum { LINE = 100000 }; // elements

// Bytes of all local buffers.
static int64_t local_bytes(const loop_graph *loops)
{
    int64_t bytes = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind == LOOP_LOCAL && buffer->has_layout) bytes += loop_device_bytes(buffer);
    }
    return bytes;
}

typedef struct {
    int64_t bytes;
    uint32_t ops;
} plan_facts;

// Of the program without the passes of `skip`, a list.
static plan_facts plan_of(const char *source, const char *skip)
{
    front_options options = {.settings = spyre_settings_default()};
    front_result result;
    spyre_graph *graph, *prepared;
    graph_segment *segments;
    uint32_t count, node;
    arena *memory = arena_create();
    options.settings.skip_passes = skip;
    assert_ok(spyre_graph_parse(source, "case.graph", &graph));
    assert_ok(graph_prepare(graph, (graph_rules){0}, NULL, memory, &prepared));
    assert_ok(graph_make_segments(prepared, true, 0, memory, &segments, &count));
    assert_int_equal(count, 1);
    assert_ok(front_compile(segments[0].graph, &options, memory, &node, &result));
    plan_facts facts = {local_bytes(result.loops), result.loops->ops.count};
    spyre_graph_destroy(graph);
    arena_destroy(memory);
    return facts;
}

// Without the passes some line lies in sticks of an element or two.
static void expect_folded(const char *source)
{
    assert_in_range(plan_of(source, "").bytes, 0, LINE * SPYRE_STICK_BYTES / 4);
    assert_true(plan_of(source, "fold_lines,seam_sticks").bytes > LINE * SPYRE_STICK_BYTES);
}

static void fold_lines__a_part_that_begins_inside_of_a_stick(void **state)
{
    (void)state;
    expect_folded("input %x: f16[100000]\n"
                  "%a = aten.slice.Tensor(%x, 0, 5, 100000, 1) -> f16[99995]+5\n"
                  "%b = aten.slice.Tensor(%x, 0, 0, 99995, 1) -> f16[99995]\n"
                  "%y = aten.sub.Tensor(%a, %b) -> f16[99995]\nreturn %y\n");
}

static void fold_lines__every_second_element_of_two_lines(void **state)
{
    (void)state;
    expect_folded("input %x: f16[2, 100000]\n"
                  "%a = aten.slice.Tensor(%x, 1, 3, 100000, 2) -> f16[2, 49999]{100000, 2}+3\n"
                  "%y = aten.relu.default(%a) -> f16[2, 49999]\nreturn %y\n");
}

static void fold_lines__rows_of_ten(void **state)
{
    (void)state;
    expect_folded("input %x: f16[100000]\n"
                  "%a = aten.view.default(%x, [10000, 10]) -> f16[10000, 10]\n"
                  "%y = aten.sum.dim_IntList(%a, [1]) -> f16[10000]\nreturn %y\n");
}

static void fold_lines__parts_that_begin_in_one_stick_share_a_fold(void **state)
{
    (void)state;
    const char *two = "input %x: f16[100000]\n"
                      "%a = aten.slice.Tensor(%x, 0, 1, 99989, 1) -> f16[99988]+1\n"
                      "%b = aten.slice.Tensor(%x, 0, 2, 99990, 1) -> f16[99988]+2\n"
                      "%c = aten.add.Tensor(%a, %b) -> f16[99988]\n";
    char three[512];
    snprintf(three, sizeof three,
             "%s%%d = aten.slice.Tensor(%%x, 0, 9, 99997, 1) -> f16[99988]+9\n"
             "%%y = aten.add.Tensor(%%c, %%d) -> f16[99988]\nreturn %%y\n", two);
    char first[512];
    snprintf(first, sizeof first, "%sreturn %%c\n", two);
    const uint32_t more = plan_of(three, "").ops - plan_of(first, "").ops;
    assert_in_range(more, 2, 6); // back to a line, what is behind it, and the sum
}

static void seam_sticks__a_line_of_two_pieces(void **state)
{
    (void)state;
    expect_folded("input %x: f16[100000]\ninput %y: f16[50001]\n"
                  "%c = aten.cat.default([%x, %y], 0) -> f16[150001]\nreturn %c\n");
}

static void seam_sticks__lines_of_whole_sticks_stay(void **state)
{
    (void)state;
    const char *source = "input %x: f16[64000]\ninput %y: f16[64001]\n"
                         "%c = aten.cat.default([%x, %y], 0) -> f16[128001]\nreturn %c\n";
    assert_int_equal(plan_of(source, "").ops, plan_of(source, "fold_lines,seam_sticks").ops);
}

static void fold_lines__many_lines_carry_their_sticks_elsewhere(void **state)
{
    (void)state;
    const char *source = "input %x: f16[64, 2000]\n"
                         "%a = aten.slice.Tensor(%x, 1, 5, 2000, 1) -> f16[64, 1995]{2000, 1}+5\n"
                         "%y = aten.relu.default(%a) -> f16[64, 1995]\nreturn %y\n";
    assert_int_equal(plan_of(source, "").ops, plan_of(source, "fold_lines,seam_sticks").ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fold_lines__a_part_that_begins_inside_of_a_stick),
        cmocka_unit_test(fold_lines__every_second_element_of_two_lines),
        cmocka_unit_test(fold_lines__rows_of_ten),
        cmocka_unit_test(fold_lines__parts_that_begin_in_one_stick_share_a_fold),
        cmocka_unit_test(fold_lines__many_lines_carry_their_sticks_elsewhere),
        cmocka_unit_test(seam_sticks__a_line_of_two_pieces),
        cmocka_unit_test(seam_sticks__lines_of_whole_sticks_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
