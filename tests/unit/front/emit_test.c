// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static spyre_status compile(front_run *run, front_result *out)
{
    uint32_t node;
    const front_options options = {.settings = run->settings};
    return front_compile(run->graph, &options, run->memory, &node, out);
}

static front_run exp_of(int64_t rows, int64_t columns)
{
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, rows, columns, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.exp", x, view));
    return run;
}

static void emit__a_segment_has_16_gib(void **state)
{
    (void)state;
    front_result result;
    setenv("SPYRE_LOG", "off", 1); // of how far a core reaches
    front_run run = exp_of(1 << 17, 1 << 16);
    assert_ok(compile(&run, &result));
    front_run_end(&run);
    run = exp_of((1 << 17) + 1, 1 << 16);
    assert_error(compile(&run, &result), SPYRE_UNSUPPORTED,
                 "takes 17180000256 bytes of card memory, a segment has 16 GiB");
    front_run_end(&run);
}

static void emit__a_wrong_bundle_is_our_fault(void **state)
{
    (void)state;
    front_result result, again;
    front_run run = exp_of(64, 64);
    assert_ok(compile(&run, &result));
    loop_buffer *output = &result.loops->buffers.items[1];
    assert_int_equal(output->output, 0);
    output->memory_offset = 64;
    assert_error(front_emit(result.loops, &again), SPYRE_INTERNAL,
                 "emitted bundle: step 0 0_exp: Tensor1: startAddressCoreCorelet_: core 0: 64 is "
                 "not a multiple of 128");
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emit__a_segment_has_16_gib),
        cmocka_unit_test(emit__a_wrong_bundle_is_our_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
