// SPDX-License-Identifier: Apache-2.0
//
// Every tests/golden/graph/<name>.graph is compiled and compared with what lies beside it:
//     <name>.report    which layer took each node
//     <name>.loop      the final loop IR of every card segment
//     <name>.bundle    its bundle: steps, slices, masks, addresses
//     <name>.listing   its program
// Compiling twice gives the same bytes; the listing reads back as the same program. After an
// intended change run the test with SPYRE_BLESS=1, which rewrites the files, and review the diff.
#include "unit/check.h"

#include <stdlib.h>

#include "base/file.h"
#include "compile/executable.h"

#define FOLDER SPYRE_TESTS_DIR "/golden/graph"

enum { MOST_CASES = 64, LIMIT_BYTES = 64 << 20 };

static spyre_executable *compile(arena *memory, const char *name)
{
    char *source;
    size_t length;
    spyre_graph *graph;
    spyre_executable *executable;
    spyre_compile_options options = spyre_compile_options_default();
    const char *path = arena_printf(memory, "%s/%s.graph", FOLDER, name);
    options.settings.sencores = 4;                  // enough to divide work, few enough to read
    assert_ok(file_read(memory, path, LIMIT_BYTES, &source, &length));
    assert_ok(spyre_graph_parse(source, path, &graph));
    assert_ok(spyre_compile(graph, &options, &executable));
    spyre_graph_destroy(graph);
    return executable;
}

static void append_stage(const spyre_executable *e, const char *stage, text *out)
{
    char *content;
    if (strcmp(stage, "report") == 0) {
        assert_ok(spyre_executable_report(e, &content));
        text_append(out, content);
        spyre_string_free(content);
        return;
    }
    for (uint32_t s = 0; s < e->segment_count; s++) {
        if (e->segments[s].info.kind != SPYRE_SEGMENT_CARD) continue;
        if (e->segment_count > 1) text_printf(out, "// segment %u\n", s);
        assert_ok(spyre_executable_text(e, s, stage, &content));
        text_append(out, content);
        spyre_string_free(content);
    }
}

// Fails with the first line that differs.
static void assert_same_text(const char *path, const char *expected, const char *found)
{
    uint32_t line = 1;
    while (*expected && *expected == *found) {
        if (*expected == '\n') line++;
        expected++;
        found++;
    }
    if (*expected == *found) return;
    int wanted = (int)strcspn(expected, "\n"), got = (int)strcspn(found, "\n");
    fail_msg("%s:%u: expected ...%.*s, found ...%.*s (SPYRE_BLESS=1 rewrites)", path, line, wanted,
             expected, got, found);
}

static void compare_stage(arena *memory, const spyre_executable *e, const char *name,
                          const char *stage)
{
    const char *bless = getenv("SPYRE_BLESS");
    const char *path = arena_printf(memory, "%s/%s.%s", FOLDER, name, stage);
    char *expected;
    size_t length;
    text found = {0};
    append_stage(e, stage, &found);
    if (bless && strcmp(bless, "1") == 0)
        assert_ok(file_write(path, text_string(&found), found.length));
    assert_ok(file_read(memory, path, LIMIT_BYTES, &expected, &length));
    assert_same_text(path, expected, text_string(&found));
    text_free(&found);
}

static void encode(const isa_program *program, uint8_t **out_bytes, size_t *out_length)
{
    assert_ok(isa_encode(program->memory, program, out_bytes, out_length));
    assert_true(*out_length > ISA_ARGUMENT_TABLE_OFFSET);
}

static void assert_same_programs(const isa_program *a, const isa_program *b)
{
    uint8_t *bytes_a, *bytes_b;
    size_t length_a, length_b;
    encode(a, &bytes_a, &length_a);
    encode(b, &bytes_b, &length_b);
    assert_int_equal(length_a, length_b);
    assert_memory_equal(bytes_a, bytes_b, length_a);
}

static void check_determinism(arena *memory, const spyre_executable *e, const char *name)
{
    spyre_executable *again = compile(memory, name);
    assert_int_equal(e->segment_count, again->segment_count);
    for (uint32_t s = 0; s < e->segment_count; s++) {
        if (e->segments[s].info.kind != SPYRE_SEGMENT_CARD) continue;
        text listing = {0};
        isa_program *parsed;
        assert_same_programs(e->segments[s].program, again->segments[s].program);
        isa_print(e->segments[s].program, &listing);
        assert_ok(isa_parse(memory, text_string(&listing), name, &parsed));
        assert_same_programs(e->segments[s].program, parsed);
        text_free(&listing);
    }
    spyre_executable_destroy(again);
}

static void golden__case(void **state)
{
    static const char *const stages[] = {"report", "loop", "bundle", "listing"};
    const char *name = *state;
    arena *memory = arena_create();
    spyre_executable *e = compile(memory, name);
    for (uint32_t i = 0; i < sizeof stages / sizeof *stages; i++)
        compare_stage(memory, e, name, stages[i]);
    check_determinism(memory, e, name);
    spyre_executable_destroy(e);
    arena_destroy(memory);
}

int main(void)
{
    static struct CMUnitTest cases[MOST_CASES];
    arena *memory = arena_create();
    file_names names = {0};
    spyre_status status = file_list(memory, FOLDER, ".graph", &names);
    if (status || names.count == 0 || names.count > MOST_CASES) {
        fprintf(stderr, "%s: %u cases\n", FOLDER, names.count);
        return EXIT_FAILURE;
    }
    for (uint32_t i = 0; i < names.count; i++) {
        char *name = arena_strdup(memory, names.items[i]);
        name[strlen(name) - strlen(".graph")] = '\0';
        cases[i] = (struct CMUnitTest){.name = name, .test_func = golden__case,
                                       .initial_state = name};
    }
    int failed = _cmocka_run_group_tests("golden", cases, names.count, NULL, NULL);
    arena_destroy(memory);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
