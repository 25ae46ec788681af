// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "spyre/settings.h"
#include "support/rounds.h"
#include "unit/front/solver_case.h"

static solver_item item(int64_t bytes, uint32_t first, uint32_t last)
{
    return (solver_item){.bytes = bytes, .first = first, .last = last, .worth = bytes};
}

static solver_item child_of(uint32_t parent, int64_t bytes, uint32_t first, uint32_t last)
{
    solver_item child = item(bytes, first, last);
    child.parent[child.parent_count++] = parent;
    return child;
}

// Solves and verifies; how many items have a place.
static uint32_t solve(solver_item *items, uint32_t count, int64_t capacity, uint32_t solver,
                      int64_t *out_top)
{
    arena *memory = arena_create();
    solver_problem problem = {memory, items, count, capacity, 0, false};
    assert_ok(solver_run(&problem, solver));
    assert_ok(solver_check(&problem));
    uint32_t placed = 0;
    int64_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].address == SOLVER_UNPLACED) continue;
        placed++;
        if (items[i].address + items[i].bytes > top) top = items[i].address + items[i].bytes;
    }
    assert_int_equal(problem.top, top);
    if (out_top) *out_top = top;
    arena_destroy(memory);
    return placed;
}

static void solver__rows_are_the_choices_of_the_setting(void **state)
{
    (void)state;
    static const char *const names[] = {
#define SOLVER_ROW(name, summary) #name,
#include "front/memory/solver.def"
#undef SOLVER_ROW
    };
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        spyre_settings settings = spyre_settings_default();
        assert_ok(spyre_settings_set(&settings, "layout_solver", names[i]));
        assert_int_equal(settings.layout_solver, i);
    }
    assert_int_equal(sizeof names / sizeof *names, SOLVERS);
    solver_problem none = {.capacity = 128};
    assert_error(solver_run(&none, SOLVERS), SPYRE_INVALID_ARGUMENT, "layout_solver: there is no");
}

static void solver__disjoint_lives_share_a_place(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < SOLVERS; s++) {
        solver_item items[] = {item(512, 0, 1), item(512, 2, 3), item(512, 4, 5)};
        int64_t top;
        assert_int_equal(solve(items, 3, 512, s, &top), 3);
        assert_int_equal(top, 512);
    }
}

static void solver__a_child_takes_its_parents_place(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < SOLVERS; s++) {
        solver_item items[] = {item(512, 0, 1), child_of(0, 512, 1, 2), child_of(1, 256, 2, 3)};
        assert_int_equal(solve(items, 3, 512, s, NULL), 3);
        assert_int_equal(items[1].address, items[0].address);
        assert_int_equal(items[2].address, items[0].address);
        // A larger child needs a place of its own.
        solver_item larger[] = {item(256, 0, 1), child_of(0, 512, 1, 2)};
        assert_int_equal(solve(larger, 2, 512, s, NULL), 1);
    }
}

static void solver__what_does_not_fit_stays_out(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < SOLVERS; s++) {
        solver_item items[] = {item(1024, 0, 3), item(256, 0, 3)};
        assert_int_equal(solve(items, 2, 512, s, NULL), 1);
        assert_int_equal(items[0].address, SOLVER_UNPLACED);
        assert_int_equal(solve(NULL, 0, 512, s, NULL), 0);
    }
}

// The published order of greedy: address 0, else above everything, else a gap.
static void solver__greedy_prefers_zero_then_the_top(void **state)
{
    (void)state;
    solver_item items[] = {item(256, 0, 1), item(128, 0, 9), item(128, 1, 2),
                           item(256, 3, 9), item(128, 4, 9), item(128, 5, 9)};
    assert_int_equal(solve(items, 6, 640, GREEDY, NULL), 6);
    assert_int_equal(items[1].address, 256);
    assert_int_equal(items[2].address, 384); // on top
    assert_int_equal(items[3].address, 0);   // the first one has left
    assert_int_equal(items[4].address, 384);
    assert_int_equal(items[5].address, 512);
}

// The published pattern "simple fragmentation": what comes early at address 0 blocks what is large.
static void solver__search_undoes_fragmentation(void **state)
{
    (void)state;
    solver_item items[] = {item(256, 0, 1), item(256, 1, 4), item(512, 2, 4)};
    assert_int_equal(solve(items, 3, 768, GREEDY, NULL), 2);
    assert_int_equal(solve(items, 3, 768, SEARCH, NULL), 3);
    assert_int_equal(solve(items, 3, 768, EXACT, NULL), 3);
}

static void solver__check_refuses_overlaps(void **state)
{
    (void)state;
    arena *memory = arena_create();
    solver_item items[] = {item(512, 0, 2), child_of(0, 512, 2, 4), item(256, 3, 5)};
    solver_problem problem = {.memory = memory, .items = items, .count = 3, .capacity = 1024};
    items[0].address = items[1].address = 0;
    items[2].address = 512;
    assert_ok(solver_check(&problem));
    items[2].address = 256;
    assert_error(solver_check(&problem), SPYRE_INTERNAL, "overlap");
    items[2].address = 896;
    assert_error(solver_check(&problem), SPYRE_INTERNAL, "leaves the 1024 bytes");
    items[2].address = SOLVER_UNPLACED;
    items[1].parent_count = 0;
    assert_error(solver_check(&problem), SPYRE_INTERNAL, "overlap");
    arena_destroy(memory);
}

static uint32_t random_state;
static uint32_t random_below(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static uint32_t make_random(solver_item *items, uint32_t most)
{
    uint32_t count = 1 + random_below(most);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = i, length = random_below(4) ? random_below(4) : random_below(40);
        items[i] = item(128 * (1 + random_below(40)), first, first + length);
        for (uint32_t p = 0; p < i && items[i].parent_count == 0; p++) {
            bool free = items[p].last == first && random_below(2);
            if (free && items[p].bytes >= items[i].bytes)
                items[i].parent[items[i].parent_count++] = p;
        }
    }
    return count;
}

static void solver__random_plans_are_sound_and_search_is_best(void **state)
{
    (void)state;
    static solver_item items[120], again[120];
    for (uint32_t seed = 1; seed <= test_rounds(60); seed++) {
        random_state = seed;
        uint32_t count = make_random(items, 120);
        int64_t best = -1, capacity = 128 * (10 + random_below(90));
        for (uint32_t s = SOLVERS; s-- > 0;) {
            solve(items, count, capacity, s, NULL);
            int64_t worth = placed_worth_of(items, count);
            if (s == SEARCH || s == EXACT) assert_true(s == EXACT || worth >= best);
            if (worth > best) best = worth;
        }
        memcpy(again, items, sizeof items);
        solve(again, count, capacity, SEARCH, NULL);
        assert_memory_equal(again, items, count * sizeof *items);
    }
}

// The lowest top of all plans in units of 128 bytes, by trying every address.
static int64_t lowest_top(solver_item *items, uint32_t count, uint32_t at, int64_t best)
{
    int64_t top = 0;
    for (uint32_t i = 0; i < at; i++)
        if (items[i].address + items[i].bytes > top) top = items[i].address + items[i].bytes;
    if (top >= best) return best;
    if (at == count) {
        arena *memory = arena_create();
        solver_problem problem = {
            .memory = memory, .items = items, .count = count, .capacity = INT64_MAX};
        spyre_status status = solver_check(&problem);
        if (!status) best = top;
        spyre_status_free(status);
        arena_destroy(memory);
        return best;
    }
    for (int64_t address = 0; address + items[at].bytes < best; address += 128) {
        items[at].address = address;
        best = lowest_top(items, count, at + 1, best);
    }
    return best;
}

static void solver__exact_has_the_lowest_top(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= test_rounds(60); seed++) {
        solver_item items[5], tried[5];
        int64_t top, sum = 128;
        random_state = seed;
        uint32_t count = 3 + random_below(2);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t first = i ? items[i - 1].first + random_below(2) : 0;
            items[i] = item(128 * (1 + random_below(4)), first, first + random_below(4));
            sum += items[i].bytes;
            for (uint32_t p = 0; p < i; p++) {
                bool free = items[p].last == first && items[p].first < first;
                if (free && random_below(2)) items[i].parent[items[i].parent_count++] = p;
            }
        }
        for (uint32_t i = 0; i < count; i++) // a parent has one child
            for (uint32_t c = i + 1, taken = 0; c < count; c++)
                for (uint32_t p = 0; p < items[c].parent_count; p++)
                    if (items[c].parent[p] == i && taken++)
                        items[c].parent[p] = items[c].parent[--items[c].parent_count];
        memcpy(tried, items, sizeof items);
        assert_int_equal(solve(items, count, 1 << 20, EXACT, &top), count);
        assert_int_equal(top, lowest_top(tried, count, 0, sum));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solver__rows_are_the_choices_of_the_setting),
        cmocka_unit_test(solver__disjoint_lives_share_a_place),
        cmocka_unit_test(solver__a_child_takes_its_parents_place),
        cmocka_unit_test(solver__what_does_not_fit_stays_out),
        cmocka_unit_test(solver__greedy_prefers_zero_then_the_top),
        cmocka_unit_test(solver__search_undoes_fragmentation),
        cmocka_unit_test(solver__check_refuses_overlaps),
        cmocka_unit_test(solver__random_plans_are_sound_and_search_is_best),
        cmocka_unit_test(solver__exact_has_the_lowest_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
