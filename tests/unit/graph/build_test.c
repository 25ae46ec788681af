// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "graph/graph.h"

static spyre_tensor_type matrix(int64_t rows, int64_t columns)
{
    return (spyre_tensor_type){SPYRE_DTYPE_F16, true, {2, {rows, columns}, {columns, 1}, 0}};
}

static spyre_arg value_arg(uint32_t value)
{
    return (spyre_arg){.kind = SPYRE_ARG_VALUE, .of.value = value};
}

static int set_up(void **state)
{
    spyre_graph *graph = NULL;
    spyre_tensor_type type = matrix(4, 64);
    uint32_t x;
    spyre_status status = spyre_graph_create(&graph);
    if (!status) status = spyre_graph_add_input(graph, "x", &type, NULL, NULL, &x);
    *state = graph;
    return status || x != 0;
}

static int tear_down(void **state)
{
    spyre_graph_destroy(*state);
    return 0;
}

// Adds "name = op(%x)" of one result.
static spyre_status add(spyre_graph *graph, const char *name, const char *op,
                        const spyre_tensor_type *type, uint32_t *value)
{
    spyre_arg args[1] = {value_arg(0)};
    return spyre_graph_add_node(graph, name, op, args, 1, type, 1, NULL, NULL, value);
}

static void build__ids_are_dense(void **state)
{
    spyre_graph *graph = *state;
    spyre_tensor_type halves[2] = {matrix(2, 64), matrix(2, 64)}, whole = matrix(4, 64);
    uint32_t node, values[2], more;
    spyre_arg args[1] = {value_arg(0)};
    halves[1].view.offset = 128;
    assert_ok(spyre_graph_add_node(graph, "cut", "aten.split.Tensor", args, 1, halves, 2,
                                   "model.py:3", &node, values));
    assert_int_equal(node, 0);
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], 2);
    assert_string_equal(graph->values.items[2].name, "cut.1");
    assert_int_equal(graph->values.items[2].node, 0);
    assert_int_equal(graph->values.items[2].result, 1);
    assert_ok(add(graph, "neg", "aten.neg.default", &whole, &more));
    assert_int_equal(more, 3);
    assert_int_equal(graph->nodes.items[1].origin, 1);
    assert_string_equal(graph_node_place(graph, 0), "node 0 aten.split.Tensor (model.py:3)");
    assert_string_equal(graph_node_place(graph, 1), "node 1 aten.neg.default");
}

static void build__copies_what_it_is_given(void **state)
{
    spyre_graph *graph = *state;
    char op[] = "aten.gelu.default", name[] = "g", word[] = "tanh";
    spyre_arg items[1] = {{.kind = SPYRE_ARG_STRING, .of.string = word}};
    spyre_arg args[2] = {value_arg(0), {.kind = SPYRE_ARG_LIST, .of.list = {items, 1}}};
    spyre_tensor_type type = matrix(4, 64);
    uint32_t value;
    char *printed;
    assert_ok(spyre_graph_add_node(graph, name, op, args, 2, &type, 1, NULL, NULL, &value));
    op[0] = name[0] = word[0] = '?';
    items[0].kind = SPYRE_ARG_NONE;
    assert_ok(spyre_graph_print(graph, &printed));
    assert_non_null(strstr(printed, "%g = aten.gelu.default(%x, [\"tanh\"]) -> f16[4, 64]\n"));
    spyre_string_free(printed);
}

static void build__values_are_checked(void **state)
{
    spyre_graph *graph = *state;
    uint32_t value;
    spyre_tensor_type type = matrix(4, 64);
    spyre_arg args[1] = {value_arg(7)};
    assert_error(
        spyre_graph_add_node(graph, "y", "aten.neg.default", args, 1, &type, 1, NULL, NULL, &value),
        SPYRE_INVALID_ARGUMENT,
        "node 0 aten.neg.default: argument 0: value 7 does not exist, the graph has 1");
    // A node does not see its own result.
    args[0] = value_arg(1);
    assert_error(
        spyre_graph_add_node(graph, "y", "aten.neg.default", args, 1, &type, 1, NULL, NULL, &value),
        SPYRE_INVALID_ARGUMENT, "value 1 does not exist");
    assert_error(spyre_graph_add_output(graph, 1), SPYRE_INVALID_ARGUMENT,
                 "output 0: value 1 does not exist, the graph has 1");
    assert_int_equal(graph->values.count, 1);
    assert_int_equal(graph->nodes.count, 0);
}

static void build__names_are_checked(void **state)
{
    spyre_graph *graph = *state;
    uint32_t value;
    spyre_tensor_type type = matrix(4, 64), bad = matrix(-4, 64);
    assert_error(add(graph, "x", "aten.neg.default", &type, &value), SPYRE_INVALID_ARGUMENT,
                 "result 0: name \"x\" is already in use");
    assert_error(add(graph, "a b", "aten.neg.default", &type, &value), SPYRE_INVALID_ARGUMENT,
                 "name \"a b\" has characters other than letters, digits, _ . $");
    assert_error(add(graph, "y", "aten neg", &type, &value), SPYRE_INVALID_ARGUMENT,
                 "op \"aten neg\" has characters");
    // A failed call leaves its names free.
    assert_error(add(graph, "y", "aten.neg.default", &bad, &value), SPYRE_INVALID_ARGUMENT,
                 "result 0: size 0 is -4, it must not be negative");
    assert_ok(add(graph, "y", "aten.neg.default", &type, &value));
    assert_ok(add(graph, NULL, "aten.neg.default", &type, &value));
    assert_ok(add(graph, NULL, "aten.neg.default", &type, &value));
    assert_string_not_equal(graph->values.items[2].name, graph->values.items[3].name);
}

static void build__types_are_checked(void **state)
{
    spyre_graph *graph = *state;
    uint32_t value;
    spyre_tensor_type type = matrix(4, 64);
    type.dtype = SPYRE_DTYPE_COUNT;
    assert_error(add(graph, "y", "aten.neg.default", &type, &value), SPYRE_INVALID_ARGUMENT,
                 "result 0: dtype 12 is none of the 12");
    type = matrix(4, 64);
    type.view.rank = SPYRE_MAX_RANK + 1;
    assert_error(add(graph, "y", "aten.neg.default", &type, &value), SPYRE_UNSUPPORTED,
                 "result 0: rank 9, at most 8 is supported");
    type = matrix(INT64_MAX / 2, 64);
    assert_error(add(graph, "y", "aten.neg.default", &type, &value), SPYRE_INVALID_ARGUMENT,
                 "beyond 2^55 elements");
    type = matrix(4, 64);
    type.view.stride[1] = -1;
    assert_error(add(graph, "y", "aten.neg.default", &type, &value), SPYRE_INVALID_ARGUMENT,
                 "stride 1 is -1");
    type = matrix(4, 64);
    type.view.offset = -1;
    assert_error(add(graph, "y", "aten.neg.default", &type, &value), SPYRE_INVALID_ARGUMENT,
                 "offset is -1");
}

static void build__arguments_are_checked(void **state)
{
    spyre_graph *graph = *state;
    uint32_t value;
    spyre_tensor_type type = matrix(4, 64);
    spyre_arg deep[10];
    for (int i = 0; i < 9; i++) {
        deep[i] = (spyre_arg){.kind = SPYRE_ARG_LIST, .of.list = {&deep[i + 1], 1}};
    }
    deep[9] = (spyre_arg){.kind = SPYRE_ARG_NONE};
    assert_error(
        spyre_graph_add_node(graph, "y", "aten.x.y", deep, 1, &type, 1, NULL, NULL, &value),
        SPYRE_INVALID_ARGUMENT, "lists lie more than 8 deep");
    spyre_arg wrong[1] = {{.kind = (spyre_arg_kind)99}};
    assert_error(
        spyre_graph_add_node(graph, "y", "aten.x.y", wrong, 1, &type, 1, NULL, NULL, &value),
        SPYRE_INVALID_ARGUMENT, "argument 0: argument kind 99 is unknown");
    wrong[0] = (spyre_arg){.kind = SPYRE_ARG_STRING};
    assert_error(
        spyre_graph_add_node(graph, "y", "aten.x.y", wrong, 1, &type, 1, NULL, NULL, &value),
        SPYRE_INVALID_ARGUMENT, "argument 0: a string without text");
    assert_error(spyre_graph_add_node(graph, "y", NULL, NULL, 0, &type, 1, NULL, NULL, &value),
                 SPYRE_INVALID_ARGUMENT, "the op is missing");
}

static void build__inputs_are_checked(void **state)
{
    spyre_graph *graph = *state;
    spyre_tensor_type type = matrix(4, 64);
    spyre_view storage = {2, {2, 64}, {64, 1}, 0};
    spyre_layout layout;
    uint32_t value;
    assert_ok(spyre_layout_default(storage.size, 2, SPYRE_DTYPE_F16, &layout));
    assert_error(spyre_graph_add_input(graph, "y", &type, &storage, NULL, &value),
                 SPYRE_INVALID_ARGUMENT, "storage and layout come together or not at all");
    assert_error(spyre_graph_add_input(graph, "y", &type, &storage, &layout, &value),
                 SPYRE_INVALID_ARGUMENT, "input 1 \"y\": reaches element 255 of a storage of 128");
    type.view = (spyre_view){2, {2, 32}, {64, 1}, 64};
    assert_error(spyre_graph_add_input(graph, "y", &type, NULL, NULL, &value),
                 SPYRE_INVALID_ARGUMENT, "does not cover its storage");
    type.view.size[0] = 1;
    assert_ok(spyre_graph_add_input(graph, "y", &type, &storage, &layout, &value));
    assert_int_equal(graph->inputs.items[1].layout.rank, 3);
    type.view = (spyre_view){2, {0, 32}, {64, 2}, 5};
    assert_ok(spyre_graph_add_input(graph, "e", &type, NULL, NULL, &value));
    spyre_view of_nothing;
    assert_ok(graph_view_constant(graph, &graph->inputs.items[2].storage, &of_nothing));
    assert_int_equal(of_nothing.rank, 1);
    assert_int_equal(of_nothing.size[0], 0);
}

static void build__argument_getters(void **state)
{
    spyre_graph *graph = *state;
    spyre_arg ints[2] = {{.kind = SPYRE_ARG_INT, .of.integer = -1},
                         {.kind = SPYRE_ARG_INT, .of.integer = 2}};
    spyre_arg args[4] = {value_arg(0),
                         {.kind = SPYRE_ARG_LIST, .of.list = {ints, 2}},
                         {.kind = SPYRE_ARG_FLOAT, .of.real = 0.5},
                         {.kind = SPYRE_ARG_NONE}};
    spyre_tensor_type type = matrix(4, 64);
    uint32_t value, count;
    int64_t list[SPYRE_MAX_RANK], integer;
    double real;
    bool boolean;
    assert_ok(spyre_graph_add_node(graph, "y", "aten.x.y", args, 4, &type, 1, NULL, NULL, &value));
    assert_ok(graph_arg_value(graph, 0, 0, &value));
    assert_int_equal(value, 0);
    assert_ok(graph_arg_value(graph, 0, 3, &value));
    assert_int_equal(value, SPYRE_NO_ID);
    assert_ok(graph_arg_ints(graph, 0, 1, list, &count));
    assert_int_equal(count, 2);
    assert_int_equal(list[0], -1);
    assert_ok(graph_arg_int(graph, 0, 9, 5, &integer));
    assert_int_equal(integer, 5);
    assert_ok(graph_arg_real(graph, 0, 2, 0, &real));
    assert_true(real == 0.5);
    assert_error(graph_arg_bool(graph, 0, 2, false, &boolean), SPYRE_INVALID_ARGUMENT,
                 "node 0 aten.x.y: argument 2: expected a bool, found a float");
    assert_error(graph_arg_int(graph, 0, 0, 0, &integer), SPYRE_INVALID_ARGUMENT,
                 "argument 0: expected an int, found a tensor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(build__ids_are_dense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(build__copies_what_it_is_given, set_up, tear_down),
        cmocka_unit_test_setup_teardown(build__values_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(build__names_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(build__types_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(build__arguments_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(build__inputs_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(build__argument_getters, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
