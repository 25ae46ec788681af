// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/check/translation.h"
#include "support/front_case.h"
#include "support/random_outputs.h"
#include "support/random_plan.h"
#include "support/rounds.h"

// --- Which chains are one op

// layernormnorm ops of a graph of x [4, 8, 5, 70] in 16 bits, %w, which is x in float32, and
// vectors %m, %s and %b of the 8; `rest` returns 16 bits.
static uint32_t count_norms(const char *rest)
{
    char source[2048];
    spyre_settings settings = spyre_settings_default();
    spyre_graph *graph;
    loop_graph *loops;
    arena *memory = arena_create();
    snprintf(source, sizeof source,
             "input %%x: f16[4, 8, 5, 70]\ninput %%m: f32[8, 1, 1]\ninput %%s: f32[8, 1, 1]\n"
             "input %%b: f32[8, 1, 1]\ninput %%r: f32[70]\n"
             "%%w = aten._to_copy.default(%%x, f32, none, none, none, false, none)"
             " -> f32[4, 8, 5, 70]\n%s",
             rest);
    assert_ok(random_plan_read(source, "case.graph", &settings, memory, &graph, &loops));
    uint32_t norms = front_case_count(loops, OPFUNC_LAYERNORMNORM);
    // What the norm has taken in is gone.
    if (norms && front_case_count(loops, OPFUNC_FP32TODL16)) norms = UINT32_MAX;
    spyre_graph_destroy(graph);
    arena_destroy(memory);
    return norms;
}

#define OP(to, op, a, b) "%" to " = aten." op ".Tensor(%" a ", %" b ") -> f32[4, 8, 5, 70]\n"
#define END(x)                                                          \
    "%y = aten._to_copy.default(%" x ", f16, none, none, none, false, none) -> " \
    "f16[4, 8, 5, 70]\nreturn %y\n"

static void fuse_norms__shifts_and_scales_are_one_op(void **state)
{
    (void)state;
    assert_int_equal(count_norms(OP("d", "sub", "w", "m") OP("n", "mul", "d", "s")
                                 OP("t", "add", "n", "b") END("t")), 1);
    assert_int_equal(count_norms(OP("d", "sub", "w", "m") OP("n", "mul", "s", "d")
                                 OP("u", "mul", "n", "m") OP("t", "add", "b", "u") END("t")), 1);
    assert_int_equal(count_norms(OP("d", "sub", "w", "m") OP("n", "mul", "d", "s") END("n")), 1);
    assert_int_equal(count_norms(OP("n", "mul", "w", "s") OP("t", "add", "n", "b") END("t")), 1);
}

static void fuse_norms__others_stay(void **state)
{
    (void)state;
    assert_int_equal(count_norms(OP("d", "sub", "w", "m") END("d")), 0);
    // The other way round, in another order, once too often.
    assert_int_equal(count_norms(OP("d", "sub", "m", "w") OP("n", "mul", "d", "s") END("n")), 0);
    assert_int_equal(count_norms(OP("n", "mul", "w", "s") OP("d", "sub", "n", "m") END("d")), 0);
    assert_int_equal(count_norms(OP("t", "add", "w", "b") OP("n", "mul", "t", "s") END("n")), 0);
    // Along the innermost loop.
    assert_int_equal(count_norms(OP("d", "sub", "w", "r") OP("n", "mul", "d", "s") END("n")), 0);
    assert_int_equal(count_norms(OP("d", "sub", "w", "m") OP("n", "mul", "d", "d") END("n")), 0);
}

// --- Random chains: passes change no bit, the card agrees with the interpreter

enum { SUB, MUL, ADD, STEPS };

// One number, or one for each row, at times one for each place.
static random_value random_scale(random_graph *g, const random_value *x)
{
    spyre_view view = x->view;
    for (uint32_t d = 0; d < view.rank; d++)
        if (random_chance(g, d + 1 == view.rank ? 90 : 50)) view.size[d] = 1;
    return *random_input(g, x->dtype, dense_view(view.rank, view.size));
}

static const random_value *random_scaling(random_graph *g, const random_value *of, uint32_t op)
{
    static const char *const ops[STEPS] = {"spyre.sub", "spyre.mul", "spyre.add"};
    const random_value x = *of, y = random_chance(g, 80) ? random_scale(g, &x)
                                                         : random_partner(g, &x);
    bool turned = random_chance(g, op == SUB ? 5 : 40);
    random_value out = random_result(g, x.dtype, &x.view);
    spyre_view other = random_broadcast(&y.view, &x.view);
    out.checked = x.checked && y.checked;
    out.error = op == MUL ? x.error * y.bound + y.error * x.bound : x.error + y.error;
    for (int64_t i = 0; i < out.count; i++) {
        double p = x.storage[random_offset(&x.view, i)], q = y.storage[random_offset(&other, i)];
        double values[] = {turned ? q - p : p - q, p * q, p + q};
        out.storage[random_offset(&out.view, i)] = values[op];
    }
    spyre_arg args[] = {random_arg(turned ? &y : &x), random_arg(turned ? &x : &y)};
    return random_finish(g, ops[op], args, 2, out);
}

// Mostly in the order of a norm; a reduction beside it.
static void add_chain(random_graph *g)
{
    static const uint32_t order[] = {SUB, MUL, MUL, ADD};
    spyre_view view = random_sizes(g);
    if (!view.rank) view = sizes_view(1, 70, 0, 0);
    const random_value *x = random_input(g, SPYRE_DTYPE_F16, dense_view(view.rank, view.size));
    if (random_chance(g, 30)) x = random_view(g, x);
    if (random_chance(g, 30) && random_room(g)) random_reduction_to(g, x, SPYRE_DTYPE_F32);
    x = random_cast(g, x);
    for (uint32_t n = 0; n < 4 && random_room(g); n++) {
        if (random_chance(g, 35)) continue;
        x = random_scaling(g, x, random_chance(g, 90) ? order[n] : random_below(g, STEPS));
    }
    if (random_chance(g, 10) && random_room(g)) x = random_view(g, x);
    if (random_room(g)) random_cast(g, x);
}

static void expect_kept_values(const random_graph *g, uint64_t seed, const spyre_settings *settings)
{
    spyre_status status = translation_validate(g->run.graph, settings, front_passes,
                                               FRONT_PASS_COUNT, front_emit);
    if (spyre_status_code(status) == SPYRE_INTERNAL)
        fail_msg("seed %llu: %s", (unsigned long long)seed, spyre_status_message(status));
    spyre_status_free(status);
}

// False when the front says that it cannot. Whether it was a norm in *out_norm.
static bool run_chain(uint64_t seed, bool *out_norm)
{
    static const uint32_t cores[] = {1, 2, 7, 32};
    char problem[128];
    random_graph *g = random_graph_begin(seed);
    random_outputs out = {.count = 0};
    add_chain(g);
    random_outputs_choose(g, &out);
    uint32_t core_count = cores[random_below(g, 4)];
    spyre_status status = NULL;
    for (front_engine e = 0; !status && e <= FRONT_RUN_CARD_FAST; e++) {
        random_outputs_room(g, &out, e);
        status = front_run_execute(&g->run, core_count, e, out.got[e], NULL);
    }
    bool supported = !status;
    spyre_status_free(status);
    if (supported && random_outputs_differ(&out, FRONT_RUN_CARD_FAST + 1, problem))
        fail_msg("seed %llu: %s", (unsigned long long)seed, problem);
    if (supported) {
        loop_graph *loops = front_case_before(&g->run, core_count, "dedup_constants");
        *out_norm = front_case_count(loops, OPFUNC_LAYERNORMNORM) > 0;
        expect_kept_values(g, seed, &g->run.settings);
    }
    random_graph_end(g);
    return supported;
}

static void fuse_norms__random_chains(void **state)
{
    (void)state;
    uint32_t ran = 0, norms = 0, chains = test_rounds(40);
    for (uint64_t seed = 1; seed <= chains; seed++) {
        bool norm = false;
        ran += run_chain(seed, &norm);
        norms += norm;
    }
    assert_in_range(ran, chains * 9 / 10, chains);
    assert_in_range(norms, chains / 4, chains);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fuse_norms__shifts_and_scales_are_one_op),
        cmocka_unit_test(fuse_norms__others_stay),
        cmocka_unit_test(fuse_norms__random_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
