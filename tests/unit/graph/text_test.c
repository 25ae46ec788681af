// SPDX-License-Identifier: Apache-2.0
//
// The text form: what is canonical prints as it was read; broken texts of tests/invalid/graph give
// the message beside them (SPYRE_BLESS=1 rewrites it); mutated texts never crash.
#include "unit/check.h"

#include <stdlib.h>

#include "base/file.h"
#include "graph/graph.h"
#include "graph/segments/segments.h"
#include "graph/verify.h"

#define INVALID SPYRE_TESTS_DIR "/invalid/graph"
#define GOLDEN  SPYRE_TESTS_DIR "/golden/prepare"

enum { LIMIT_BYTES = 1 << 20, LONGEST_SEED = 1 << 14, MUTATIONS = 400 };

static const char canonical[] =
    "symbol s0: 2..64 step 2\n"
    "symbol B: 1..8\n"
    "input %x: f16[4, 64]\n"
    "input %y: f16[4, 64]{1, 4}\n"
    "input %w: f16[2, 64]+128 storage [4, 64] layout SEN169_FP16[1, 4, 64]{64, 64, 1}\n"
    "input %z: f16[64] storage [64] layout SEN169_FP16[1, 64]{64, 1} EXX2\n"
    "input %later: f16[64] storage [64]\n"
    "input %h: f32[s0, (2*s0 + 1), ceildiv(B, 3)] host\n"
    "input %i: i64[]\n"
    "%add = aten.add.Tensor(%x, %y, 1) -> f16[4, 64] @ \"model.py:12\"\n"
    "%a.0, %a.1 = aten.split.Tensor(%x, 2, 0) -> f16[2, 64], f16[2, 64]+128\n"
    "%c = some.other_op(none, true, false, -3, 1.0, 1e-05, inf, -inf, nan, bf16, [], [1, [%x, 2]])"
    " -> bool[4, 1]{7, 3}+2 @ \"a \\\"quoted\\\" \\\\ \\x0a line\"\n"
    "aten.side_effect(\"torch.strided\", %a.1)\n"
    "return %add into %x, %a.1, %add\n";

static spyre_graph *parse(const char *source)
{
    spyre_graph *graph = NULL;
    assert_ok(spyre_graph_parse(source, "t", &graph));
    return graph;
}

static void assert_prints(const spyre_graph *graph, const char *expected)
{
    char *printed;
    assert_ok(spyre_graph_print(graph, &printed));
    assert_string_equal(printed, expected);
    spyre_string_free(printed);
}

static void text__parse_and_print_are_inverse(void **state)
{
    (void)state;
    spyre_graph *graph = parse(canonical);
    assert_prints(graph, canonical);
    assert_ok(graph_verify(graph));
    assert_int_equal(graph->nodes.items[0].location, 1);
    assert_int_equal(graph->nodes.items[2].args[11].of.list.count, 2);
    assert_int_equal(graph->inputs.items[3].layout.arrangement, SPYRE_ARRANGEMENT_EXX2);
    spyre_graph_destroy(graph);
}

static void text__defaults_are_filled_in_and_left_out(void **state)
{
    (void)state;
    spyre_graph *graph = parse("# a comment\n\r\n"
                               "input %x: f16[4,64]{64,1}+0 storage [4, 64] "
                               "layout SEN169_FP16[1, 4, 64]{64, 64, 1} # more\n"
                               "  %y = aten.neg.default( %x ) ->f16[ 4 , 64 ]\n"
                               "return %y");
    assert_prints(graph, "input %x: f16[4, 64]\n"
                         "%y = aten.neg.default(%x) -> f16[4, 64]\n"
                         "return %y\n");
    spyre_graph_destroy(graph);
}

static void text__numbers_keep_their_value(void **state)
{
    (void)state;
    spyre_graph *graph = parse("input %x: f16[1]\n"
                               "%y = a.b(0.1, 1e300, 123456789.0, -0.0, 9223372036854775807, "
                               "-9223372036854775808, 3.0000000000000004) -> f16[1]\n"
                               "return\n");
    const spyre_arg *args = graph->nodes.items[0].args;
    assert_true(args[0].of.real == 0.1);
    assert_true(args[6].of.real == 3.0000000000000004);
    assert_true(args[4].of.integer == INT64_MAX);
    assert_true(args[5].of.integer == INT64_MIN);
    assert_int_equal(args[2].kind, SPYRE_ARG_FLOAT);
    assert_prints(graph, "input %x: f16[1]\n"
                         "%y = a.b(0.1, 1e+300, 123456789.0, -0.0, 9223372036854775807, "
                         "-9223372036854775808, 3.0000000000000004) -> f16[1]\n"
                         "return\n");
    spyre_graph_destroy(graph);
}

// Parses, and verifies and prepares what parsed.
static spyre_status read_all_the_way(const char *source, const char *name)
{
    spyre_graph *graph = NULL, *prepared;
    TRY(spyre_graph_parse(source, name, &graph));
    spyre_status status = graph_verify(graph);
    if (!status) status = graph_prepare(graph, GRAPH_HOST_ALLOWED, NULL, graph->memory, &prepared);
    spyre_graph_destroy(graph);
    return status;
}

static void text__broken_texts_are_refused(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    assert_ok(file_list(memory, INVALID, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *folder = file_join(memory, INVALID, names.items[i]);
        const char *path = file_join(memory, folder, "error");
        char *source, *expected;
        size_t length;
        assert_ok(
            file_read(memory, file_join(memory, folder, "input"), LIMIT_BYTES, &source, &length));
        spyre_status status = read_all_the_way(source, "input");
        if (!status) fail_msg("%s was read", folder);
        const char *message = arena_printf(memory, "%s\n", spyre_status_message(status));
        spyre_status_free(status);
        if (getenv("SPYRE_BLESS")) assert_ok(file_write(path, message, strlen(message)));
        assert_ok(file_read(memory, path, LIMIT_BYTES, &expected, &length));
        assert_string_equal(message, expected);
    }
    assert_true(names.count >= 30);
    arena_destroy(memory);
}

// Overwrites, deletes or doubles a few characters.
static void mutate(uint64_t *random, char *source)
{
    static const char favourites[] = "%=()[]{}+,:\"@.#-> 0129sxf$\\\n";
    size_t length = strlen(source);
    for (uint64_t edits = 1 + check_random(random) % 4; edits > 0 && length > 1; edits--) {
        size_t at = check_random(random) % length;
        size_t run = 1 + check_random(random) % 12;
        if (run > length - at) run = length - at;
        switch (check_random(random) % 3) {
        case 0: source[at] = favourites[check_random(random) % (sizeof favourites - 1)]; break;
        case 1: memmove(source + at, source + at + run, length - at - run + 1); break;
        default: memmove(source + at + run, source + at, length - at + 1); break;
        }
        length = strlen(source);
    }
}

// Whatever parses prints, and what was printed reads back as the same text.
static void check_mutant(const char *source)
{
    spyre_graph *graph = NULL;
    spyre_status status = spyre_graph_parse(source, "m", &graph);
    char *printed;
    if (status) {
        assert_true(strlen(spyre_status_message(status)) > 0);
        spyre_status_free(status);
        return;
    }
    assert_ok(spyre_graph_print(graph, &printed));
    spyre_graph *again = parse(printed);
    assert_prints(again, printed);
    spyre_graph_destroy(again);
    spyre_string_free(printed);
    spyre_graph *prepared = NULL;
    arena *memory = arena_create();
    graph_segment *segments;
    uint32_t count;
    status = graph_prepare(graph, GRAPH_HOST_ALLOWED, NULL, memory, &prepared);
    if (!status) {
        assert_ok(graph_verify(prepared));
        status = graph_make_segments(prepared, true, 0, memory, &segments, &count);
    }
    spyre_status_free(status);
    arena_destroy(memory);
    spyre_graph_destroy(graph);
}

// The canonical text above and every graph of tests/golden/prepare, mutated in turn.
static void text__mutants_do_no_harm(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    uint64_t random = 0x5eed;
    assert_ok(file_list(memory, GOLDEN, ".graph", &names));
    for (uint32_t i = 0; i < names.count + 1; i++) {
        const char *seed = canonical;
        char *from_file, mutant[LONGEST_SEED];
        size_t length;
        if (i < names.count) {
            assert_ok(file_read(memory, file_join(memory, GOLDEN, names.items[i]), LONGEST_SEED / 2,
                                &from_file, &length));
            seed = from_file;
        }
        for (uint32_t k = 0; k < MUTATIONS; k++) {
            snprintf(mutant, sizeof mutant, "%s", seed);
            mutate(&random, mutant);
            check_mutant(mutant);
        }
    }
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text__parse_and_print_are_inverse),
        cmocka_unit_test(text__defaults_are_filled_in_and_left_out),
        cmocka_unit_test(text__numbers_keep_their_value),
        cmocka_unit_test(text__broken_texts_are_refused),
        cmocka_unit_test(text__mutants_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
