// SPDX-License-Identifier: Apache-2.0
//
// One request for host memory fails between reading a graph and freeing its results: of those that
// the same calls lead to, the first, second, fourth .. The answer is SPYRE_OUT_OF_MEMORY, or
// success where memory was only to make things faster; nothing leaks (LeakSanitizer of the
// sanitized build) and the next run is right.
#include "unit/check.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/staging.h"
#include "bundle/files.h"
#include "spyre/bundle.h"
#include "spyre/inspect.h"
#include "spyre/program.h"
#include "support/failing_allocations.h"
#include "support/journey.h"
#include "support/rounds.h"
#include "support/scratch.h"

#define BUNDLES SPYRE_TESTS_DIR "/golden/bundle"

enum { MOST_CASES = 192, SOURCE_BYTES = 1 << 20, CORES = 2 };

static spyre_context *context;
static char scratch[SCRATCH_BYTES];             // all of it goes at the end
static const char *code_directory;             // in there

// One thing to do, and what it gives.
typedef spyre_status attempt(const char *input, uint64_t *out_hash);

typedef struct {
    const char *name;
    attempt *run;
    attempt *beginning;                         // where another trial fails requests, or null
    const char *input;                          // the text of a graph, or a directory
} trial;

static uint32_t failures, refusals;            // of all trials

static uint64_t run_whole(const trial *t)
{
    uint64_t hash = 0;
    assert_ok(t->run(t->input, &hash));
    return hash;
}

static long requests_of(const trial *t, attempt *run)
{
    uint64_t hash = 0;
    if (!run) return 0;
    failing_choose();
    assert_ok(run(t->input, &hash));
    return failing_stop();
}

// True when the failure of request n was answered by SPYRE_OUT_OF_MEMORY.
static bool refused_at(const trial *t, long n, uint64_t expected)
{
    uint64_t hash = 0;
    failing_set(n);
    spyre_status status = t->run(t->input, &hash);
    failing_stop();
    spyre_code code = spyre_status_code(status);
    if (code != SPYRE_OK && code != SPYRE_OUT_OF_MEMORY)
        fail_msg("%s: request %ld failed: %s", t->name, n, spyre_status_message(status));
    if (code == SPYRE_OK && hash != expected)
        fail_msg("%s: request %ld failed: wrong results", t->name, n);
    spyre_status_free(status);
    return code != SPYRE_OK;
}

static void fail_each(void **state)
{
    const trial *t = *state;
    uint64_t expected = run_whole(t);           // fills tables that the process keeps
    long begun = requests_of(t, t->beginning), requests = requests_of(t, t->run);
    assert_true(requests > begun);
    uint32_t runs = 0;
    for (long n = begun + 1; n <= requests; n += test_stride()) {
        if (!failing_chosen[n]) continue;
        refusals += refused_at(t, n, expected);
        failures++;
        if (runs++ % 50 == 0 && run_whole(t) != expected)
            fail_msg("%s: wrong results after request %ld failed", t->name, n);
    }
    assert_true(run_whole(t) == expected);
}

// Some memory is for speed only, so its lack is no error; most is needed.
static void most_failures_are_refusals(void **state)
{
    (void)state;
    assert_true(failures > 1000 / test_stride());
    assert_true(refusals > failures / 2);
}

// --- Graphs

static spyre_status graph_on_open_card(const char *source, uint64_t *out_hash)
{
    return journey_run(source, "case.graph", CORES, context, out_hash);
}

static spyre_status graph_on_new_card(const char *source, uint64_t *out_hash)
{
    return journey_run(source, "case.graph", CORES, NULL, out_hash);
}

static spyre_status graph_compiled(const char *source, uint64_t *out_hash)
{
    (void)out_hash;
    spyre_executable *e;
    TRY(journey_compile(source, "case.graph", CORES, &e));
    spyre_executable_destroy(e);
    return NULL;
}

static spyre_status graph_texts(const char *source, uint64_t *out_hash)
{
    spyre_executable *e;
    char *content = NULL;
    TRY(journey_compile(source, "case.graph", CORES, &e));
    static const char *const stages[] = {"loop", "why", "lx", "listing"};
    spyre_status status = spyre_executable_report(e, &content);
    for (uint32_t i = 0; !status && i < 4; i++) {
        spyre_string_free(content);
        content = NULL;
        status = spyre_executable_text(e, 0, stages[i], &content);
        if (!status) *out_hash = XXH3_64bits_withSeed(content, strlen(content), *out_hash);
    }
    if (!status) spyre_string_free(content);
    spyre_executable_destroy(e);
    return status;
}

// --- Artefacts on disk

static spyre_status bundle_to_code(const char *directory, uint64_t *out_hash)
{
    (void)out_hash;
    spyre_bundle_options options = {.output = code_directory};
    return spyre_bundle_compile(directory, &options);
}

static spyre_status inspect(const char *directory, uint64_t *out_hash)
{
    char *content;
    TRY(spyre_inspect(directory, NULL, 0, &content));
    *out_hash = XXH3_64bits(content, strlen(content));
    spyre_string_free(content);
    return NULL;
}

static spyre_status run_code(const char *directory, uint64_t *out_hash)
{
    enum { MOST_BYTES = 1 << 16 };
    static uint8_t bytes[8][MOST_BYTES];
    spyre_program *program;
    spyre_program_buffer buffers[8];
    TRY(spyre_program_open(directory, &program));
    uint32_t count = spyre_program_argument_count(program);
    assert_in_range(count, 1, 8);
    for (uint32_t k = 0; k < count; k++) {
        int64_t size = spyre_program_argument_bytes(program, k);
        memset(bytes[k], 0x3c, MOST_BYTES);
        buffers[k] = (spyre_program_buffer){bytes[k], size ? size : MOST_BYTES};
        assert_in_range(buffers[k].byte_count, 1, MOST_BYTES);
    }
    spyre_status status = spyre_program_run(context, 0, program, buffers);
    for (uint32_t k = 0; !status && k < count; k++)
        *out_hash = XXH3_64bits_withSeed(bytes[k], MOST_BYTES, *out_hash);
    spyre_program_close(program);
    return status;
}

// --- The runtime

static spyre_status stream_work(const char *input, uint64_t *out_hash)
{
    (void)input;
    *out_hash = 1;
    spyre_event *event = NULL;
    uint64_t address = 0;
    TRY(spyre_memory_allocate(context, 0, 0, 4096, &address));
    uint32_t stream = spyre_stream_from_pool(context, 0, false);
    spyre_status status = spyre_copy_raw(context, 0, stream, address, 0, 4096);
    if (!status) status = spyre_event_record(context, 0, stream, &event);
    if (!status) status = spyre_event_wait(context, 0, SPYRE_DEFAULT_STREAM, event);
    if (!status) status = spyre_event_record(context, 0, SPYRE_DEFAULT_STREAM, &event);
    if (event) spyre_status_free(spyre_event_synchronize(event));
    spyre_event_destroy(event);
    if (!status) status = spyre_card_synchronize(context, 0);
    spyre_memory_free(context, 0, address);
    return status;
}

// --- Cases

static struct CMUnitTest cases[MOST_CASES];
static uint32_t case_count;

static void add_behind(arena *memory, const char *what, const char *name, attempt *beginning,
                       attempt *run, const char *input)
{
    trial *t = ARENA_NEW(memory, trial, 1);
    char *label = arena_printf(memory, "%s %s", what, name);
    if (!t || !label || case_count == MOST_CASES) abort();
    *t = (trial){label, run, beginning, input};
    cases[case_count++] =
        (struct CMUnitTest){.name = label, .test_func = fail_each, .initial_state = t};
}

static void add(arena *memory, const char *what, const char *name, attempt *run, const char *input)
{
    add_behind(memory, what, name, NULL, run, input);
}

// Graphs that only serve a stage are not run: they are large, or have symbols as sizes.
static void add_graphs(arena *memory, const char *folder, bool runs)
{
    file_names names = {0};
    assert_ok(file_list(memory, folder, ".graph", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        char *source, *path = file_join(memory, folder, names.items[i]);
        size_t length;
        assert_ok(file_read(memory, path, SOURCE_BYTES, &source, &length));
        add(memory, "inspect", names.items[i], inspect, path);
        if (!runs) continue;
        add(memory, "run", names.items[i], graph_on_open_card, source);
        add_behind(memory, "print", names.items[i], graph_compiled, graph_texts, source);
        if (strcmp(names.items[i], "softmax.graph") == 0)
            add(memory, "open a card and run", names.items[i], graph_on_new_card, source);
    }
}

static void add_bundles(arena *memory)
{
    file_names names = {0};
    assert_ok(file_list(memory, BUNDLES, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        char *path = file_join(memory, BUNDLES, names.items[i]);
        add(memory, "inspect", names.items[i], inspect, path);
        add(memory, "compile", names.items[i], bundle_to_code, path);
    }
}

int main(void)
{
    // One thread: the same n is the same request in every run.
    if (setenv("SPYRE_THREADS", "1", 1) != 0 || setenv("SPYRE_LOG", "off", 1) != 0 ||
        !scratch_make(scratch))
        return EXIT_FAILURE;
    arena *memory = arena_create();
    code_directory = file_join(memory, scratch, "code");
    assert_ok(spyre_context_create(1, &context));
    add_graphs(memory, SPYRE_TESTS_DIR "/golden/graph", true);
    add_graphs(memory, SPYRE_TESTS_DIR "/golden/prepare", false);
    add_bundles(memory);
    // What compiling the bundles above has left last.
    add(memory, "inspect", "SpyreCode", inspect, code_directory);
    add(memory, "run", "SpyreCode", run_code, code_directory);
    add(memory, "runtime", "streams", stream_work, NULL);
    cases[case_count++] = (struct CMUnitTest){"all", most_failures_are_refusals, NULL, NULL, NULL};
    int failed = _cmocka_run_group_tests("out_of_memory", cases, case_count, NULL, NULL);
    spyre_context_destroy(context);
    staging_abort(&(staging){.path = scratch});
    arena_destroy(memory);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
