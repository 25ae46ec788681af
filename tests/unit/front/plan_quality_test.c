// SPDX-License-Identifier: Apache-2.0
//
// The compiler's division of work beside random legal ones, priced by the card's timing model; a
// larger comparison is bench/plans.py.
#include "unit/check.h"

#include "support/random_plan.h"

enum { PLANS = 60 };

static const struct {
    const char *name, *text;
    double allowed; // of the best random plan's time
} graphs[] = {
    {"add", "input %x: f16[2048, 1024]\ninput %y: f16[2048, 1024]\n"
            "%p = aten.add.Tensor(%x, %y) -> f16[2048, 1024]\nreturn %p\n", 1},
    {"sum", "input %x: f16[2048, 1024]\n"
            "%p = aten.sum.dim_IntList(%x, [1], false) -> f16[2048]\nreturn %p\n", 1},
    {"softmax along rows", "input %x: f16[512, 1024]\n"
            "%p = aten._softmax.default(%x, -1, false) -> f16[512, 1024]\nreturn %p\n", 1},
    {"softmax across rows", "input %x: f16[512, 1024]\n"
            "%p = aten._softmax.default(%x, 0, false) -> f16[512, 1024]\nreturn %p\n", 1},
    {"feed-forward", "input %x: f16[512, 512]\ninput %u: f16[512, 2048]\n"
                     "input %d: f16[2048, 512]\n%a = aten.mm.default(%x, %u) -> f16[512, 2048]\n"
                     "%b = aten.gelu.default(%a, \"none\") -> f16[512, 2048]\n"
                     "%p = aten.mm.default(%b, %d) -> f16[512, 512]\nreturn %p\n", 1},
    {"product", "input %x: f16[512, 512]\ninput %y: f16[512, 512]\n"
            "%p = aten.mm.default(%x, %y) -> f16[512, 512]\nreturn %p\n", 1},
    {"outer transpose", "input %x: f16[512, 8, 1024]\n"
                        "%t = aten.transpose.int(%x, 0, 1) -> f16[8, 512, 1024]{1024, 8192, 1}\n"
                        "%p = aten.clone.default(%t) -> f16[8, 512, 1024]\nreturn %p\n", 1},
    {"restickify", "input %x: f16[1024, 1024]\ninput %y: f16[1024, 1024]\n"
                   "%t = aten.transpose.int(%x, 0, 1) -> f16[1024, 1024]{1, 1024}\n"
                   "%p = aten.add.Tensor(%t, %y) -> f16[1024, 1024]\nreturn %p\n", 1},
    {"tall product", "input %x: f16[4096, 512]\ninput %y: f16[512, 256]\n"
                     "%p = aten.mm.default(%x, %y) -> f16[4096, 256]\nreturn %p\n", 1},
    {"few products", "input %x: f16[8, 256, 128]\ninput %y: f16[8, 128, 256]\n"
                     "%p = aten.bmm.default(%x, %y) -> f16[8, 256, 256]\nreturn %p\n", 1},
    {"batched product", "input %x: f16[32, 512, 128]\ninput %y: f16[32, 128, 512]\n"
            "%p = aten.bmm.default(%x, %y) -> f16[32, 512, 512]\nreturn %p\n", 1},
};

static void plan_quality__no_random_division_is_faster(void **state)
{
    (void)state;
    const spyre_settings settings = spyre_settings_default();
    for (uint32_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        arena *memory = arena_create();
        spyre_graph *graph;
        loop_graph *loops;
        plan_price own = {0, 0}, other = {0, 0};
        const char *plan;
        uint64_t random = g + 1;
        assert_ok(random_plan_read(graphs[g].text, graphs[g].name, &settings, memory, &graph,
                                   &loops));
        assert_ok(random_plan_price(loops, &own));
        for (uint32_t n = 0; n < PLANS; n++) {
            assert_ok(random_plan_try(loops, &random, memory, &other, &plan));
            if (own.card_us > other.card_us * graphs[g].allowed * (1 + 1e-9))
                fail_msg("%s: %g us, divided %s %g us", graphs[g].name, own.card_us, plan,
                         other.card_us);
        }
        spyre_graph_destroy(graph);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_quality__no_random_division_is_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
