// SPDX-License-Identifier: Apache-2.0
//
// Shapes of lives that are hard to place, after torch-spyre's target patterns (its page
// docs/source/compiler/scratchpad_planning.md): every solver's plan is checked, the default one
// places what a plan made by hand places, and what greedy misses is known.
#include "unit/check.h"

#include "unit/front/solver_case.h"

enum { MOST_ITEMS = 16, NO_PARENT = -1 };

// Bytes and capacity in sticks.
typedef struct {
    int64_t bytes;
    uint32_t first, last;
    int32_t parent;
    int64_t by_hand; // address in a plan that is right, or SOLVER_UNPLACED
} life;

typedef struct {
    const char *name;
    int64_t capacity;
    bool greedy_misses;
    life lives[MOST_ITEMS];
} pattern;

#define OUT SOLVER_UNPLACED
static const pattern patterns[] = {
    // A small buffer in the middle of the time keeps a large one from the room beside it.
    {"fragmentation", 12, true,
     {{4, 0, 1, NO_PARENT, 0}, {4, 1, 5, NO_PARENT, 8}, {8, 3, 4, NO_PARENT, 0}}},
    // Each one larger than the one before, two live at a time.
    {"staircase", 11, false,
     {{1, 0, 1, NO_PARENT, 0}, {2, 1, 2, NO_PARENT, 9}, {3, 2, 3, NO_PARENT, 0},
      {4, 3, 4, NO_PARENT, 7}, {5, 4, 5, NO_PARENT, 0}, {6, 5, 6, NO_PARENT, 5}}},
    {"downward staircase", 11, false,
     {{6, 0, 1, NO_PARENT, 0}, {5, 1, 2, NO_PARENT, 6}, {4, 2, 3, NO_PARENT, 0},
      {3, 3, 4, NO_PARENT, 4}, {2, 4, 5, NO_PARENT, 0}, {1, 5, 6, NO_PARENT, 2}}},
    // Something long and rarely read has to stay out for what comes between; nothing is moved away.
    {"eviction", 8, true,
     {{4, 0, 9, NO_PARENT, OUT}, {4, 1, 3, NO_PARENT, 0}, {4, 2, 5, NO_PARENT, 4},
      {4, 4, 7, NO_PARENT, 0}, {4, 6, 8, NO_PARENT, 4}}},
    // The same, and what stayed out at first has a successor that finds room again.
    {"eviction and reallocation", 8, false,
     {{4, 0, 6, NO_PARENT, OUT}, {4, 1, 3, NO_PARENT, 0}, {4, 2, 5, NO_PARENT, 4},
      {4, 4, 6, NO_PARENT, 0}, {8, 7, 9, NO_PARENT, 0}}},
    // Scores of one group after the other between small maxima, sums and running results.
    {"attention in groups", 16, false,
     {{6, 0, 2, NO_PARENT, 0}, {1, 1, 6, NO_PARENT, 15}, {6, 2, 4, 0, 0}, {1, 3, 6, NO_PARENT, 14},
      {8, 4, 6, NO_PARENT, 6}, {6, 6, 8, NO_PARENT, 0}, {1, 7, 12, NO_PARENT, 15}, {6, 8, 10, 5, 0},
      {1, 9, 12, NO_PARENT, 14}, {8, 10, 12, NO_PARENT, 6}}},
    // A hidden state that all experts read, and the buffers of one expert after the other.
    {"experts", 20, false,
     {{5, 0, 10, NO_PARENT, 0}, {1, 0, 10, NO_PARENT, 19}, {7, 1, 3, NO_PARENT, 5},
      {7, 2, 3, NO_PARENT, 12}, {4, 4, 10, NO_PARENT, 15}, {7, 5, 7, NO_PARENT, 5},
      {3, 6, 8, NO_PARENT, 12}, {5, 8, 10, NO_PARENT, 5}}},
};

static uint32_t make(const pattern *p, solver_item *items)
{
    uint32_t count = 0;
    for (; count < MOST_ITEMS && p->lives[count].bytes; count++) {
        const life *l = &p->lives[count];
        items[count] = (solver_item){.bytes = l->bytes * 128, .first = l->first, .last = l->last,
                                     .worth = l->bytes};
        if (l->parent != NO_PARENT)
            items[count].parent[items[count].parent_count++] = (uint32_t)l->parent;
        items[count].address = l->by_hand < 0 ? OUT : l->by_hand * 128;
    }
    return count;
}

static void patterns__solvers(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < sizeof patterns / sizeof *patterns; n++) {
        const pattern *p = &patterns[n];
        for (uint32_t s = 0; s < SOLVERS; s++) {
            solver_item items[MOST_ITEMS];
            arena *memory = arena_create();
            solver_problem problem = {.memory = memory, .items = items,
                                      .count = make(p, items), .capacity = p->capacity * 128};
            assert_ok(solver_check(&problem)); // the plan by hand
            int64_t by_hand = placed_worth_of(items, problem.count);
            assert_ok(solver_run(&problem, s));
            assert_ok(solver_check(&problem));
            int64_t worth = placed_worth_of(items, problem.count);
            if ((s == SEARCH || s == EXACT) && worth < by_hand)
                fail_msg("%s, solver %u: worth %lld of %lld", p->name, s, (long long)worth,
                         (long long)by_hand);
            if (s == GREEDY && p->greedy_misses != (worth < by_hand))
                fail_msg("%s: greedy places %lld of %lld", p->name, (long long)worth,
                         (long long)by_hand);
            arena_destroy(memory);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns__solvers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
