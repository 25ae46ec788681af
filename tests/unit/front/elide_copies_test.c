// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

// What `x.copy_(-y)` leaves: a copy of all that was computed, which leaves the graph.
static void elide_copies__what_is_only_returned_is_made_there(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        front_run run = front_run_begin();
        spyre_view view = sizes_view(2, 16, 64, 0);
        uint32_t value = front_case_unary(&run, "spyre.neg", front_case_input(&run, view), view);
        front_case_output(&run, front_case_unary(&run, "spyre.identity", value, view));
        if (shared) front_case_output(&run, value);
        loop_graph *loops = front_case_before(&run, 1, "elide_copies");
        bool changed;
        assert_int_equal(loops->ops.count, 2);
        assert_ok(pass_elide_copies(loops, &changed));
        assert_int_equal(changed, !shared);
        if (!shared) assert_int_equal(loops->ops.count, 1);
        if (!shared)
            assert_true(loops->buffers.items[loops->ops.items[0].operand[1].buffer].output >= 0);
        front_run_end(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elide_copies__what_is_only_returned_is_made_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
