// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "graph/segments/segments.h"
#include "graph/text/print.h"
#include "graph/verify.h"

typedef struct {
    arena *memory;
    spyre_graph *graph, *prepared;
    graph_segment *segments;
    uint32_t count;
} cut;

static cut partition(const char *source, bool fused, uint32_t most_tensors)
{
    cut c = {.memory = arena_create()};
    assert_ok(spyre_graph_parse(source, "t", &c.graph));
    assert_ok(graph_prepare(c.graph, GRAPH_HOST_ALLOWED, NULL, c.memory, &c.prepared));
    assert_ok(graph_make_segments(c.prepared, fused, most_tensors, c.memory, &c.segments,
                                  &c.count));
    for (uint32_t i = 0; i < c.count; i++) {
        const graph_segment *s = &c.segments[i];
        assert_int_equal(s->kind == SPYRE_SEGMENT_CARD, s->graph != NULL);
        if (!s->graph) continue;
        assert_ok(graph_verify(s->graph));
        assert_int_equal(s->graph->inputs.count, s->input_count);
        assert_int_equal(s->graph->outputs.count, s->output_count);
    }
    return c;
}

static void release(cut *c)
{
    spyre_graph_destroy(c->graph);
    arena_destroy(c->memory);
}

static void append_names(const cut *c, const uint32_t *values, uint32_t count, text *out)
{
    for (uint32_t i = 0; i < count; i++) {
        text_printf(out, " %%%s", c->prepared->values.items[values[i]].name);
    }
}

// One line a segment: "card(%x %w) -> %a; nodes 0 2".
static void assert_cut_as(const char *source, bool fused, uint32_t most_tensors,
                          const char *expected)
{
    cut c = partition(source, fused, most_tensors);
    text found = {0};
    for (uint32_t i = 0; i < c.count; i++) {
        const graph_segment *s = &c.segments[i];
        text_append(&found, s->kind == SPYRE_SEGMENT_CARD ? "card:" : "host:");
        append_names(&c, s->inputs, s->input_count, &found);
        text_append(&found, " ->");
        append_names(&c, s->outputs, s->output_count, &found);
        text_append(&found, "; nodes");
        for (uint32_t k = 0; k < s->node_count; k++) text_printf(&found, " %u", s->nodes[k]);
        text_append(&found, "\n");
    }
    assert_string_equal(text_string(&found), expected);
    text_free(&found);
    release(&c);
}

#define X          "input %x: f16[4, 64]\n"
#define NEG(y, x)  "%" y " = aten.neg.default(%" x ") -> f16[4, 64]\n"
#define HOST(y, x) "%" y " = aten.special_airy_ai.default(%" x ") -> f16[4, 64]\n"

static void assert_cut(const char *source, const char *expected)
{
    assert_cut_as(source, true, 0, expected);
}

static void segments__one_segment(void **state)
{
    (void)state;
    assert_cut(X NEG("a", "x") NEG("b", "a") "return %b, %a\n", "card: %x -> %b %a; nodes 0 1\n");
    assert_cut(X HOST("a", "x") "return %a\n", "host: %x -> %a; nodes 0\n");
}

static void segments__nothing_to_do(void **state)
{
    (void)state;
    assert_cut(X "return %x\n", "");
    assert_cut("return\n", "");
}

static void segments__host_nodes_cut_only_what_depends(void **state)
{
    (void)state;
    // %b and %d stand behind a host node but do not need it.
    assert_cut(X NEG("a", "x") HOST("h", "a") NEG("b", "a") HOST("i", "x") NEG("c", "h")
                   NEG("d", "b") "return %c, %d, %i\n",
               "card: %x -> %d %a; nodes 0 2 5\n"
               "host: %a %x -> %i %h; nodes 1 3\n"
               "card: %h -> %c; nodes 4\n");
}

#define START(y, x) \
    "%" y " = _c10d_functional.all_reduce.default(%" x ", \"sum\", \"0\") -> f16[4, 64]\n"
#define WAIT(y, x) "%" y " = _c10d_functional.wait_tensor.default(%" x ") -> f16[4, 64]\n"
#define PLUS(z, x, y) "%" z " = aten.add.Tensor(%" x ", %" y ") -> f16[4, 64]\n"

static void segments__exchanges_overlap_with_the_card(void **state)
{
    (void)state;
    // %b does not need what the ranks exchange, and is not needed for it.
    assert_cut(X NEG("a", "x") START("s", "a") WAIT("w", "s") NEG("b", "x") PLUS("c", "w", "b")
                   "return %c\n",
               "card: %x -> %a; nodes 0\n"
               "host: %a -> %s; nodes 1\n"
               "card: %x -> %b; nodes 3\n"
               "host: %s -> %w; nodes 2\n"
               "card: %w %b -> %c; nodes 4\n");
    // One of two is beside work that does not need it.
    assert_cut(X NEG("a", "x") START("s", "a") NEG("b", "x") WAIT("w", "s") PLUS("c", "w", "b")
                   START("t", "c") WAIT("v", "t") "return %v\n",
               "card: %x -> %a; nodes 0\n"
               "host: %a -> %s; nodes 1\n"
               "card: %x -> %b; nodes 2\n"
               "host: %s -> %w; nodes 3\n"
               "card: %w %b -> %c; nodes 4\n"
               "host: %c -> %v; nodes 5 6\n");
    // There is nothing to do meanwhile.
    assert_cut(X NEG("a", "x") START("s", "a") WAIT("w", "s") NEG("b", "w") "return %b\n",
               "card: %x -> %a; nodes 0\n"
               "host: %a -> %w; nodes 1 2\n"
               "card: %w -> %b; nodes 3\n");
    // Nobody reads the result, but other ranks take part.
    assert_cut(X START("s", "x") NEG("b", "x") "return %b\n",
               "card: %x -> %b; nodes 1\n"
               "host: %x ->; nodes 0\n");
}

static void segments__may_begin_with_the_host(void **state)
{
    (void)state;
    assert_cut(X HOST("h", "x") NEG("a", "h") NEG("b", "x") "return %a, %b\n",
               "host: %x -> %h; nodes 0\n"
               "card: %h %x -> %a %b; nodes 1 2\n");
}

// A view of a card value goes to the host as the card's output; the card repeats views.
static void segments__views(void **state)
{
    (void)state;
    assert_cut(X NEG("a", "x") "%v = aten.t.default(%a) -> f16[64, 4]{1, 64}\n"
                               "%h = aten.special_airy_ai.default(%v) -> f16[64, 4]\n"
                               "%s = aten.add.Tensor(%v, %h, 1) -> f16[64, 4]\n"
                               "return %s\n",
               "card: %x -> %v %a; nodes 0 1\n"
               "host: %v -> %h; nodes 2\n"
               "card: %a %h -> %s; nodes 1 3\n");
    // Views of inputs and of its own results the host makes itself.
    assert_cut(X "%v = aten.t.default(%x) -> f16[64, 4]{1, 64}\n"
                 "%h = aten.special_airy_ai.default(%v) -> f16[64, 4]\n"
                 "%w = aten.t.default(%h) -> f16[4, 64]{1, 4}\n"
                 "%n = aten.neg.default(%v) -> f16[64, 4]\n"
                 "return %w, %n\n",
               "card: %x -> %n; nodes 0 3\n"
               "host: %x -> %w; nodes 0 1 2\n");
}

static void segments__outputs_that_view_inputs(void **state)
{
    (void)state;
    assert_cut(X "%v = aten.t.default(%x) -> f16[64, 4]{1, 64}\n" NEG("n", "x") "return %v, %n\n",
               "card: %x -> %v %n; nodes 0 1\n");
    assert_cut(X "%v = aten.t.default(%x) -> f16[64, 4]{1, 64}\n" HOST("n", "x") "return %v, %n\n",
               "host: %x -> %v %n; nodes 0 1\n");
    assert_cut(X "%v = aten.t.default(%x) -> f16[64, 4]{1, 64}\n"
                 "return %v, %x\n",
               "host: %x -> %v; nodes 0\n");
}

// "x 1": the segment's input and the number of the output that replaces it, plus one.
static void assert_updates(const char *source, const char *expected)
{
    cut c = partition(source, true, 0);
    text found = {0};
    for (uint32_t i = 0; i < c.count; i++) {
        const spyre_graph *graph = c.segments[i].graph;
        for (uint32_t k = 0; graph && k < graph->inputs.count; k++) {
            const graph_input *input = &graph->inputs.items[k];
            if (!input->update) continue;
            text_printf(&found, "%s %u\n", graph->values.items[input->value].name, input->update);
        }
    }
    assert_string_equal(text_string(&found), expected);
    text_free(&found);
    release(&c);
}

static void segments__the_segment_of_new_contents_has_the_input(void **state)
{
    (void)state;
    assert_updates(X NEG("a", "x") "return %a, %a into %x\n", "x 1\n");
    assert_updates(X "input %y: f16[4, 64]\n" NEG("a", "y") NEG("b", "a")
                   "return %a, %b into %x\n", "x 2\n");
}

static void segments__old_contents_that_are_needed_later_stay(void **state)
{
    (void)state;
    assert_updates(X NEG("a", "x") HOST("b", "a") HOST("c", "x") "return %a into %x, %b, %c\n", "");
    assert_updates(X NEG("a", "x") "return %x, %a into %x\n", "");
    assert_updates(X HOST("a", "x") "return %a into %x\n", "");
}

static void segments__constants_are_repeated(void **state)
{
    (void)state;
    cut c = partition(X "%a = aten.add.Tensor(%x, 2, 1) -> f16[4, 64]\n" HOST(
        "h", "a") "%b = aten.add.Tensor(%h, 2, 1) -> f16[4, 64]\n"
                  "return %b\n", true, 0);
    assert_int_equal(c.count, 3);
    assert_int_equal(c.segments[2].input_count, 1);
    text found = {0};
    assert_ok(graph_print(c.segments[2].graph, false, &found));
    assert_string_equal(text_string(&found), "input %h: f16[4, 64] storage [4, 64]\n"
                                             "%a.1 = spyre.constant(2.0, f16) -> f16[]\n"
                                             "%b = spyre.add(%h, %a.1) -> f16[4, 64]\n"
                                             "return %b\n");
    assert_int_equal(c.segments[2].graph->inputs.items[0].layout.rank, 0);
    text_free(&found);
    release(&c);
    // One that the host or the caller sees is made once.
    assert_cut(X "%k = aten.scalar_tensor.default(1.5, f16, none, none, false) -> f16[]\n"
                 "%a = aten.mul.Tensor(%x, %k) -> f16[4, 64]\n"
                 "%h = my.op.default(%a, %k) -> f16[4, 64]\n"
                 "return %h\n",
               "card: %x -> %a %k; nodes 0 1\n"
               "host: %a %k -> %h; nodes 2\n");
}

// copy_ stays behind what reads the old value and before what reads the new one.
static void segments__writes_keep_their_place(void **state)
{
    (void)state;
    assert_cut(X NEG("a", "x") "%w = aten.copy_.default(%x, %a, false) -> f16[4, 64]\n" NEG(
                   "b", "x") "return %b, %w\n",
               "card: %x -> %a; nodes 0\n"
               "host: %x %a -> %w; nodes 1\n"
               "card: %x -> %b; nodes 2\n");
    // The write waits for %c although it needs only %x.
    assert_cut(X HOST("h", "x")
                   NEG("a", "h") "%c = aten.add.Tensor(%a, %x, 1) -> f16[4, 64]\n"
                                 "%w = aten.copy_.default(%x, %x, false) -> f16[4, 64]\n"
                                 "return %c\n",
               "host: %x -> %h; nodes 0\n"
               "card: %h %x -> %c; nodes 1 2\n"
               "host: %x ->; nodes 3\n");
}

static void segments__random_numbers_stay_in_order(void **state)
{
    (void)state;
    cut c = partition(X NEG("a", "x") "%r = aten.bernoulli.p(%a, 0.5, none) -> f16[4, 64]\n"
                                      "%s = aten.bernoulli.p(%x, 0.5, none) -> f16[4, 64]\n"
                                      "return %r, %s\n", true, 0);
    assert_int_equal(c.count, 2);
    assert_int_equal(c.segments[1].node_count, 2);
    release(&c);
}

// A long chain of alternating nodes: linear work, and as many segments as changes.
static void segments__long_chains(void **state)
{
    (void)state;
    enum { LINKS = 2000 };
    text source = {0};
    text_append(&source, X "%v0 = aten.neg.default(%x) -> f16[4, 64]\n");
    for (int i = 1; i < LINKS; i++) {
        const char *name = i % 4 == 0 ? "special_airy_ai" : "neg";
        text_printf(&source, "%%v%d = aten.%s.default(%%v%d) -> f16[4, 64]\n", i, name, i - 1);
    }
    text_printf(&source, "return %%v%d\n", LINKS - 1);
    cut c = partition(text_string(&source), true, 0);
    assert_int_equal(c.count, 2 * (LINKS / 4 - 1) + 1);
    release(&c);
    text_free(&source);
}

static void segments__report(void **state)
{
    (void)state;
    cut c = partition(X "%g = aten.gelu.default(%x, \"none\") -> f16[4, 64] @ \"m.py:1\"\n"
                        "%v = aten.view.default(%g, [256]) -> f16[256]\n"
                        "%s = aten._softmax.default(%v, 0, false) -> f16[256] @ \"m.py:2\"\n"
                        "%c = aten.special_airy_ai.default(%s) -> f16[256] @ \"m.py:3\"\n"
                        "%d = aten.exp.default(%c) -> f16[256]\n"
                        "return %c\n", true, 0);
    text found = {0};
    assert_ok(graph_report(c.prepared->fates.items, c.prepared->fates.count, &found));
    assert_string_equal(text_string(&found),
                        "node 0 aten.gelu.default (m.py:1): native\n"
                        "node 1 aten.view.default: view\n"
                        "node 2 aten._softmax.default (m.py:2): decomposition\n"
                        "node 3 aten.special_airy_ai.default (m.py:3): "
                        "host, the card has no Airy functions\n"
                        "node 4 aten.exp.default: removed\n");
    text_free(&found);
    release(&c);
}

static void segments__a_segment_a_node_unless_fused(void **state)
{
    (void)state;
    assert_cut_as("input %x: f16[2, 64]\n"
                  "%a = aten.exp.default(%x) -> f16[2, 64]\n"
                  "%t = aten.transpose.int(%a, 0, 1) -> f16[64, 2]{1, 64}\n"
                  "%h = aten.special_airy_ai.default(%x) -> f16[2, 64]\n"
                  "%i = aten.special_airy_ai.default(%h) -> f16[2, 64]\n"
                  "%b = aten.add.Tensor(%a, %i, 2.0) -> f16[2, 64]\n"
                  "%c = aten.neg.default(%t) -> f16[64, 2]{1, 64}\n"
                  "return %b, %c\n",
                  false, 0,
                  "host: %x -> %i; nodes 2 3\n"
                  "card: %x -> %a; nodes 0\n"
                  "card: %i -> %b.2; nodes 4\n"
                  "card: %a %b.2 -> %b; nodes 4\n"
                  "card: %a -> %c; nodes 1 5\n");
}

// What a segment takes counts, and what somebody wants of it; %a and %b go on to the next one.
static void segments__segments_of_few_tensors(void **state)
{
    (void)state;
#define ADD(y, a, b) "%" y " = aten.add.Tensor(%" a ", %" b ") -> f16[4, 64]\n"
    const char *source = "input %u: f16[4, 64]\ninput %v: f16[4, 64]\ninput %w: f16[4, 64]\n"
        ADD("a", "u", "v") ADD("b", "a", "w") ADD("c", "b", "a") NEG("d", "c") NEG("e", "d")
        "return %e\n";
    assert_cut_as(source, true, 4, "card: %u %v %w -> %e; nodes 0 1 2 3 4\n");
    assert_cut_as(source, true, 3,
                  "card: %u %v -> %a; nodes 0\n"
                  "card: %a %w -> %e; nodes 1 2 3 4\n");
    // The least that a segment of one node takes.
    assert_cut_as(source, true, 1,
                  "card: %u %v -> %a; nodes 0\n"
                  "card: %a %w -> %b; nodes 1\n"
                  "card: %b %a -> %c; nodes 2\n"
                  "card: %c -> %d; nodes 3\n"
                  "card: %d -> %e; nodes 4\n");
#undef ADD
}

// Constants are no tensors of their own, and a result that the caller wants stays one.
static void segments__tensors_of_a_part(void **state)
{
    (void)state;
    const char *source = X "%a = aten.add.Tensor(%x, 1.0) -> f16[4, 64]\n"
                           "%b = aten.mul.Tensor(%a, 2.0) -> f16[4, 64]\n" NEG("c", "b")
                               NEG("d", "c") "return %b, %d\n";
    assert_cut_as(source, true, 3, "card: %x -> %b %d; nodes 0 1 2 3\n");
    assert_cut_as(source, true, 2,
                  "card: %x -> %b; nodes 0 1\n"
                  "card: %b -> %d; nodes 2 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments__one_segment),
        cmocka_unit_test(segments__nothing_to_do),
        cmocka_unit_test(segments__host_nodes_cut_only_what_depends),
        cmocka_unit_test(segments__exchanges_overlap_with_the_card),
        cmocka_unit_test(segments__may_begin_with_the_host),
        cmocka_unit_test(segments__views),
        cmocka_unit_test(segments__outputs_that_view_inputs),
        cmocka_unit_test(segments__the_segment_of_new_contents_has_the_input),
        cmocka_unit_test(segments__old_contents_that_are_needed_later_stay),
        cmocka_unit_test(segments__constants_are_repeated),
        cmocka_unit_test(segments__writes_keep_their_place),
        cmocka_unit_test(segments__random_numbers_stay_in_order),
        cmocka_unit_test(segments__long_chains),
        cmocka_unit_test(segments__report),
        cmocka_unit_test(segments__a_segment_a_node_unless_fused),
        cmocka_unit_test(segments__segments_of_few_tensors),
        cmocka_unit_test(segments__tensors_of_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
