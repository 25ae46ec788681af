// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/ir/division.h"
#include "support/front_case.h"

static void leave_bytes_on_stack(void)
{
    volatile uint8_t bytes[4096];
    for (uint32_t i = 0; i < sizeof bytes; i++) bytes[i] = 0xA5;
}

// The planner finds equal ops by the bytes of these sizes, beyond the op's loops too.
static void division__sizes_have_no_stale_bytes(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 64, 128, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, 64, 128, 0));
    front_case_output(&run, front_case_binary(&run, "spyre.add", x, y, sizes_view(2, 64, 128, 0)));
    const loop_graph *loops = front_case_before(&run, 32, "memory_planning");
    const loop_op *op = &loops->ops.items[0];
    division_sizes sizes;
    memset(&sizes, 0xA5, sizeof sizes);
    leave_bytes_on_stack();
    sizes = division_sizes_of(loops, op);
    assert_int_equal(op->var_count, 2);
    for (uint32_t v = op->var_count; v < LOOP_MAX_VARS; v++) {
        assert_int_equal(sizes.size[v], 0);
        assert_int_equal(sizes.units[v], 0);
        assert_false(sizes.uneven[v]);
    }
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(division__sizes_have_no_stale_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
