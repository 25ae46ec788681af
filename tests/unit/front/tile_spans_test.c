// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/divide/span_reduction.h"
#include "support/front_case.h"

enum { KIB = 1 << 10 };

// (x + y) + y of [1024, 512] in fp16: 8 columns of sticks of 128 KiB each.
static front_run sums(uint32_t limit)
{
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 1024, 512, 0);
    uint32_t x = front_case_input(&run, view), y = front_case_input(&run, view);
    uint32_t sum = front_case_binary(&run, "spyre.add", x, y, view);
    front_case_output(&run, front_case_binary(&run, "spyre.add", sum, y, view));
    run.settings.max_span_bytes = limit;
    return run;
}

static void check_spans(const loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        division d = division_get(&loops->ops.items[i]);
        assert_true(span_fits(loops, &loops->ops.items[i], &d));
    }
}

// Tiles come when slices for two cores do not suffice, no more than needed.
static void tile_spans__fewest_tiles(void **state)
{
    (void)state;
    static const struct {
        uint32_t limit;
        int64_t tiles;
        const char *loops;
    } cases[] = {{1024 * KIB, 1, "1024 512"}, {512 * KIB, 1, "1024 512"},
                 {256 * KIB, 2, "1024 256"},  {128 * KIB, 4, "1024 128"},
                 {64 * KIB, 8, "1024 64"},    {16 * KIB, 32, "256 64"}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        front_run run = sums(cases[i].limit);
        loop_graph *loops = front_case_before(&run, 2, NULL);
        int64_t tiles = 1;
        for (uint32_t t = 0; t < loops->tiles.count; t++) tiles *= loops->tiles.items[t].count;
        assert_int_equal(tiles, cases[i].tiles);
        assert_string_equal(front_case_loops(loops, 0), cases[i].loops);
        check_spans(loops);
        // What the first sum leaves is read by the second one in the same loop.
        assert_int_equal(loop_shared_tiles(&loops->ops.items[0], &loops->ops.items[1]),
                         loops->tiles.count);
        front_run_end(&run);
    }
}

// With 32 cores a division suffices, and nothing changes.
static void tile_spans__divisions_come_first(void **state)
{
    (void)state;
    front_run run = sums(64 * KIB);
    loop_graph *loops = front_case_before(&run, 32, NULL);
    assert_int_equal(loops->tiles.count, 0);
    check_spans(loops);
    front_run_end(&run);
}

static bool all_fit(const loop_graph *loops)
{
    bool fit = true;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        division d = division_get(&loops->ops.items[i]);
        fit &= span_fits(loops, &loops->ops.items[i], &d);
    }
    return fit;
}

// Columns that are no whole sticks cannot be cut, so one core alone reaches over both of them.
static void tile_spans__more_tiles_only_where_they_help(void **state)
{
    (void)state;
    uint32_t tiled = 0, fitting = 0;
    for (uint32_t kib = 1; kib <= 256; kib *= 2) {
        bool fit[2];
        for (int chunked = 0; chunked < 2; chunked++) {
            front_run run = front_run_begin();
            spyre_view view = sizes_view(3, 32, 201, 108);
            uint32_t x = front_case_input(&run, view), y = front_case_input(&run, view);
            uint32_t sum = front_case_binary(&run, "spyre.add", x, y, view);
            front_case_output(&run, front_case_binary(&run, "spyre.mul", sum, x, view));
            run.settings.max_span_bytes = kib * KIB;
            run.settings.chunk_large_tensors = chunked;
            loop_graph *loops = front_case_before(&run, 8, NULL);
            fit[chunked] = all_fit(loops);
            tiled += chunked && loops->tiles.count > 0;
            front_run_end(&run);
        }
        assert_true(fit[1] || !fit[0]);
        fitting += fit[1];
    }
    assert_true(tiled > 0 && fitting > 2);
}

// The user's tiles stay, whatever the span.
static void tile_spans__hints_win(void **state)
{
    (void)state;
    front_run run = sums(64 * KIB);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(spyre_graph_name_dims(run.graph, run.graph->inputs.items[i].value, "M,K"));
        assert_ok(spyre_graph_set_tiles(run.graph, i, "1:M=2"));
    }
    loop_graph *loops = front_case_before(&run, 2, NULL);
    assert_int_equal(loops->tiles.count, 1);
    assert_int_equal(loops->tiles.items[0].count, 2);
    front_run_end(&run);
}

// Columns of a product reach over all of the weight: they are tiled, the contracted loop is not.
static void tile_spans__columns_of_a_product(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 2, 512, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, 512, 1024, 0)); // 16 columns of 64 KiB
    spyre_view out = sizes_view(2, 2, 1024, 0);
    front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, y, out));
    run.settings.max_span_bytes = 64 * KIB;
    loop_graph *loops = front_case_before(&run, 4, NULL);
    assert_int_equal(loops->tiles.count, 1);
    assert_int_equal(loops->tiles.items[0].count, 4);
    assert_int_equal(loops->ops.count, 1);
    check_spans(loops);
    front_run_end(&run);
}

// 16 MiB in columns of 512 KiB on 8 cores: their slices fit a span of 2 MiB, one core's do not.
static void tile_spans__large_tensors(void **state)
{
    (void)state;
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        front_run run = front_run_begin();
        spyre_view view = sizes_view(2, 4096, 2048, 0);
        uint32_t x = front_case_input(&run, view);
        front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
        run.settings.max_span_bytes = 2048 * KIB;
        run.settings.chunk_large_tensors = chunk;
        loop_graph *loops = front_case_before(&run, 8, NULL);
        assert_int_equal(loops->tiles.count, chunk);
        if (chunk) assert_int_equal(loops->tiles.items[0].count, 8);
        front_run_end(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_spans__fewest_tiles),
        cmocka_unit_test(tile_spans__divisions_come_first),
        cmocka_unit_test(tile_spans__more_tiles_only_where_they_help),
        cmocka_unit_test(tile_spans__hints_win),
        cmocka_unit_test(tile_spans__columns_of_a_product),
        cmocka_unit_test(tile_spans__large_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
