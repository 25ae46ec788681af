// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/ir/dim_names.h"
#include "support/front_case.h"

// relu(x @ y) of [64, 512] and [512, 256], the product hinted; x is M,K and y is K,N.
static front_run product(const char *hint)
{
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 64, 512, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, 512, 256, 0));
    spyre_view out = sizes_view(2, 64, 256, 0);
    assert_ok(spyre_graph_name_dims(run.graph, x, "M,K"));
    assert_ok(spyre_graph_name_dims(run.graph, y, "K,N"));
    uint32_t product = front_case_binary(&run, "spyre.batchmatmul", x, y, out);
    if (hint) assert_null(spyre_graph_set_work_division(run.graph, 0, hint));
    front_case_output(&run, front_case_unary(&run, "spyre.relufwd", product, out));
    return run;
}

static spyre_status divide(front_run *run, uint32_t cores, loop_graph **out, bool *out_changed)
{
    *out = front_case_before(run, cores, "hinted_divisions");
    return pass_hinted_divisions(*out, out_changed);
}

static void hinted_divisions__named_loops_are_divided(void **state)
{
    (void)state;
    front_run run = product("M=2,K=4,Other=5");
    loop_graph *loops;
    bool changed;
    assert_ok(divide(&run, 32, &loops, &changed));
    assert_true(changed);
    assert_ok(loop_verify(loops));
    const loop_op *op = &loops->ops.items[0];
    assert_int_equal(op->divided_by, LOOP_DIVIDED_BY_HINT);
    for (uint32_t v = 0; v < op->var_count; v++)
        assert_int_equal(op->split[v], op->extent[v] == 64 ? 2 : op->extent[v] == 512 ? 4 : 1);
    // The node behind it has no hint.
    assert_int_equal(loops->ops.items[1].divided_by, LOOP_UNDIVIDED);
    front_run_end(&run);
}

// What comes after keeps it.
static void hinted_divisions__stay(void **state)
{
    (void)state;
    front_run run = product("N=4,K=2");
    loop_graph *loops = front_case_before(&run, 32, "memory_planning");
    const loop_op *op = &loops->ops.items[0];
    assert_int_equal(op->divided_by, LOOP_DIVIDED_BY_HINT);
    assert_int_equal(loop_core_count(op), 8);
    front_run_end(&run);
}

// Names pass through a node and a turned view: exp(x).t() has K,M.
static void hinted_divisions__names_follow_the_data(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 512, 0);
    spyre_view turned = {.rank = 2, .size = {512, 64}, .stride = {1, 512}};
    uint32_t x = front_case_input(&run, view);
    assert_ok(spyre_graph_name_dims(run.graph, x, "M,K"));
    x = front_case_unary(&run, "spyre.exp", x, view);
    x = front_run_view(&run, x, SPYRE_DTYPE_F16, turned);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, turned));
    assert_ok(spyre_graph_set_work_division(run.graph, 2, "M=4,K=8"));
    loop_graph *loops;
    bool changed;
    assert_ok(divide(&run, 32, &loops, &changed));
    const loop_op *op = &loops->ops.items[loops->ops.count - 1];
    for (uint32_t v = 0; v < op->var_count; v++)
        assert_int_equal(op->split[v], op->extent[v] == 64 ? 4 : 8);
    front_run_end(&run);
}

static void hinted_divisions__impossible_ones_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *hint, *message;
    } cases[] = {{"M=3", "M=3: does not divide the dim of 64 units"},
                 {"M=50", "the nearest count is 64"},
                 {"N=8", "N=8: does not divide the dim of 4 units"}, // four sticks
                 {"N=8", "the nearest count is 4"},
                 {"M=16,K=4", "K=4: more slices than cores: 16 x 4 of 32; at most 2 are possible"},
                 {"M=2,K=2,M=4", "M=4: a scope around it asks for 2 slices"}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        front_run run = product(cases[i].hint);
        loop_graph *loops;
        bool changed;
        spyre_status status = divide(&run, 32, &loops, &changed);
        assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
        assert_non_null(strstr(spyre_status_message(status), cases[i].message));
        spyre_status_free(status);
        front_run_end(&run);
    }
}

// A scope may repeat what one around it says; names are listed once, in the order of the ops.
static void hinted_divisions__names_and_repetitions(void **state)
{
    (void)state;
    front_run run = product("M=2,M=2");
    loop_graph *loops;
    bool changed;
    assert_ok(divide(&run, 32, &loops, &changed));
    assert_int_equal(loop_core_count(&loops->ops.items[0]), 2);
    const char *names = dim_names_in_use(loops), *list = strstr(names, "are named ");
    assert_non_null(list);
    for (const char *name = "MNK"; *name; name++) {
        assert_non_null(strchr(list + 10, *name));
        assert_ptr_equal(strchr(list + 10, *name), strrchr(list, *name));
    }
    front_run_end(&run);
}

static void hinted_divisions__without_names(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(1, 64, 0, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.exp", x, view));
    loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
    assert_string_equal(dim_names_in_use(loops), "no loop of the segment has a name");
    front_run_end(&run);
}

static void hinted_divisions__nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const hints[] = {"",    "M",    "M=",   "M=x",    "=2",
                                        "M=0", "M=-1", "M=2,", "M=2;K=4"};
    front_run run = product(NULL);
    for (uint32_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        spyre_status status = spyre_graph_set_work_division(run.graph, 0, hints[i]);
        assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
        spyre_status_free(status);
    }
    spyre_status status = spyre_graph_name_dims(run.graph, 0, "M,K,N");
    assert_string_equal(spyre_status_message(status), "dims 'M,K,N': 3 names for 2 dims");
    spyre_status_free(status);
    front_run_end(&run);
}

static void hinted_divisions__can_be_ignored(void **state)
{
    (void)state;
    front_run run = product("M=3");
    loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
    bool changed = true;
    loops->settings.ignore_work_division_hints = true;
    assert_ok(pass_hinted_divisions(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

// The text form keeps hints and names.
static void hinted_divisions__in_the_text(void **state)
{
    (void)state;
    front_run run = product("M=2,K=4");
    char *printed = front_case_text(run.graph);
    assert_non_null(strstr(printed, "dims \"M,K\"\n"));
    assert_non_null(strstr(printed, "work_div \"M=2,K=4\"\n"));
    spyre_string_free(printed);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hinted_divisions__named_loops_are_divided),
        cmocka_unit_test(hinted_divisions__stay),
        cmocka_unit_test(hinted_divisions__names_follow_the_data),
        cmocka_unit_test(hinted_divisions__impossible_ones_are_refused),
        cmocka_unit_test(hinted_divisions__names_and_repetitions),
        cmocka_unit_test(hinted_divisions__without_names),
        cmocka_unit_test(hinted_divisions__nonsense_is_refused),
        cmocka_unit_test(hinted_divisions__can_be_ignored),
        cmocka_unit_test(hinted_divisions__in_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
