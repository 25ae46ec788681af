// SPDX-License-Identifier: Apache-2.0
//
// The planner's solvers for callers of the library: random buffers, each place against its rules.
#include "unit/check.h"

#include <string.h>

#include "spyre/scratchpad.h"

enum { MOST_BUFFERS = 24, ROUNDS = 400 };

static uint32_t next(uint64_t *random, uint32_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % below;
}

static uint32_t make_buffers(uint64_t *random, spyre_live_buffer *buffers)
{
    uint32_t count = next(random, MOST_BUFFERS + 1);
    memset(buffers, 0, MOST_BUFFERS * sizeof *buffers);
    for (uint32_t i = 0; i < count; i++) {
        spyre_live_buffer *b = &buffers[i];
        b->bytes = 1 + next(random, 300);
        b->first = next(random, 20);
        b->last = b->first + next(random, 6);
        b->worth = next(random, 1000);
        if (count > 1 && next(random, 3) == 0)
            b->parents[b->parent_count++] = (i + 1 + next(random, count - 1)) % count;
    }
    return count;
}

static bool took_place(const spyre_live_buffer *buffers, uint32_t child, uint32_t parent)
{
    const spyre_live_buffer *c = &buffers[child], *p = &buffers[parent];
    return c->parent_count && c->parents[0] == parent && p->last == c->first &&
           p->address == c->address && p->bytes >= c->bytes;
}

static void check_pair(const spyre_live_buffer *buffers, uint32_t i, uint32_t j)
{
    const spyre_live_buffer *a = &buffers[i], *b = &buffers[j];
    bool meet = a->first <= b->last && b->first <= a->last && a->address >= 0 && b->address >= 0;
    bool apart = a->address + a->bytes <= b->address || b->address + b->bytes <= a->address;
    assert_true(!meet || apart || took_place(buffers, i, j) || took_place(buffers, j, i));
}

static void place_buffers__random(void **state)
{
    (void)state;
    static const char *const solvers[] = {"search", "greedy", "firstfit", "bestfit", "exact"};
    spyre_live_buffer buffers[MOST_BUFFERS];
    uint64_t random = 1;
    uint32_t placed = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t count = make_buffers(&random, buffers);
        int64_t capacity = next(&random, 1500), alignment = 1 << next(&random, 8);
        assert_ok(spyre_place_buffers(solvers[round % 5], capacity, alignment, buffers, count));
        for (uint32_t i = 0; i < count; i++) {
            if (buffers[i].address < 0) continue;
            placed++;
            assert_int_equal(buffers[i].address % alignment, 0);
            assert_true(buffers[i].address + buffers[i].bytes <= capacity);
            for (uint32_t j = 0; j < i; j++) check_pair(buffers, i, j);
        }
    }
    assert_true(placed > ROUNDS * 3);
}

static void place_buffers__refusals(void **state)
{
    (void)state;
    spyre_live_buffer b = {.bytes = 1};
    assert_error(spyre_place_buffers("cpsat", 1, 1, &b, 1), SPYRE_INVALID_ARGUMENT, "'cpsat'");
    assert_error(spyre_place_buffers("exact", -1, 1, &b, 1), SPYRE_INVALID_ARGUMENT, "capacity -1");
    b.parents[b.parent_count++] = 1;
    assert_error(spyre_place_buffers("exact", 1, 1, &b, 1), SPYRE_INVALID_ARGUMENT,
                 "buffer 0 has no parent 1");
    b = (spyre_live_buffer){.bytes = 1, .first = 2, .last = 1};
    assert_error(spyre_place_buffers("exact", 1, 1, &b, 1), SPYRE_INVALID_ARGUMENT,
                 "buffer 0 lives from op 2 to op 1");
    assert_ok(spyre_place_buffers("exact", 0, 1, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_buffers__random),
        cmocka_unit_test(place_buffers__refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
