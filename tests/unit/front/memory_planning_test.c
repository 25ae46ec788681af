// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"
#include "support/random_op.h"

// Eight sums in a row; whether their places in memory are shared.
static int64_t blocks_of_a_chain(bool memory_plan)
{
    front_run run = front_run_begin();
    run.settings.lx_planning = false;
    run.settings.memory_plan = memory_plan;
    spyre_view view = sizes_view(2, 4, 64, 0);
    uint32_t x = front_case_input(&run, view), y = x;
    for (int i = 0; i < 8; i++) y = front_case_binary(&run, "spyre.add", y, x, view);
    front_case_output(&run, y);
    int64_t bytes = front_case_before(&run, 1, NULL)->pool_bytes;
    front_run_end(&run);
    assert_int_equal(bytes % (4 * SPYRE_STICK_BYTES), 0);
    return bytes / (4 * SPYRE_STICK_BYTES);
}

static void memory_planning__a_chain_uses_two_blocks(void **state)
{
    (void)state;
    assert_int_equal(blocks_of_a_chain(true), 2);
}

static void memory_planning__places_are_shared_by_choice(void **state)
{
    (void)state;
    assert_int_equal(blocks_of_a_chain(false), 7);
}

static void memory_planning__constants_take_a_stick_each(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(1, 64, 0, 0);
    uint32_t x = front_case_input(&run, view);
    for (int i = 0; i < 3; i++)
        x = front_case_binary(&run, "spyre.mul", x, front_case_constant(&run, i), view);
    front_case_output(&run, x);
    loop_graph *loops = front_case_before(&run, 1, NULL);
    int64_t next = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        if (loops->buffers.items[b].kind != LOOP_CONSTANT) continue;
        assert_int_equal(loops->buffers.items[b].memory_offset, next);
        next += SPYRE_STICK_BYTES;
    }
    assert_int_equal(next, 3 * SPYRE_STICK_BYTES);
    front_run_end(&run);
}

// First and last op that touch each pooled buffer.
static void find_ranges(const loop_graph *loops, uint32_t *first, uint32_t *last)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++) first[b] = UINT32_MAX;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; k < loops->ops.items[i].operand_count; k++) {
            uint32_t b = loops->ops.items[i].operand[k].buffer;
            const loop_buffer *buffer = &loops->buffers.items[b];
            if (buffer->kind != LOOP_LOCAL || buffer->output >= 0 || buffer->in_lx) continue;
            if (first[b] == UINT32_MAX) first[b] = i;
            last[b] = i;
        }
}

static void check_overlaps(const loop_graph *loops)
{
    uint32_t count = loops->buffers.count;
    uint32_t *first = ARENA_NEW(loops->memory, uint32_t, count);
    uint32_t *last = ARENA_NEW(loops->memory, uint32_t, count);
    find_ranges(loops, first, last);
    for (uint32_t a = 0; a < count; a++) {
        const loop_buffer *x = &loops->buffers.items[a];
        if (first[a] == UINT32_MAX) continue;
        assert_true(x->memory_offset >= 0 && x->memory_offset + x->bytes <= loops->pool_bytes);
        for (uint32_t b = 0; b < a; b++) {
            const loop_buffer *y = &loops->buffers.items[b];
            if (first[b] == UINT32_MAX || first[a] > last[b] || first[b] > last[a]) continue;
            assert_true(x->memory_offset + x->bytes <= y->memory_offset ||
                        y->memory_offset + y->bytes <= x->memory_offset);
        }
    }
}

static void memory_planning__live_buffers_never_overlap(void **state)
{
    (void)state;
    uint32_t planned = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        random_graph *g = random_graph_begin(seed);
        random_input(g, SPYRE_DTYPE_F16, random_sizes(g));
        for (uint32_t i = 0; i < 12; i++) random_step(g);
        for (uint32_t i = 0; i < g->count; i++)
            if (g->value[i].computed && random_chance(g, 30))
                front_case_output(&g->run, g->value[i].id);
        front_options options = {.settings = spyre_settings_default()};
        options.settings.lx_planner_relayout = seed % 2; // leaves little for the pool
        front_result result;
        uint32_t node;
        spyre_status status = front_compile(g->run.graph, &options, g->run.memory, &node, &result);
        if (!status) check_overlaps(result.loops);
        planned += !status && result.loops->pool_bytes > 0;
        spyre_status_free(status);
        random_graph_end(g);
    }
    assert_true(planned > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_planning__a_chain_uses_two_blocks),
        cmocka_unit_test(memory_planning__places_are_shared_by_choice),
        cmocka_unit_test(memory_planning__constants_take_a_stick_each),
        cmocka_unit_test(memory_planning__live_buffers_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
