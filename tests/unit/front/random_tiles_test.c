// SPDX-License-Identifier: Apache-2.0
//
// Random graphs over named dims with random scopes of tiles around their nodes. Numbers are small
// whole ones, so that every sum is exact and any order of tiles gives the same result: what the
// interpreter and both modes of the card compute, with loops and unrolled, is what plain loops over
// the elements give. What cannot be tiled is refused as such.
#include "unit/check.h"

#include "support/random_hints.h"
#include "support/random_outputs.h"
#include "support/rounds.h"

#include "isa/isa.h"

enum { STEPS = 9, NAMES = 4, MOST_VALUES = 24, MOST_RANK = 3 };
enum { MOST_ELEMENTS = 1 << 15 };
static const double MOST = 512; // whole numbers up to it are exact in 16 bits

typedef struct {
    uint32_t id, rank, dim[MOST_RANK]; // names of dims, outermost first
    spyre_view view;
    double *element, bound;
    bool computed;
} value;

typedef struct {
    random_graph *g; // randomness and memory
    front_run *run;
    int64_t size[NAMES];
    value values[MOST_VALUES];
    uint32_t count;
    int64_t scope[3]; // open scopes: number, name, count
    uint32_t scope_dim[3];
    int64_t tiles[3];
    uint32_t depth;
    int64_t scopes;
    bool unhinted;
} maker;

static uint32_t pick(maker *m, uint32_t limit)
{
    return random_below(m->g, limit);
}

static int64_t elements_of(const maker *m, uint32_t rank, const uint32_t *dim)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) count *= m->size[dim[d]];
    return count;
}

static spyre_view view_of(const maker *m, uint32_t rank, const uint32_t *dim)
{
    int64_t size[MOST_RANK];
    for (uint32_t d = 0; d < rank; d++) size[d] = m->size[dim[d]];
    return dense_view(rank, size);
}

static value *add_value(maker *m, uint32_t rank, const uint32_t *dim)
{
    value *v = &m->values[m->count++];
    *v = (value){.rank = rank, .view = view_of(m, rank, dim)};
    for (uint32_t d = 0; d < rank; d++) v->dim[d] = dim[d];
    v->element = random_own(m->g, (size_t)elements_of(m, rank, dim) * sizeof *v->element);
    return v;
}

static void add_input(maker *m)
{
    uint32_t dim[NAMES] = {0, 1, 2, 3}, rank = 1 + pick(m, MOST_RANK);
    for (uint32_t d = NAMES; d-- > 1;) {
        uint32_t e = pick(m, d + 1), swap = dim[d];
        dim[d] = dim[e];
        dim[e] = swap;
    }
    while (elements_of(m, rank, dim) > MOST_ELEMENTS) rank--;
    value *v = add_value(m, rank, dim);
    int64_t count = elements_of(m, rank, dim);
    uint16_t *host = random_own(m->g, (size_t)count * sizeof *host);
    for (int64_t i = 0; i < count; i++) {
        v->element[i] = (double)pick(m, 3) - 1;
        host[i] = fp16_from_float((float)v->element[i]);
    }
    v->bound = 1;
    v->id = front_run_input(m->run, SPYRE_DTYPE_F16, rank, v->view.size, host);
    char names[16] = "";
    for (uint32_t d = 0; d < rank; d++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%c", d ? "," : "",
                 'A' + (int)dim[d]);
    assert_ok(spyre_graph_name_dims(m->run->graph, v->id, names));
}

// --- Scopes

static void move_scopes(maker *m)
{
    static const int64_t counts[] = {2, 2, 4, 4, 8, 3};
    if (m->unhinted) return;
    while (m->depth && pick(m, 4) == 0) m->depth--;
    while (m->depth < 3 && pick(m, 3) == 0) {
        m->scope[m->depth] = ++m->scopes;
        m->scope_dim[m->depth] = pick(m, NAMES);
        m->tiles[m->depth++] = counts[pick(m, pick(m, 8) ? 4 : 6)];
    }
}

static void hint(maker *m)
{
    char words[64] = "";
    if (!m->depth) return;
    for (uint32_t s = 0; s < m->depth; s++)
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%lld:%c=%lld",
                 s ? "," : "", (long long)m->scope[s], 'A' + (int)m->scope_dim[s],
                 (long long)m->tiles[s]);
    uint32_t node = m->run->graph->nodes.count - 1;
    assert_ok(spyre_graph_set_tiles(m->run->graph, node, words));
}

static uint32_t add_node(maker *m, const char *op, const spyre_arg *args, uint32_t count,
                         spyre_view view)
{
    uint32_t id = front_run_node(m->run, op, args, count, SPYRE_DTYPE_F16, view);
    hint(m);
    return id;
}

// --- Ops

static spyre_arg tensor(uint32_t id)
{
    return (spyre_arg){.kind = SPYRE_ARG_VALUE, .of.value = id};
}

static void add_unary(maker *m, const value *x)
{
    static const char *const ops[] = {"spyre.neg", "spyre.abs", "spyre.relufwd"};
    uint32_t which = pick(m, 3);
    value *v = add_value(m, x->rank, x->dim);
    spyre_arg args[] = {tensor(x->id)};
    v->id = add_node(m, ops[which], args, 1, v->view);
    v->bound = x->bound;
    v->computed = true;
    for (int64_t i = 0; i < view_elements(&v->view); i++) {
        double e = x->element[i];
        v->element[i] = which == 0 ? -e : which == 1 ? fabs(e) : e > 0 ? e : 0;
    }
}

static int64_t position_of(const value *v, uint32_t dim)
{
    for (uint32_t d = 0; d < v->rank; d++)
        if (v->dim[d] == dim) return d;
    return -1;
}

// The element of x at an index over the dims of `of`.
static double at(const value *x, const value *of, const int64_t *index)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < of->rank; d++) {
        int64_t p = position_of(x, of->dim[d]);
        if (p >= 0) offset += index[d] * x->view.stride[p];
    }
    return x->element[offset];
}

static bool next(const value *of, int64_t *index)
{
    for (uint32_t d = of->rank; d-- > 0;) {
        if (++index[d] < of->view.size[d]) return true;
        index[d] = 0;
    }
    return false;
}

// x with a y whose dims are some of x's, in any order.
static bool add_binary(maker *m, const value *x, const value *y)
{
    static const char *const ops[] = {"spyre.add", "spyre.sub", "spyre.maximum", "spyre.mul"};
    uint32_t which = pick(m, 4);
    spyre_view view = {.rank = x->rank};
    double bound = which == 3 ? x->bound * y->bound : x->bound + y->bound;
    for (uint32_t d = 0; d < y->rank; d++)
        if (position_of(x, y->dim[d]) < 0) return false;
    if (bound > MOST) return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t p = position_of(y, x->dim[d]);
        view.size[d] = x->view.size[d];
        view.stride[d] = p < 0 ? 0 : y->view.stride[p];
    }
    uint32_t turned = front_run_view(m->run, y->id, SPYRE_DTYPE_F16, view);
    value *v = add_value(m, x->rank, x->dim);
    spyre_arg args[] = {tensor(x->id), tensor(turned)};
    v->id = add_node(m, ops[which], args, 2, v->view);
    v->bound = bound;
    v->computed = true;
    int64_t index[MOST_RANK] = {0}, i = 0;
    do {
        double a = x->element[i], b = at(y, x, index);
        v->element[i++] = which == 0   ? a + b
                          : which == 1 ? a - b
                          : which == 2 ? fmax(a, b)
                                       : a * b;
    } while (next(x, index));
    return true;
}

static bool add_reduction(maker *m, const value *x)
{
    static const char *const ops[] = {"spyre.sum", "spyre.max", "spyre.min"};
    uint32_t which = pick(m, 3), gone = pick(m, x->rank), dim[MOST_RANK], rank = 0;
    double bound = which ? x->bound : x->bound * (double)x->view.size[gone];
    if (x->rank < 2 || bound > MOST) return false;
    for (uint32_t d = 0; d < x->rank; d++)
        if (d != gone) dim[rank++] = x->dim[d];
    value *v = add_value(m, rank, dim);
    spyre_arg which_dim = {.kind = SPYRE_ARG_INT, .of.integer = gone};
    spyre_arg args[] = {tensor(x->id),
                        {.kind = SPYRE_ARG_LIST, .of.list = {&which_dim, 1}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = false}};
    v->id = add_node(m, ops[which], args, 3, v->view);
    v->bound = bound;
    v->computed = true;
    double start = which == 0 ? 0 : which == 1 ? -HUGE_VAL : HUGE_VAL;
    for (int64_t i = 0; i < view_elements(&v->view); i++) v->element[i] = start;
    int64_t index[MOST_RANK] = {0}, i = 0;
    do {
        int64_t to = 0;
        for (uint32_t d = 0, k = 0; d < x->rank; d++)
            if (d != gone) to += index[d] * v->view.stride[k++];
        double *sum = &v->element[to], e = x->element[i++];
        *sum = which == 0 ? *sum + e : which == 1 ? fmax(*sum, e) : fmin(*sum, e);
    } while (next(x, index));
    return true;
}

// [P, Q] by [Q, R], in which the second may be turned.
static bool add_product(maker *m, const value *x, const value *y)
{
    if (x->rank != 2 || y->rank != 2) return false;
    uint32_t inner = x->dim[1];
    int64_t p = position_of(y, inner);
    if (p < 0 || x->bound * y->bound * (double)x->view.size[1] > MOST) return false;
    uint32_t dim[] = {x->dim[0], y->dim[1 - p]};
    if (dim[0] == dim[1] || elements_of(m, 2, dim) > MOST_ELEMENTS) return false;
    spyre_view right = {.rank = 2,
                        .size = {y->view.size[p], y->view.size[1 - p]},
                        .stride = {y->view.stride[p], y->view.stride[1 - p]}};
    uint32_t turned = front_run_view(m->run, y->id, SPYRE_DTYPE_F16, right);
    value *v = add_value(m, 2, dim);
    spyre_arg args[] = {tensor(x->id), tensor(turned)};
    v->id = add_node(m, "spyre.batchmatmul", args, 2, v->view);
    v->bound = x->bound * y->bound * (double)x->view.size[1];
    v->computed = true;
    for (int64_t r = 0; r < v->view.size[0]; r++)
        for (int64_t c = 0; c < v->view.size[1]; c++)
            for (int64_t k = 0; k < right.size[0]; k++)
                v->element[r * v->view.size[1] + c] +=
                    x->element[r * right.size[0] + k] *
                    y->element[k * right.stride[0] + c * right.stride[1]];
    return true;
}

static void add_step(maker *m)
{
    move_scopes(m);
    for (uint32_t turn = 0; turn < 20; turn++) {
        const value *x = &m->values[pick(m, m->count)], *y = &m->values[pick(m, m->count)];
        if (turn < 8) x = &m->values[m->count - 1 - pick(m, m->count < 3 ? m->count : 3)];
        uint32_t kind = pick(m, 10);
        if (kind < 2) {
            add_unary(m, x);
            return;
        }
        if (kind < 5 ? add_binary(m, x, y) : kind < 7 ? add_reduction(m, x) : add_product(m, x, y))
            return;
    }
}

// --- Runs

typedef struct {
    uint32_t tiled, refused, in_lx;
} tally;

static const struct {
    front_engine engine;
    bool unroll;
} runs[] = {{FRONT_RUN_INTERPRETER, false}, {FRONT_RUN_INTERPRETER, true},
            {FRONT_RUN_CARD_EXACT, false},  {FRONT_RUN_CARD_EXACT, true},
            {FRONT_RUN_CARD_FAST, false},   {FRONT_RUN_CARD_FAST, true}};

static void check_result(const value *v, const uint16_t *got, uint64_t seed, uint32_t run)
{
    for (int64_t i = 0; i < view_elements(&v->view); i++) {
        double is = (double)fp16_to_float(got[i]);
        if (is != v->element[i])
            fail_msg("graph %llu, run %u: element %lld is %g, expected %g",
                     (unsigned long long)seed, run, (long long)i, is, v->element[i]);
    }
}

static bool is_refusal(spyre_status status)
{
    const char *message = spyre_status_message(status);
    bool ours = (strstr(message, "tiles ") || strstr(message, "of tiles")) &&
                spyre_status_code(status) == SPYRE_UNSUPPORTED;
    if (!ours) print_error("%s\n", message);
    spyre_status_free(status);
    return ours;
}

// What asks for tiles: `span`, a limit of the bytes that a core reaches over, or `lx`, of LX that
// buffers may have; both 0: scopes.
typedef struct {
    uint32_t span, lx;
} limits;

static void run_graph(uint64_t seed, limits of, tally *t)
{
    const uint32_t span = of.span;
    static const int64_t sizes[] = {4, 8, 12, 64, 128};
    static const uint32_t cores[] = {1, 4, 32};
    maker *m = calloc(1, sizeof *m);
    m->g = random_graph_begin(seed);
    m->run = &m->g->run;
    m->unhinted = of.span || of.lx;
    if (of.lx) m->run->settings.dxp_lx_frac_avail = 1 - of.lx / (double)ISA_LX_BYTES;
    if (span) m->run->settings.max_span_bytes = span;
    m->run->settings.chunk_large_tensors = span && seed % 2;
    m->run->settings.uneven_splits = seed % 3 == 0;
    for (uint32_t n = 0; n < NAMES; n++) m->size[n] = sizes[n < 2 ? pick(m, 5) : 2 + pick(m, 3)];
    uint32_t inputs = 2 + pick(m, 3), outputs = 0;
    for (uint32_t i = 0; i < inputs; i++) add_input(m);
    for (uint32_t i = 0; i < STEPS; i++) add_step(m);
    const value *output[MOST_VALUES];
    void *got[MOST_VALUES];
    for (uint32_t i = m->count; i-- > 0;) {
        const value *v = &m->values[i];
        if (!v->computed || (outputs && pick(m, 4))) continue;
        assert_ok(spyre_graph_add_output(m->run->graph, v->id));
        got[outputs] = random_own(m->g, (size_t)view_elements(&v->view) * sizeof(uint16_t));
        output[outputs++] = v;
    }
    uint32_t core_count = cores[pick(m, 3)];
    for (uint32_t r = 0; r < sizeof runs / sizeof runs[0] && outputs; r++) {
        m->run->settings.unroll_loops = runs[r].unroll;
        spyre_status status =
            front_run_execute(m->run, core_count, runs[r].engine, got, NULL);
        if (status) {
            if (!is_refusal(status)) fail_msg("graph %llu", (unsigned long long)seed);
            t->refused++;
            break;
        }
        for (uint32_t o = 0; o < outputs; o++) check_result(output[o], got[o], seed, r);
        if (r) continue;
        t->tiled += m->unhinted ? m->run->tiled > 0 : m->scopes > 0;
        t->in_lx += m->run->in_lx;
    }
    random_graph_end(m->g);
    free(m);
}

static void random_tiles__any_tiles_give_the_same_numbers(void **state)
{
    (void)state;
    tally t = {0};
    uint32_t graphs = test_rounds(60);
    for (uint64_t seed = 0; seed < graphs; seed++) run_graph(seed, (limits){0, 0}, &t);
    print_message("%u tiled, %u refused, %u buffers in LX\n", t.tiled, t.refused, t.in_lx);
    assert_true(t.tiled > graphs / 3);
    assert_true(t.in_lx > graphs / 2);
}

// One graph per round, each with one of four limits in turn.
static tally run_limited(const limits *of, uint32_t graphs)
{
    tally t = {0};
    for (uint64_t seed = 0; seed < graphs; seed++) run_graph(seed, of[seed % 4], &t);
    print_message("%u tiled, %u refused, %u buffers in LX\n", t.tiled, t.refused, t.in_lx);
    return t;
}

static void random_tiles__short_spans(void **state)
{
    (void)state;
    static const limits spans[] = {{.span = 512}, {.span = 2048}, {.span = 8192}, {.span = 32768}};
    const uint32_t graphs = test_rounds(60);
    assert_true(run_limited(spans, graphs).tiled > graphs / 4);
}

// The compiler's own tiles never refuse a graph.
static void random_tiles__little_lx(void **state)
{
    (void)state;
    static const limits bytes[] = {{.lx = 128}, {.lx = 512}, {.lx = 2048}, {.lx = 8192}};
    const uint32_t graphs = test_rounds(60);
    const tally t = run_limited(bytes, graphs);
    assert_true(t.tiled > graphs / 8);
    assert_int_equal(t.refused, 0);
}

// --- Any views

static void run_views(uint64_t seed, tally *t)
{
    random_graph *g = random_graph_begin(seed);
    spyre_view sizes = random_sizes(g);
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, sizes);
    uint32_t steps = 2 + random_below(g, 6);
    for (uint32_t i = 0; i < steps; i++) random_step(g);
    random_outputs out = {.count = 0};
    random_outputs_choose(g, &out);
    random_hints(g, &sizes);
    g->run.settings.uneven_splits = seed % 2;
    spyre_status status = NULL;
    uint32_t run = 0;
    for (; !status && out.count && run < RANDOM_MOST_RUNS; run++) {
        random_outputs_room(g, &out, run);
        g->run.settings.unroll_loops = runs[run].unroll;
        status = front_run_execute(&g->run, 32, runs[run].engine, out.got[run], NULL);
    }
    char problem[128];
    if (status) {
        t->refused++;
        if (spyre_status_code(status) != SPYRE_UNSUPPORTED)
            fail_msg("views %llu: %s", (unsigned long long)seed, spyre_status_message(status));
        spyre_status_free(status);
    } else {
        t->tiled++;
        t->in_lx += g->run.in_lx;
        if (random_outputs_differ(&out, out.count ? run : 0, problem))
            fail_msg("views %llu: %s", (unsigned long long)seed, problem);
    }
    random_graph_end(g);
}

static void random_tiles__any_views(void **state)
{
    (void)state;
    tally t = {0};
    uint32_t graphs = test_rounds(60);
    for (uint64_t seed = 0; seed < graphs; seed++) run_views(seed, &t);
    print_message("%u run, %u refused, %u buffers in LX\n", t.tiled, t.refused, t.in_lx);
    assert_true(t.tiled > graphs / 3);
}

int main(void)
{
    setenv("SPYRE_LOG", "off", 1); // scopes without an effect, spans that nothing shortens
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tiles__any_tiles_give_the_same_numbers),
        cmocka_unit_test(random_tiles__short_spans),
        cmocka_unit_test(random_tiles__little_lx),
        cmocka_unit_test(random_tiles__any_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
