// SPDX-License-Identifier: Apache-2.0
//
// The compile cache in processes of their own: directories that refuse, processes that share one
// or are killed. Here the parent compiles nothing before it forks: a process reads SPYRE_LOG once.
#include "unit/compile/cache_case.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

// Runs `body` in a child process; its stderr goes to `out`.
static void run_child(void (*body)(void), char *out, size_t capacity)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv("SPYRE_LOG", "warn", 1);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], out + length, capacity - 1 - length)) > 0;)
        length += (size_t)got;
    out[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Compiles twice; nothing may be kept and nothing may fail.
static void compile_without_files(void)
{
    int64_t failures = counter(STATISTIC_STORE_FAILURES);
    for (int i = 0; i < 2; i++) {
        spyre_executable *e = compile_number(i);
        if (spyre_executable_segment_count(e) != 1) _exit(1);
        spyre_executable_destroy(e);
    }
    if (counter(STATISTIC_STORE_FAILURES) - failures != 2) _exit(2);
}

static void full_disk(void)
{
    const struct rlimit limit = {1000, 1000};       // bytes of any file
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(3);
    compile_without_files();
}

static void not_permitted(void)
{
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3);     // root may write anywhere
    compile_without_files();
}

static void nonsense(void)
{
    setenv("SPYRE_CACHE", "maybe", 1);
    setenv("SPYRE_CACHE_SIZE", "a lot", 1);
    for (int i = 0; i < 2; i++) spyre_executable_destroy(compile_number(i));
}

static uint32_t count_lines(const char *at)
{
    uint32_t lines = 0;
    for (; *at; at++) lines += *at == '\n';
    return lines;
}

static void cache__trouble_is_said_once(void **state)
{
    (void)state;
    char output[2048], path[PATH_BYTES];
    run_child(full_disk, output, sizeof output);
    assert_int_equal(count_lines(output), 1);
    assert_non_null(strstr(output, directory));
    assert_non_null(strstr(output, "File too large"));
    assert_int_equal(chmod(directory, 0555), 0);
    run_child(not_permitted, output, sizeof output);
    assert_int_equal(count_lines(output), 1);
    assert_non_null(strstr(output, "Permission denied"));
    assert_int_equal(chmod(directory, 0777), 0);
    snprintf(path, sizeof path, "%s/file", directory);
    write_bytes(path, "", 0);
    setenv("SPYRE_CACHE_DIR", path, 1);
    run_child(compile_without_files, output, sizeof output);
    assert_int_equal(count_lines(output), 1);
    assert_non_null(strstr(output, "SPYRE_CACHE_DIR"));
    assert_non_null(strstr(output, path));
    setenv("SPYRE_CACHE_DIR", directory, 1);
    run_child(nonsense, output, sizeof output);
    assert_int_equal(count_lines(output), 2);
    assert_non_null(strstr(output, "SPYRE_CACHE='maybe' is neither 0 nor 1"));
    assert_non_null(strstr(output, "SPYRE_CACHE_SIZE='a lot' is no size"));
}

// --- Processes

enum { WORKERS = 6, FAMILY = 12 };

// Uses graphs in an order of its own; now and then empties the directory.
static void work(uint64_t seed, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        int n = (int)(check_random(&seed) % FAMILY);
        spyre_executable *e = compile_number(n);
        const spyre_segment *s = spyre_executable_segment(e, 0);
        if (!s || s->outputs[0].type.view.size[0] != n + 1) _exit(1);
        spyre_executable_destroy(e);
        uint32_t files;
        int64_t bytes;
        if (check_random(&seed) % 16 == 0 && spyre_cache_clear(&files, &bytes)) _exit(2);
    }
}

static pid_t start_worker(uint64_t seed, int rounds)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        work(seed, rounds);
        // Whatever was rejected was not complete when it appeared.
        _exit(counter(STATISTIC_REJECTED) ? 3 : 0);
    }
    return child;
}

static void assert_files_are_whole(void)
{
    spyre_cache_listing *listing;
    assert_ok(spyre_cache_list(true, &listing));
    for (uint32_t i = 0; i < listing->file_count; i++) {
        const spyre_cache_file *file = &listing->files[i];
        bool temporary = strstr(file->name, ".new") != NULL;
        if (file->problem && !temporary) print_error("%s: %s\n", file->name, file->problem);
        assert_true(!file->problem || temporary);
    }
    spyre_cache_listing_free(listing);
}

static void cache__many_processes_share_a_directory(void **state)
{
    (void)state;
    pid_t workers[WORKERS];
    setenv("SPYRE_CACHE_SIZE", "20K", 1);       // room for some: all of them evict
    for (uint64_t i = 0; i < WORKERS; i++) workers[i] = start_worker(i + 1, 60);
    for (int i = 0; i < WORKERS; i++) {
        int status;
        assert_int_equal(waitpid(workers[i], &status, 0), workers[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_files_are_whole();
}

static void cache__killed_writers_leave_whole_files(void **state)
{
    (void)state;
    uint64_t random = 42;
    for (int i = 0; i < 60; i++) {
        pid_t child = start_worker(check_random(&random), 1 << 20);
        usleep((useconds_t)(check_random(&random) % 6000));
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));       // no error of its own ended it
        assert_files_are_whole();
    }
    work(7, 100);
    assert_files_are_whole();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(cache__trouble_is_said_once),
        CASE(cache__many_processes_share_a_directory),
        CASE(cache__killed_writers_leave_whole_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
