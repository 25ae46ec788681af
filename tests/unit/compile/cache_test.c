// SPDX-License-Identifier: Apache-2.0
//
// What the compile cache answers.
#include "unit/compile/cache_case.h"

#define GRAPHS SPYRE_TESTS_DIR "/golden/graph"

static void cache__equal_graphs_share_an_executable(void **state)
{
    (void)state;
    int64_t compilations = counter(STATISTIC_COMPILATIONS), hits = counter(STATISTIC_MEMORY_HITS);
    spyre_executable *first = compile_number(0), *second = compile_number(0);
    spyre_executable *other = compile_number(1);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, other);
    assert_counts(STATISTIC_COMPILATIONS, compilations, 2);
    assert_counts(STATISTIC_MEMORY_HITS, hits, 1);
    spyre_executable_destroy(first);
    assert_is_number(second, 0);                // still held
    spyre_executable_destroy(second);
    spyre_executable_destroy(other);
}

static void cache__a_file_replaces_the_compiler(void **state)
{
    (void)state;
    use_number(0);
    int64_t compilations = counter(STATISTIC_COMPILATIONS), hits = counter(STATISTIC_DISK_HITS);
    use_number(0);
    assert_counts(STATISTIC_COMPILATIONS, compilations, 0);
    assert_counts(STATISTIC_DISK_HITS, hits, 1);
}

static void cache__every_option_has_its_own(void **state)
{
    (void)state;
    spyre_compile_options options[5];
    spyre_executable *made[5];
    for (int i = 0; i < 5; i++) options[i] = cached_options();
    options[1].settings.sencores = 8;
    options[2].settings.skip_passes = "dedup_constants";
    options[3].settings.validate_graph_invariants = false;
    options[4].host_fallback = false;
    spyre_graph *graph = make_graph(0);
    for (int i = 0; i < 5; i++) {
        assert_ok(spyre_compile(graph, &options[i], &made[i]));
        for (int j = 0; j < i; j++) assert_ptr_not_equal(made[i], made[j]);
    }
    spyre_graph_destroy(graph);
    for (int i = 0; i < 5; i++) spyre_executable_destroy(made[i]);
    spyre_cache_listing *listing;
    assert_ok(spyre_cache_list(true, &listing));
    assert_int_equal(listing->file_count, 5);
    spyre_cache_listing_free(listing);
}

static void cache__off_compiles_each_time(void **state)
{
    (void)state;
    setenv("SPYRE_CACHE", "0", 1);
    spyre_executable *first = compile_number(0), *second = compile_number(0);
    assert_ptr_not_equal(first, second);
    spyre_executable_destroy(first);
    spyre_executable_destroy(second);
    unsetenv("SPYRE_CACHE");
    spyre_cache_listing *listing;
    assert_ok(spyre_cache_list(false, &listing));
    assert_int_equal(listing->file_count, 0);
    spyre_cache_listing_free(listing);
}

static void cache__errors_are_not_kept(void **state)
{
    (void)state;
    spyre_compile_options options = cached_options();
    options.settings.skip_passes = "no_such_pass";
    spyre_graph *graph = make_graph(0);
    spyre_executable *e;
    for (int i = 0; i < 2; i++)
        assert_error(spyre_compile(graph, &options, &e), SPYRE_INVALID_ARGUMENT, "no_such_pass");
    spyre_graph_destroy(graph);
    spyre_cache_listing *listing;
    assert_ok(spyre_cache_list(false, &listing));
    assert_int_equal(listing->file_count, 0);
    spyre_cache_listing_free(listing);
}

// --- What is read is what was compiled

static void assert_same_segment(const executable_segment *a, const executable_segment *b)
{
    assert_int_equal(a->info.kind, b->info.kind);
    assert_int_equal(a->info.node_count, b->info.node_count);
    assert_memory_equal(a->info.nodes, b->info.nodes, a->info.node_count * sizeof(uint32_t));
    assert_int_equal(a->info.input_count, b->info.input_count);
    assert_memory_equal(a->info.inputs, b->info.inputs, a->info.input_count * sizeof(uint32_t));
    assert_int_equal(a->info.output_count, b->info.output_count);
    for (uint32_t i = 0; i < a->info.output_count; i++) {
        const spyre_segment_output *x = &a->info.outputs[i], *y = &b->info.outputs[i];
        assert_int_equal(x->value, y->value);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(x->buffer, y->buffer);
        assert_int_equal(x->input, y->input);
        assert_true(x->layout.rank == 0 || spyre_layout_equal(&x->layout, &y->layout));
    }
    if (a->info.kind == SPYRE_SEGMENT_HOST) return;
    for (uint32_t i = 0; i < a->info.input_count; i++)
        assert_true(spyre_layout_equal(&a->info.input_layouts[i], &b->info.input_layouts[i]));
    assert_int_equal(a->argument_count, b->argument_count);
    for (uint32_t k = 0; k < a->argument_count; k++) {
        assert_int_equal(a->arguments[k].kind, b->arguments[k].kind);
        assert_int_equal(a->arguments[k].index, b->arguments[k].index);
        assert_int_equal(a->arguments[k].bytes, b->arguments[k].bytes);
        if (a->arguments[k].kind == JOB_CONSTANTS)
            assert_memory_equal(a->arguments[k].data, b->arguments[k].data,
                                (size_t)a->arguments[k].bytes);
    }
    assert_true(a->info.card_us == b->info.card_us && a->info.mac_count == b->info.mac_count);
    text x = {0}, y = {0};
    isa_print(a->program, &x);
    isa_print(b->program, &y);
    assert_string_equal(text_string(&x), text_string(&y));
    text_free(&x);
    text_free(&y);
}

static void assert_same_texts(const spyre_executable *a, const spyre_executable *b)
{
    char *x, *y;
    assert_ok(spyre_executable_report(a, &x));
    assert_ok(spyre_executable_report(b, &y));
    assert_string_equal(x, y);
    spyre_string_free(x);
    spyre_string_free(y);
    for (uint32_t s = 0; s < a->segment_count; s++) {
        if (a->segments[s].info.kind != SPYRE_SEGMENT_CARD) continue;
        assert_ok(spyre_executable_text(a, s, "loop", &x));
        assert_ok(spyre_executable_text(b, s, "loop", &y));
        assert_string_equal(x, y);
        spyre_string_free(x);
        spyre_string_free(y);
    }
}

static void cache__read_equals_compiled(void **state)
{
    (void)state;
    file_names names;
    arena *memory = arena_create();
    assert_ok(file_list(memory, GRAPHS, ".graph", &names));
    assert_true(names.count > 5);
    for (uint32_t i = 0; i < names.count; i++) {
        char *source;
        size_t length;
        spyre_graph *graph;
        spyre_executable *compiled, *read;
        spyre_compile_options options = cached_options(), fresh = options;
        fresh.cache = false;
        const char *path = file_join(memory, GRAPHS, names.items[i]);
        assert_ok(file_read(memory, path, LIMIT_BYTES, &source, &length));
        assert_ok(spyre_graph_parse(source, path, &graph));
        assert_ok(spyre_compile(graph, &fresh, &compiled));
        assert_ok(spyre_compile(graph, &options, &read));
        spyre_executable_destroy(read);                         // is in a file now
        int64_t hits = counter(STATISTIC_DISK_HITS);
        assert_ok(spyre_compile(graph, &options, &read));
        assert_counts(STATISTIC_DISK_HITS, hits, 1);
        spyre_graph_destroy(graph);
        assert_int_equal(compiled->segment_count, read->segment_count);
        for (uint32_t s = 0; s < compiled->segment_count; s++)
            assert_same_segment(&compiled->segments[s], &read->segments[s]);
        assert_same_texts(compiled, read);
        spyre_executable_destroy(compiled);
        spyre_executable_destroy(read);
    }
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(cache__equal_graphs_share_an_executable),
        CASE(cache__a_file_replaces_the_compiler),
        CASE(cache__every_option_has_its_own),
        CASE(cache__off_compiles_each_time),
        CASE(cache__errors_are_not_kept),
        CASE(cache__read_equals_compiled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
