// SPDX-License-Identifier: Apache-2.0
//
// Every tests/golden/prepare/<name>.graph is prepared and compared with <name>.prepared beside it:
// the prepared graph with the reasons of host nodes, and the report (SPYRE_BLESS=1 rewrites them).
#include "unit/check.h"

#include <stdlib.h>

#include "base/file.h"
#include "graph/aten.h"
#include "graph/segments/segments.h"
#include "graph/text/print.h"
#include "graph/verify.h"

#define GOLDEN SPYRE_TESTS_DIR "/golden/prepare"

enum { LIMIT_BYTES = 1 << 20 };

static spyre_graph *parse(const char *source, const char *name)
{
    spyre_graph *graph = NULL;
    assert_ok(spyre_graph_parse(source, name, &graph));
    return graph;
}

static spyre_graph *prepare(const spyre_graph *graph, arena *memory)
{
    spyre_graph *prepared = NULL;
    assert_ok(graph_prepare(graph, GRAPH_HOST_ALLOWED, NULL, memory, &prepared));
    assert_ok(graph_verify(prepared));
    return prepared;
}

// What holds of every prepared graph.
static void check_layers(const spyre_graph *graph, const spyre_graph *prepared)
{
    for (uint32_t i = 0; i < prepared->nodes.count; i++) {
        const graph_node *node = &prepared->nodes.items[i];
        assert_int_not_equal(node->layer, GRAPH_LAYER_DECOMPOSITION);
        if (node->layer == GRAPH_LAYER_NATIVE) assert_ok(native_check(prepared, i));
        if (node->layer == GRAPH_LAYER_HOST) assert_true(strlen(node->reason) > 0);
        assert_true(node->origin < graph->nodes.count);
    }
    // The caller's values keep their ids and types.
    for (uint32_t i = 0; i < graph->values.count; i++) {
        text before = {0}, after = {0};
        graph_print_type(graph, &graph->values.items[i], &before);
        graph_print_type(prepared, &prepared->values.items[i], &after);
        assert_string_equal(text_string(&before), text_string(&after));
        assert_string_equal(graph->values.items[i].name, prepared->values.items[i].name);
        text_free(&before);
        text_free(&after);
    }
}

static void check_case(arena *memory, const char *name)
{
    size_t length;
    char *source, *expected;
    const char *path = file_join(memory, GOLDEN, name);
    assert_ok(file_read(memory, path, LIMIT_BYTES, &source, &length));
    spyre_graph *graph = parse(source, name);
    spyre_graph *prepared = prepare(graph, memory);
    check_layers(graph, prepared);
    text found = {0};
    assert_ok(graph_print(prepared, true, &found));
    text_append(&found, "\n");
    assert_ok(graph_report(prepared->fates.items, prepared->fates.count, &found));
    const char *stem = arena_strndup(memory, path, strlen(path) - strlen(".graph"));
    const char *golden = arena_printf(memory, "%s.prepared", stem);
    if (getenv("SPYRE_BLESS")) assert_ok(file_write(golden, found.bytes, found.length));
    assert_ok(file_read(memory, golden, LIMIT_BYTES, &expected, &length));
    assert_string_equal(text_string(&found), expected);
    text_free(&found);
    spyre_graph_destroy(graph);
}

static void prepare__golden_cases(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    assert_ok(file_list(memory, GOLDEN, ".graph", &names));
    for (uint32_t i = 0; i < names.count; i++) check_case(memory, names.items[i]);
    assert_true(names.count >= 7);
    arena_destroy(memory);
}

// A prepared graph is made of ops that prepare to themselves.
static void prepare__is_stable(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    assert_ok(file_list(memory, GOLDEN, ".graph", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        size_t length;
        char *source;
        assert_ok(file_read(memory, file_join(memory, GOLDEN, names.items[i]), LIMIT_BYTES, &source,
                            &length));
        spyre_graph *graph = parse(source, names.items[i]);
        text once = {0}, twice = {0};
        assert_ok(graph_print(prepare(graph, memory), false, &once));
        spyre_graph *again = parse(text_string(&once), "prepared");
        assert_ok(graph_print(prepare(again, memory), false, &twice));
        assert_string_equal(text_string(&once), text_string(&twice));
        text_free(&once);
        text_free(&twice);
        spyre_graph_destroy(again);
        spyre_graph_destroy(graph);
    }
    arena_destroy(memory);
}

static void prepare__host_can_be_forbidden(void **state)
{
    (void)state;
    arena *memory = arena_create();
    spyre_graph *prepared;
    spyre_graph *graph = parse("input %x: f32[4]\n"
                               "%y = aten.neg.default(%x) -> f32[4] @ \"m.py:1\"\n"
                               "%z = aten.tanh.default(%y) -> f32[4] @ \"m.py:2\"\n"
                               "return %z\n",
                               "t");
    assert_error(graph_prepare(graph, (graph_rules){0}, NULL, memory, &prepared), SPYRE_UNSUPPORTED,
                 "node 1 aten.tanh.default (m.py:2): operand 0: tanh on float32");
    spyre_graph_destroy(graph);
    arena_destroy(memory);
}

static void prepare__nodes_can_be_sent_to_the_host(void **state)
{
    (void)state;
    arena *memory = arena_create();
    const char *reasons[2] = {NULL, "no layout fits"};
    spyre_graph *prepared;
    spyre_graph *graph = parse("input %x: f16[4]\n"
                               "%y = aten.neg.default(%x) -> f16[4]\n"
                               "%z = aten.add.Tensor(%y, 1, 2) -> f16[4]\n"
                               "return %z\n",
                               "t");
    assert_ok(graph_prepare(graph, GRAPH_HOST_ALLOWED, reasons, memory, &prepared));
    assert_int_equal(prepared->nodes.count, 2);
    assert_int_equal(prepared->nodes.items[1].layer, GRAPH_LAYER_HOST);
    assert_string_equal(prepared->nodes.items[1].reason, "no layout fits");
    spyre_graph_destroy(graph);
    arena_destroy(memory);
}

static void prepare__writes_are_kept_and_the_unused_is_not(void **state)
{
    (void)state;
    arena *memory = arena_create();
    spyre_graph *graph = parse("input %x: f16[4]\n"
                               "%y = aten.neg.default(%x) -> f16[4]\n"
                               "%unused = aten.exp.default(%y) -> f16[4]\n"
                               "%w = aten.copy_.default(%x, %y, false) -> f16[4]\n"
                               "%r = aten.rand.default([4], f16, none, none, false) -> f16[4]\n"
                               "other.log.default(%y)\n"
                               "return\n",
                               "t");
    spyre_graph *prepared = prepare(graph, memory);
    assert_int_equal(prepared->nodes.count, 3);
    assert_string_equal(prepared->nodes.items[1].op_name, "aten.copy_.default");
    assert_string_equal(prepared->nodes.items[2].op_name, "other.log.default");
    assert_true(prepared->fates.items[1].removed);
    assert_true(prepared->fates.items[3].removed);
    assert_false(prepared->fates.items[2].removed);
    spyre_graph_destroy(graph);
    arena_destroy(memory);
}

// What a handler made before it gave up leaves no trace, shared constants included.
static void prepare__gives_up_cleanly(void **state)
{
    (void)state;
    arena *memory = arena_create();
    spyre_graph *graph = parse("input %x: f32[4]\n"
                               "input %h: f16[4]\n"
                               "%y = aten.rsub.Scalar(%x, 7, 1) -> f16[4]\n"
                               "%s = aten._log_softmax.default(%x, 0, false) -> f32[4]\n"
                               "%z = aten.add.Tensor(%h, 7, 1) -> f16[4]\n"
                               "return %y, %s, %z\n",
                               "t");
    spyre_graph *prepared = prepare(graph, memory);
    text found = {0};
    assert_ok(graph_print(prepared, false, &found));
    assert_string_equal(text_string(&found), "input %x: f32[4]\n"
                                             "input %h: f16[4]\n"
                                             "%y.1 = spyre.constant(7.0, f16) -> f16[]\n"
                                             "%y.2 = spyre.cast(%x) -> f16[4]\n"
                                             "%y = spyre.sub(%y.1, %y.2) -> f16[4]\n"
                                             "%s = aten._log_softmax.default"
                                             "(%x, 0, false) -> f32[4]\n"
                                             "%z = spyre.add(%h, %y.1) -> f16[4]\n"
                                             "return %y, %s, %z\n");
    text_free(&found);
    spyre_graph_destroy(graph);
    arena_destroy(memory);
}

// The table has every row once.
static void prepare__rows_are_unique(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ATEN_COUNT; i++) {
        aten_op found = ATEN_COUNT;
        assert_true(aten_named(aten_describe((aten_op)i)->name, &found));
        assert_int_equal(found, i);
        assert_true(strlen(aten_describe((aten_op)i)->doc) > 0);
    }
    aten_op none;
    assert_false(aten_named("aten.add", &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prepare__golden_cases),
        cmocka_unit_test(prepare__is_stable),
        cmocka_unit_test(prepare__host_can_be_forbidden),
        cmocka_unit_test(prepare__nodes_can_be_sent_to_the_host),
        cmocka_unit_test(prepare__writes_are_kept_and_the_unused_is_not),
        cmocka_unit_test(prepare__gives_up_cleanly),
        cmocka_unit_test(prepare__rows_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
