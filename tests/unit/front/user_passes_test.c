// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static const spyre_view square = {2, {64, 64}, {64, 1}, 0}, tall = {2, {128, 64}, {64, 1}, 0};

// abs(cat(exp(x), neg(x))): ops 0 and 1 compute the pieces, 2 and 3 write them.
static void build(front_run *run)
{
    uint32_t x = front_case_input(run, square);
    spyre_arg pieces[] = {
        {.kind = SPYRE_ARG_VALUE, .of.value = front_case_unary(run, "spyre.exp", x, square)},
        {.kind = SPYRE_ARG_VALUE, .of.value = front_case_unary(run, "spyre.neg", x, square)}};
    spyre_arg args[] = {{.kind = SPYRE_ARG_LIST, .of.list = {pieces, 2}},
                        {.kind = SPYRE_ARG_INT, .of.integer = 0}};
    uint32_t both = front_run_node(run, "spyre.cat", args, 2, SPYRE_DTYPE_F16, tall);
    front_case_output(run, front_case_unary(run, "spyre.abs", both, tall));
}

typedef struct {
    spyre_loops_point at;
    const uint32_t *order;   // of ops, LOOP_UNUSED behind the last one
    const int32_t *slices;   // of op 0
    const char *refused;     // a part of the message; null: the edit is taken
    uint32_t calls;
} request;

static bool edit(void *context, spyre_loops_point point, spyre_loops *loops)
{
    request *r = context;
    spyre_loop_edit edits[8] = {{0}};
    uint32_t count = 0;
    r->calls++;
    if (point != r->at) return true;
    for (; r->order[count] != LOOP_UNUSED; count++) edits[count].op = r->order[count];
    edits[0].slices = r->slices;
    spyre_status status = spyre_loops_edit(loops, "test", edits, count);
    if (!r->refused) {
        assert_null(status);
        return true;
    }
    assert_int_equal(spyre_status_code(status), SPYRE_INVALID_ARGUMENT);
    if (!strstr(spyre_status_message(status), r->refused))
        fail_msg("%s", spyre_status_message(status));
    spyre_status_free(status);
    return true;
}

static const loop_graph *compile(front_run *run, request *r)
{
    static front_result result;
    front_options options = {.settings = run->settings, .loop_pass = edit, .loop_context = r};
    options.settings.skip_passes = "concat_in_place"; // pieces are copies
    uint32_t node;
    assert_ok(front_compile(run->graph, &options, run->memory, &node, &result));
    assert_int_equal(r->calls, 4);
    return result.loops;
}

#define ORDER(...) ((const uint32_t[]){__VA_ARGS__, LOOP_UNUSED})

static void try_order(const uint32_t *order, const int32_t *slices, const char *refused)
{
    front_run run = front_run_begin();
    request r = {SPYRE_LOOPS_PRE_FUSION, order, slices, refused, 0};
    build(&run);
    compile(&run, &r);
    front_run_end(&run);
}

static void user_passes__pieces_may_change_places(void **state)
{
    (void)state;
    try_order(ORDER(0, 1, 2, 3, 4), NULL, NULL);
    try_order(ORDER(1, 3, 0, 2, 4), NULL, NULL);
    try_order(ORDER(1, 3, 0, 4, 2), NULL, "before it is written");
    try_order(ORDER(2, 0, 1, 3, 4), NULL, "before it is written");
}

static void user_passes__bad_lists_are_refused(void **state)
{
    (void)state;
    try_order(ORDER(0, 1, 2, 3), NULL, "its result is needed");
    try_order(ORDER(0, 1, 2, 4), NULL, "its result is needed");
    try_order(ORDER(0, 1, 1, 2, 3, 4), NULL, "in the list twice");
    try_order(ORDER(0, 1, 2, 3, 5), NULL, "op 5 of 5");
}

static void user_passes__slices_are_checked(void **state)
{
    (void)state;
    try_order(ORDER(0, 1, 2, 3, 4), (const int32_t[]){4, 1}, NULL);
    try_order(ORDER(0, 1, 2, 3, 4), (const int32_t[]){3, 1}, "do not divide");
    try_order(ORDER(0, 1, 2, 3, 4), (const int32_t[]){64, 1}, "more slices than cores");
    try_order(ORDER(0, 1, 2, 3, 4), (const int32_t[]){-1, 1}, "from 1 on");
}

static void user_passes__nothing_moves_in_the_end(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    request r = {SPYRE_LOOPS_POST_FUSION, ORDER(1, 0, 2, 3, 4), NULL, "places already", 0};
    build(&run);
    compile(&run, &r);
    front_run_end(&run);
}

static void user_passes__nothing_is_divided_before_layouts(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    const int32_t slices[] = {4, 1};
    request r = {SPYRE_LOOPS_PRE_LAYOUT, ORDER(0, 1, 2, 3, 4), slices, "no layouts yet", 0};
    build(&run);
    compile(&run, &r);
    front_run_end(&run);
}

static bool fail_at_once(void *context, spyre_loops_point point, spyre_loops *loops)
{
    *(const spyre_loops **)context = loops;
    return point != SPYRE_LOOPS_PRE_SCHEDULING;
}

static void user_passes__a_pass_that_fails_ends_the_compilation(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_loops *kept = NULL;
    front_options options = {
        .settings = run.settings, .loop_pass = fail_at_once, .loop_context = &kept};
    front_result result;
    uint32_t node;
    build(&run);
    spyre_status status = front_compile(run.graph, &options, run.memory, &node, &result);
    assert_int_equal(spyre_status_code(status), SPYRE_INVALID_ARGUMENT);
    spyre_status_free(status);
    assert_int_equal(node, SPYRE_NO_ID);
    status = spyre_loops_edit(kept, "late", NULL, 0);
    assert_non_null(strstr(spyre_status_message(status), "pass late: edits the graph after"));
    spyre_status_free(status);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_passes__pieces_may_change_places),
        cmocka_unit_test(user_passes__bad_lists_are_refused),
        cmocka_unit_test(user_passes__nothing_is_divided_before_layouts),
        cmocka_unit_test(user_passes__slices_are_checked),
        cmocka_unit_test(user_passes__nothing_moves_in_the_end),
        cmocka_unit_test(user_passes__a_pass_that_fails_ends_the_compilation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
