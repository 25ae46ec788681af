// SPDX-License-Identifier: Apache-2.0
//
// The compile cache's files: damage, room, and what else lies in the directory.
#include "unit/compile/cache_case.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/bytes.h"
#include "compile/cache/cache_disk.h"
#include "support/rounds.h"

// --- Damage

// The damaged file is no error: it is counted, removed, and made again as it was.
static void assert_rejected(arena *memory, const char *path, const char *good, size_t length)
{
    int64_t rejected = counter(STATISTIC_REJECTED), misses = counter(STATISTIC_MISSES);
    size_t again;
    use_number(0);
    assert_counts(STATISTIC_REJECTED, rejected, 1);
    assert_counts(STATISTIC_MISSES, misses, 1);
    const char *made = read_bytes(memory, path, &again);
    assert_int_equal(again, length);
    assert_memory_equal(made, good, length);
}

static void cache__any_damaged_byte_is_a_miss(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    size_t length;
    arena *memory = arena_create();
    use_number(0);
    only_file(path);
    const char *good = read_bytes(memory, path, &length);
    char *bad = arena_alloc(memory, length + 1);
    for (size_t at = 0; at < length; at += test_stride()) {
        arena *scratch = arena_create();
        memcpy(bad, good, length);
        bad[at] = (char)(bad[at] ^ (1 << at % 8));
        write_bytes(path, bad, length);
        assert_rejected(scratch, path, good, length);
        arena_destroy(scratch);
    }
    arena_destroy(memory);
}

static void cache__any_other_length_is_a_miss(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    size_t length;
    arena *memory = arena_create();
    use_number(0);
    only_file(path);
    const char *good = read_bytes(memory, path, &length);
    char *longer = arena_alloc(memory, length + 1);
    memcpy(longer, good, length);
    const size_t step = 37 * test_stride(); // but at both ends
    for (size_t cut = 0; cut <= length + 1; cut += cut < 100 || cut + 40 > length ? 1 : step) {
        if (cut == length) continue;
        arena *scratch = arena_create();
        write_bytes(path, longer, cut);
        assert_rejected(scratch, path, good, length);
        arena_destroy(scratch);
    }
    arena_destroy(memory);
}

// Changes eight bytes of a good file's header and makes the checksum right again.
static const char *problem_with(char *file, size_t length, size_t at, uint64_t value,
                                const content_key *key)
{
    memcpy(file + at, &value, sizeof value);
    XXH128_hash_t hash = XXH3_128bits(file + 16, length - 16);
    memcpy(file, &hash.low64, 8);
    memcpy(file + 8, &hash.high64, 8);
    return sealed_file_refusal(file, length, key);
}

static void cache__foreign_files_are_named(void **state)
{
    (void)state;
    enum { AT_VERSION = 24, AT_LENGTH = 32, AT_BUILD = 40, AT_KEY = 48 };
    char path[PATH_BYTES];
    size_t length;
    content_key key;
    arena *memory = arena_create();
    use_number(0);
    only_file(path);
    const char *good = read_bytes(memory, path, &length);
    char *file = arena_alloc(memory, length);
    memcpy(&key, good + AT_KEY, sizeof key);
    assert_null(sealed_file_refusal(good, length, &key));
    const struct { size_t at; const char *problem; } cases[] = {
        {AT_VERSION, "another version"}, {AT_LENGTH, "not the one it states"},
        {AT_BUILD, "another build"}, {AT_KEY, "another key"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(file, good, length);
        const char *problem = problem_with(file, length, cases[i].at, 77, &key);
        assert_non_null(problem);
        assert_non_null(strstr(problem, cases[i].problem));
        write_bytes(path, file, length);
        assert_rejected(memory, path, good, length);
    }
    arena_destroy(memory);
}

// --- Refusals

static spyre_graph *refused_graph(void)
{
    spyre_graph *graph;
    assert_ok(spyre_graph_parse("input %x: f16[4, 64]\n"
                                "%a = aten.special_airy_ai.default(%x) -> f16[4, 64] "
                                "@ \"m.py:1\"\n"
                                "return %a\n", "graph", &graph));
    return graph;
}

// Compiles what the card cannot do, and nobody else may: `known` from a file.
static void assert_refused(bool known)
{
    int64_t compilations = counter(STATISTIC_COMPILATIONS), refusals = counter(STATISTIC_REFUSALS);
    spyre_compile_options options = cached_options();
    spyre_graph *graph = refused_graph();
    spyre_executable *e;
    options.host_fallback = false;
    assert_error(spyre_compile(graph, &options, &e), SPYRE_UNSUPPORTED, "m.py:1");
    spyre_graph_destroy(graph);
    assert_counts(STATISTIC_COMPILATIONS, compilations, known ? 0 : 1);
    assert_counts(STATISTIC_REFUSALS, refusals, known ? 1 : 0);
}

static void cache__a_refusal_is_kept(void **state)
{
    (void)state;
    assert_refused(false);
    assert_refused(true);
    spyre_compile_options options = cached_options();   // the host may take it
    spyre_graph *graph = refused_graph();
    spyre_executable *e;
    assert_ok(spyre_compile(graph, &options, &e));
    spyre_executable_destroy(e);
    spyre_graph_destroy(graph);
    assert_refused(true);
}

static void cache__a_damaged_refusal_is_a_miss(void **state)
{
    (void)state;
    enum { AT_VERSION = 24, AT_BUILD = 40, AT_KIND = SEALED_HEADER_BYTES,
           AT_LENGTH = AT_KIND + BYTES_ALIGNMENT, AT_SUBJECT = AT_LENGTH + BYTES_ALIGNMENT };
    char path[PATH_BYTES];
    size_t length, again;
    arena *memory = arena_create();
    assert_refused(false);
    only_file(path);
    const char *good = read_bytes(memory, path, &length);
    char *bad = arena_alloc(memory, length);
    for (size_t at = 0; at < length; at += test_stride()) {
        memcpy(bad, good, length);
        bad[at] = (char)(bad[at] ^ (1 << at % 8));
        write_bytes(path, bad, length);
        assert_refused(false);
    }
    // Well sealed, but of another version or build, an executable, or of another subject.
    const size_t places[] = {AT_VERSION, AT_BUILD, AT_KIND, AT_LENGTH, AT_SUBJECT};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memcpy(bad, good, length);
        problem_with(bad, length, places[i], 77, NULL);
        write_bytes(path, bad, length);
        assert_refused(false);
    }
    assert_memory_equal(read_bytes(memory, path, &again), good, length);
    assert_refused(true);
    arena_destroy(memory);
}

// --- Contents

// A good checksum over content that is none: only the same build could have written it.
static void cache__a_content_that_is_none_is_a_miss(void **state)
{
    (void)state;
    enum { HEADER = 64, AT_LENGTH = 32 };
    char path[PATH_BYTES];
    size_t length;
    arena *memory = arena_create();
    use_number(0);
    only_file(path);
    const char *good = read_bytes(memory, path, &length);
    char *file = arena_alloc(memory, length);
    uint64_t random = 1;
    for (size_t content = 0; content < length - HEADER; content += 48 * test_stride()) {
        memcpy(file, good, length);
        assert_null(problem_with(file, HEADER + content, AT_LENGTH, content, NULL));
        write_bytes(path, file, HEADER + content);
        assert_rejected(memory, path, good, length);
    }
    for (int i = 0; i < (int)test_rounds(200); i++) {
        memcpy(file, good, length);
        size_t at = HEADER + check_random(&random) % (length - HEADER - 8);
        memset(file + at, 0xFF, 8);
        assert_null(problem_with(file, length, AT_LENGTH, length - HEADER, NULL));
        write_bytes(path, file, length);
        spyre_executable *e = compile_number(0);    // a miss, or read with what is not checked
        spyre_executable_destroy(e);
        write_bytes(path, good, length);
    }
    arena_destroy(memory);
}

// --- Room

static void set_use(const char *path, time_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void cache__stays_below_its_size(void **state)
{
    (void)state;
    enum { SIZE = 32 << 10, GRAPHS_MADE = 60 };
    int64_t evictions = counter(STATISTIC_EVICTIONS);
    setenv("SPYRE_CACHE_SIZE", "32K", 1);
    for (int n = 0; n < GRAPHS_MADE; n++) {
        use_number(n);
        spyre_cache_listing *listing;
        assert_ok(spyre_cache_list(false, &listing));
        assert_true(listing->total_bytes <= SIZE);
        assert_true(listing->file_count >= 1);
        assert_int_equal(listing->limit_bytes, SIZE);
        spyre_cache_listing_free(listing);
    }
    assert_true(counter(STATISTIC_EVICTIONS) > evictions);
    int64_t hits = counter(STATISTIC_DISK_HITS);
    use_number(GRAPHS_MADE - 1);                // the last is there, the first is not
    use_number(0);
    assert_counts(STATISTIC_DISK_HITS, hits, 1);
}

static void cache__the_least_recently_used_goes(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    use_number(0);
    only_file(path);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    set_use(path, 1000);
    use_number(0);                              // a hit: used now
    struct stat used;
    assert_int_equal(stat(path, &used), 0);
    assert_true(used.st_mtim.tv_sec > 1000);
    set_use(path, 2000);
    char size[32];
    for (int n = 1; n < 4; n++) use_number(n);
    snprintf(size, sizeof size, "%lld", (long long)about.st_size * 9 / 2);
    setenv("SPYRE_CACHE_SIZE", size, 1);        // room for four: one more and number 0 goes
    use_number(4);
    assert_false(file_exists(path));
    int64_t hits = counter(STATISTIC_DISK_HITS);
    use_number(3);
    assert_counts(STATISTIC_DISK_HITS, hits, 1);
}

static void cache__many_files_go_when_they_are_too_large(void **state)
{
    (void)state;
    enum { FILES = 4400, BYTES = 100 };
    static const char bytes[BYTES];
    char path[PATH_BYTES];
    for (int n = 0; n < FILES; n++) {
        snprintf(path, PATH_BYTES, "%s/%x%031x.spyre", directory, (unsigned)n % 16, (unsigned)n);
        write_bytes(path, bytes, BYTES);
    }
    int64_t evictions = counter(STATISTIC_EVICTIONS);
    setenv("SPYRE_CACHE_SIZE", "1M", 1);
    use_number(0);
    assert_counts(STATISTIC_EVICTIONS, evictions, 0);
    setenv("SPYRE_CACHE_SIZE", "256K", 1);
    use_number(1);
    assert_true(counter(STATISTIC_EVICTIONS) > evictions);
    spyre_cache_listing *listing;
    assert_ok(spyre_cache_list(false, &listing));
    assert_true(listing->total_bytes <= 256 << 10);
    spyre_cache_listing_free(listing);
}

static void cache__a_program_above_the_size_is_not_kept(void **state)
{
    (void)state;
    setenv("SPYRE_CACHE_SIZE", "1K", 1);
    int64_t failures = counter(STATISTIC_STORE_FAILURES);
    use_number(0);
    assert_counts(STATISTIC_STORE_FAILURES, failures, 1);
}

static void cache__sizes_have_units(void **state)
{
    (void)state;
    const struct { const char *value; int64_t bytes; } good[] = {
        {"1024", 1024}, {"1K", 1024}, {"64M", 64 << 20}, {"2g", 2LL << 30}, {"1T", 1LL << 40},
    };
    const char *const bad[] = {"", "0", "12", "-1", "1.5G", "G", "1GB", "1 G", "+5M", "0x10000",
                               "9223372036854775807K", "99999999999999999999", "many"};
    int64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(cache_config_parse_size(good[i].value, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(cache_config_parse_size(bad[i], &bytes));
}

// --- The directory

static void cache__other_files_are_left_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"notes.txt", "0123.spyre", "\xff\xfe odd\nname",
                                        "0123456789abcdef0123456789abcdef.spyre.txt",
                                        "0123456789ABCDEF0123456789ABCDEF.spyre"};
    enum { COUNT = sizeof names / sizeof *names };
    char path[PATH_BYTES];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        write_bytes(path, "mine", 4);
    }
    snprintf(path, sizeof path, "%s/%s", directory, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.spyre");
    assert_int_equal(mkdir(path, 0777), 0);
    use_number(0);
    uint32_t files;
    int64_t bytes;
    assert_ok(spyre_cache_clear(&files, &bytes));
    assert_int_equal(files, 1);
    assert_true(bytes > 64);
    assert_true(file_is_directory(path));
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_true(file_exists(path));
    }
}

// What stands in the place of a file may not be read as one, nor waited for.
static void cache__a_pipe_or_directory_in_the_place_of_a_file(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    use_number(0);
    only_file(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    use_number(0);
    assert_ok(file_remove(path));
    assert_int_equal(mkdir(path, 0777), 0);
    int64_t failures = counter(STATISTIC_STORE_FAILURES);
    use_number(0);
    assert_counts(STATISTIC_STORE_FAILURES, failures, 1);
}

static void cache__what_dead_writers_left_goes(void **state)
{
    (void)state;
    static const char *const names[] = {"0123456789abcdef0123456789abcdef.spyre.1-0.new",
                                        "0123456789abcdef0123456789abcdef.spyre.1-1.new"};
    char path[2][PATH_BYTES];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], PATH_BYTES, "%s/%s", directory, names[i]);
        write_bytes(path[i], "half", 4);
    }
    set_use(path[0], 1000);
    setenv("SPYRE_CACHE_SIZE", "64K", 1);       // so small that each write looks
    use_number(0);
    assert_false(file_exists(path[0]));
    assert_true(file_exists(path[1]));          // its writer may be at work
    uint32_t files;
    int64_t bytes;
    assert_ok(spyre_cache_clear(&files, &bytes));
    assert_int_equal(files, 2);
}

static void cache__directories_are_made(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/a/b", directory);
    setenv("SPYRE_CACHE_DIR", path, 1);
    use_number(0);
    assert_true(file_is_directory(path));
    setenv("SPYRE_CACHE_DIR", directory, 1);
    unsetenv("SPYRE_CACHE_DIR");
    setenv("XDG_CACHE_HOME", directory, 1);
    use_number(0);
    snprintf(path, sizeof path, "%s/spyre", directory);
    assert_true(file_is_directory(path));
    unsetenv("XDG_CACHE_HOME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(cache__any_damaged_byte_is_a_miss),
        CASE(cache__any_other_length_is_a_miss),
        CASE(cache__foreign_files_are_named),
        CASE(cache__a_refusal_is_kept),
        CASE(cache__a_damaged_refusal_is_a_miss),
        CASE(cache__a_content_that_is_none_is_a_miss),
        CASE(cache__stays_below_its_size),
        CASE(cache__the_least_recently_used_goes),
        CASE(cache__many_files_go_when_they_are_too_large),
        CASE(cache__a_program_above_the_size_is_not_kept),
        CASE(cache__sizes_have_units),
        CASE(cache__other_files_are_left_alone),
        CASE(cache__a_pipe_or_directory_in_the_place_of_a_file),
        CASE(cache__what_dead_writers_left_goes),
        CASE(cache__directories_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
