// SPDX-License-Identifier: Apache-2.0
//
// The text after any pass goes on to the program that the whole compilation gives.
#include "unit/check.h"

#include <stdlib.h>
#include <string.h>

#include "support/front_case.h"
#include "support/random_hints.h"
#include "support/random_outputs.h"
#include "support/rounds.h"


typedef struct {
    uint8_t *bytes;
    size_t length;
} image;

static image image_of(const bundle *b, arena *memory)
{
    isa_program *program;
    back_options options = BACK_OPTIONS_INIT;
    image out;
    spyre_status status = back_compile(b, &options, memory, &program);
    if (status) { // a step that the card refuses: compared by the rest of the graphs
        assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
        spyre_status_free(status);
        return (image){0};
    }
    assert_ok(isa_encode(memory, program, &out.bytes, &out.length));
    return out;
}

// Continues after every pass that changed something; how many there were.
static uint32_t check_passes(const char *dump, const image *whole, uint64_t seed)
{
    uint32_t checked = 0;
    for (const char *at = dump; at; at = strstr(at, "\nafter ")) {
        char pass[64];
        loop_graph *loops;
        front_result result;
        arena *memory = arena_create();
        at += *at == '\n';
        assert_int_equal(sscanf(at, "after %63s", pass), 1);
        assert_ok(loop_parse(dump, "dump", pass, memory, &loops));
        const front_options options = {0};
        assert_ok(front_continue(loops, &options, &result));
        image again = image_of(result.bundle, memory);
        if (again.length != whole->length || memcmp(again.bytes, whole->bytes, again.length) != 0)
            fail_msg("graph %llu: another program after %s", (unsigned long long)seed, pass);
        arena_destroy(memory);
        checked++;
    }
    return checked;
}

static uint32_t run_graph(uint64_t seed, uint32_t *tiled)
{
    random_graph *g = random_graph_begin(seed);
    spyre_view sizes = random_sizes(g);
    random_outputs out = {.count = 0};
    text dump = {0};
    front_result result;
    uint32_t node, checked = 0;
    front_options options = {.settings = g->run.settings, .dump = &dump};
    options.settings.sencores = seed % 3 ? 32 : 8;
    options.settings.uneven_splits = seed % 2;
    options.settings.unroll_loops = seed % 4 < 2;
    options.settings.max_span_bytes = seed % 5 ? options.settings.max_span_bytes : 8192;
    options.settings.skip_passes = seed % 7 ? NULL : "lx_planning,elide_copies";
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, sizes);
    for (uint32_t i = 2 + random_below(g, 6); i > 0; i--) random_step(g);
    random_outputs_choose(g, &out);
    if (random_chance(g, 50)) random_hints(g, &sizes);
    spyre_status status = front_compile(g->run.graph, &options, g->run.memory, &node, &result);
    if (!status) {
        image whole = image_of(result.bundle, g->run.memory);
        checked = check_passes(text_string(&dump), &whole, seed);
        *tiled += result.loops->tiles.count > 0;
    }
    spyre_status_free(status); // random_graphs_test and random_tiles_test judge refusals
    text_free(&dump);
    random_graph_end(g);
    return checked;
}

static void continue__any_graph_after_any_pass(void **state)
{
    (void)state;
    uint32_t checked = 0, tiled = 0, graphs = test_rounds(150);
    for (uint64_t seed = 0; seed < graphs; seed++) checked += run_graph(seed, &tiled);
    print_message("%u programs, %u graphs in tiles\n", checked, tiled);
    assert_true(checked > 4 * graphs);
    assert_true(tiled > graphs / 10);
}

static const char small[] = "after memory_planning\n"
                            "buffer b0 input float16 SEN169_FP16 dims(128:1) layout(0*) "
                            "memory(0+256)  // x\n"
                            "buffer b1 local float16 SEN169_FP16 dims(128:1) layout(0*) output(0) "
                            "memory(0+256)  // y\n"
                            "op 0 exp for(c0<128 stick) node(0)  // y, m.py:1\n"
                            "    b1[0 + 1*c0] = b0[0 + 1*c0]\n"
                            "return b1[0] 128:1\n";

static spyre_status go_on(arena *memory, const char *source)
{
    loop_graph *loops;
    front_result result;
    const front_options options = {0};
    TRY(loop_parse(source, "small", NULL, memory, &loops));
    return front_continue(loops, &options, &result);
}

static void assert_refused(const char *from, const char *to, const char *rule)
{
    arena *memory = arena_create();
    const char *at = strstr(small, from);
    assert_non_null(at);
    spyre_status status =
        go_on(memory, arena_printf(memory, "%.*s%s%s", (int)(at - small), small, to,
                                   at + strlen(from)));
    assert_non_null(status);
    if (!strstr(spyre_status_message(status), rule)) fail_msg("%s", spyre_status_message(status));
    spyre_status_free(status);
    arena_destroy(memory);
}

static void continue__what_no_pass_leaves_is_refused(void **state)
{
    (void)state;
    arena *memory = arena_create();
    assert_ok(go_on(memory, small));
    arena_destroy(memory);
    assert_refused("layout(0*) memory", "memory", "input x has no layout");
    assert_refused("output(0)", "output(1)", "output(0) is missing");
    assert_refused("layout(0*) output", "output", "I-13");
    assert_refused("b1[0 + 1*c0] =", "b1[1 + 1*c0] =", "I-10");
    assert_refused("output(0) memory(0+256)", "output(0) memory(0+128)", "I-25");
    assert_refused("stick)", "stick) split(c0/3)", "I-17");
    assert_refused("after memory_planning\n", "after memory_planning\nset skip_passes=tea\n",
                   "no pass is named 'tea'");
}

// Tiles read b1, which is then written anew for another reader.
#define REWRITTEN(op_1, tiles_of_2, sizes_of_s)                                                    \
    "after build\n"                                                                                \
    "buffer b0 input float32 IEEE_FP32 dims(256:1 512:256) layout(1 0*) "                          \
    "names(\"R,C\" 512:256 256:1)  // x\n"                                                         \
    "buffer b1 local float32 IEEE_FP32 dims(256:1 512:256)  // a\n"                                \
    "buffer b2 local float32 IEEE_FP32 dims(" sizes_of_s ") output(0)  // s\n"                     \
    "buffer b3 local float32 IEEE_FP32 dims(256:1 512:256) output(1)  // y\n"                      \
    "op 0 exp for(c0<512, c1<256) node(0)  // a, m.py:1\n"                                         \
    "    b1[0 + 256*c0 + 1*c1] = b0[0 + 256*c0 + 1*c1]\n" op_1                                     \
    "op 2 neg for(c0<512, c1<256) node(2)" tiles_of_2 "  // b, m.py:1\n"                           \
    "    b1[0 + 256*c0 + 1*c1] = b0[0 + 256*c0 + 1*c1]\n"                                          \
    "op 3 exp for(c0<512, c1<256) node(3)  // y, m.py:1\n"                                         \
    "    b3[0 + 256*c0 + 1*c1] = b1[0 + 256*c0 + 1*c1]\n"                                          \
    "return b2[0] 256:1\n"                                                                         \
    "return b3[0] 512:256 256:1\n"

static void assert_written_behind(const char *source, opfunc reader)
{
    arena *memory = arena_create();
    loop_graph *loops;
    front_result result;
    const front_options options = {0};
    uint32_t read = 0, written = 0;
    assert_ok(loop_parse(source, "text", NULL, memory, &loops));
    assert_ok(front_continue(loops, &options, &result));
    const loop_op *ops = result.loops->ops.items;
    for (uint32_t i = 0; i < result.loops->ops.count; i++) {
        if (ops[i].op == reader) read = i;
        if (ops[i].op == OPFUNC_NEG) written = i;
    }
    assert_true(read > 0 && written > read);
    assert_int_equal(ops[read].tile_depth, 1);
    assert_int_equal(loop_shared_tiles(&ops[read], &ops[written]), 0);
    arena_destroy(memory);
}

static void continue__what_tiles_read_is_written_anew_behind_them(void **state)
{
    (void)state;
    assert_written_behind(
        REWRITTEN("op 1 sum for(c0<512 reduced, c1<256) node(1) tiles(\"1:R=4\")  // s, m.py:1\n"
                  "    b2[0 + 1*c1] = b1[0 + 256*c0 + 1*c1]\n", "", "256:1"),
        OPFUNC_SUM);
    // Every tile reads row 0, which the first one would write.
    assert_written_behind(
        REWRITTEN("op 1 sub for(c0<512, c1<256) node(1) tiles(\"1:R=4\")  // s, m.py:1\n"
                  "    b2[0 + 256*c0 + 1*c1] = b0[0 + 256*c0 + 1*c1] b1[0 + 1*c1]\n",
                  " tiles(\"1:R=4\")", "256:1 512:256"),
        OPFUNC_SUB);
}

int main(void)
{
    setenv("SPYRE_LOG", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continue__any_graph_after_any_pass),
        cmocka_unit_test(continue__what_no_pass_leaves_is_refused),
        cmocka_unit_test(continue__what_tiles_read_is_written_anew_behind_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
