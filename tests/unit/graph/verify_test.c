// SPDX-License-Identifier: Apache-2.0
//
// What the builder cannot get wrong but a rewrite could: graphs are damaged by hand.
#include "unit/check.h"

#include "graph/aten.h"
#include "graph/verify.h"
#include "graph/view.h"

static const char source[] = "input %x: f16[4, 64]\n"
                             "input %y: f16[4, 64]\n"
                             "%a = spyre.add(%x, %y) -> f16[4, 64]\n"
                             "%v = aten.view.default(%a, [256]) -> f16[256]\n"
                             "%n = spyre.neg(%v) -> f16[256] @ \"m.py:3\"\n"
                             "return %n, %v\n";

static int set_up(void **state)
{
    spyre_graph *graph = NULL;
    spyre_status status = spyre_graph_parse(source, "t", &graph);
    *state = graph;
    return status != NULL;
}

static int tear_down(void **state)
{
    spyre_graph_destroy(*state);
    return 0;
}

static void verify__accepts_the_undamaged(void **state)
{
    assert_ok(graph_verify(*state));
}

static void verify__order(void **state)
{
    spyre_graph *graph = *state;
    graph_node first = graph->nodes.items[0];
    graph->nodes.items[0] = graph->nodes.items[1];
    graph->nodes.items[1] = first;
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT,
                 "argument 0: %a is used before it is defined");
}

static void verify__producers(void **state)
{
    spyre_graph *graph = *state;
    graph->values.items[2].node = 2;
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT, "%a names another producer");
}

static void verify__removed_values(void **state)
{
    spyre_graph *graph = *state;
    graph->inputs.count = 1; // %y is no input any more
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT,
                 "node 0 spyre.add: argument 1: %y is used before it is defined");
}

static void verify__names(void **state)
{
    spyre_graph *graph = *state;
    graph->values.items[1].name = "x";
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT, "input 1: the name %x is not unique");
}

static void verify__outputs(void **state)
{
    spyre_graph *graph = *state;
    graph->outputs.items[1] = 99;
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT,
                 "output 1: value 99 does not exist, the graph has 5");
}

static void verify__dtypes_of_natives(void **state)
{
    spyre_graph *graph = *state;
    graph->values.items[4].dtype = SPYRE_DTYPE_F32;
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT,
                 "node 2 spyre.neg (m.py:3): result: expected float16, found float32");
}

static void verify__views_stay_inside(void **state)
{
    spyre_graph *graph = *state;
    graph->values.items[3].view.offset = expr_constant(graph->exprs, 1);
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT,
                 "node 1 aten.view.default: result 0: reaches element 256 of a storage of 256");
}

static void verify__views_have_one_tensor(void **state)
{
    spyre_graph *graph = *state;
    graph_node *view = &graph->nodes.items[1];
    const spyre_arg twice[] = {view->args[0], view->args[0]};
    view->args = twice;
    view->arg_count = 2;
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT,
                 "node 1 aten.view.default: arguments behind 0: a view has one tensor");
}

static void verify__host_nodes_have_a_reason(void **state)
{
    spyre_graph *graph = *state;
    graph->nodes.items[2].layer = GRAPH_LAYER_HOST;
    assert_error(graph_verify(graph), SPYRE_INVALID_ARGUMENT,
                 "a node of the host without a reason");
}

// What a stage of the compiler broke is the compiler's fault.
static void verify__names_the_stage(void **state)
{
    spyre_graph *graph = *state;
    assert_ok(graph_verify_made(graph, "preparation"));
    graph->outputs.items[1] = 99;
    assert_error(graph_verify_made(graph, "preparation"), SPYRE_INTERNAL,
                 "after preparation: output 1: value 99 does not exist, the graph has 5");
}

static void verify__base_of_a_view(void **state)
{
    spyre_graph *graph = *state;
    assert_int_equal(graph_value_base(graph, 3), 2);
    assert_int_equal(graph_value_base(graph, 2), 2);
    assert_int_equal(graph_value_base(graph, 0), 0);
}

static spyre_view view_of(uint32_t rank, const int64_t *size, const int64_t *stride)
{
    spyre_view view = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        view.size[i] = size[i];
        view.stride[i] = stride[i];
    }
    return view;
}

static void view__dense(void **state)
{
    (void)state;
    int64_t size[] = {4, 1, 8}, row[] = {8, 99, 1}, column[] = {1, 0, 4}, gap[] = {9, 8, 1};
    spyre_view a = view_of(3, size, row), b = view_of(3, size, column), c = view_of(3, size, gap);
    assert_true(view_is_dense(&a));
    assert_true(view_is_dense(&b));
    assert_false(view_is_dense(&c));
    a.offset = 1;
    assert_false(view_is_dense(&a));
    assert_int_equal(view_last_element(&a), 32);
    a.size[1] = 0;
    assert_int_equal(view_last_element(&a), -1);
}

// PyTorch's rule for view(): dims may be cut and joined as long as strides allow.
static void view__reshape(void **state)
{
    (void)state;
    int64_t size[] = {2, 3, 4}, whole[] = {12, 4, 1}, turned[] = {12, 1, 3}, flat[] = {24};
    int64_t joined[] = {6, 4}, cut[] = {2, 3, 2, 2}, wrong[] = {5, 5};
    spyre_view result, from = view_of(3, size, whole), permuted = view_of(3, size, turned);
    assert_true(view_reshape(&from, flat, 1, &result));
    assert_int_equal(result.stride[0], 1);
    assert_false(view_reshape(&permuted, flat, 1, &result));
    assert_false(view_reshape(&permuted, joined, 2, &result));
    assert_true(view_reshape(&permuted, cut, 4, &result));
    assert_int_equal(result.stride[2], 6);
    assert_int_equal(result.stride[3], 3);
    assert_false(view_reshape(&from, wrong, 2, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(verify__accepts_the_undamaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__producers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__removed_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__outputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__dtypes_of_natives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__views_stay_inside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__views_have_one_tensor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__host_nodes_have_a_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__names_the_stage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify__base_of_a_view, set_up, tear_down),
        cmocka_unit_test(view__dense),
        cmocka_unit_test(view__reshape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
