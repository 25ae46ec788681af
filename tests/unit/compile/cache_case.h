// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the compile cache share: a directory for each test, small graphs, counters.
#ifndef COMPILE_CACHE_CASE_H
#define COMPILE_CACHE_CASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                     // nftw
#endif
#include "unit/check.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "compile/executable.h"
#include "compile/statistics.h"
#include "spyre/cache.h"
#include "support/scratch.h"

enum { LIMIT_BYTES = 1 << 20, PATH_BYTES = 512 };

static char directory[SCRATCH_BYTES];

static inline int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about, (void)kind, (void)at;
    return remove(path);
}

static inline int make_directory(void **state)
{
    (void)state;
    setenv("SPYRE_LOG", "off", 1);
    unsetenv("SPYRE_CACHE");
    unsetenv("SPYRE_CACHE_SIZE");
    return scratch_make(directory) && setenv("SPYRE_CACHE_DIR", directory, 1) == 0 ? 0 : -1;
}

static inline int remove_directory(void **state)
{
    (void)state;
    return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int64_t counter(statistic which)
{
    spyre_statistic row;
    assert_true(spyre_statistic_at(which, &row));
    return row.value;
}

// Graph number n of a family: an addition of n + 1 rows.
static inline spyre_graph *make_graph(int n)
{
    spyre_graph *graph;
    spyre_tensor_type type = {SPYRE_DTYPE_F16, true, {.rank = 2, .size = {n + 1, 64},
                                                      .stride = {64, 1}}};
    uint32_t x, y, node, sum;
    assert_ok(spyre_graph_create(&graph));
    assert_ok(spyre_graph_add_input(graph, "x", &type, NULL, NULL, &x));
    assert_ok(spyre_graph_add_input(graph, "y", &type, NULL, NULL, &y));
    const spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                              {.kind = SPYRE_ARG_VALUE, .of.value = y},
                              {.kind = SPYRE_ARG_INT, .of.integer = 1}};
    assert_ok(spyre_graph_add_node(graph, "sum", "aten.add.Tensor", args, 3, &type, 1, "m.py:1",
                                   &node, &sum));
    assert_ok(spyre_graph_add_output(graph, sum));
    return graph;
}

static inline spyre_compile_options cached_options(void)
{
    spyre_compile_options options = spyre_compile_options_default();
    options.settings.sencores = 4;
    options.cache = true;
    return options;
}

static inline spyre_executable *compile_number(int n)
{
    spyre_compile_options options = cached_options();
    spyre_graph *graph = make_graph(n);
    spyre_executable *e;
    assert_ok(spyre_compile(graph, &options, &e));
    spyre_graph_destroy(graph);
    return e;
}

// The executable is that of make_graph(n).
static inline void assert_is_number(const spyre_executable *e, int n)
{
    assert_int_equal(spyre_executable_segment_count(e), 1);
    const spyre_segment *s = spyre_executable_segment(e, 0);
    assert_int_equal(s->output_count, 1);
    assert_int_equal(s->outputs[0].type.view.size[0], n + 1);
    assert_int_equal(s->kernel_count, 1);
}

static inline void use_number(int n)
{
    spyre_executable *e = compile_number(n);
    assert_is_number(e, n);
    spyre_executable_destroy(e);
}

// The path of the only file of the cache.
static inline void only_file(char *out_path)
{
    spyre_cache_listing *listing;
    assert_ok(spyre_cache_list(false, &listing));
    assert_int_equal(listing->file_count, 1);
    snprintf(out_path, PATH_BYTES, "%s/%s", directory, listing->files[0].name);
    spyre_cache_listing_free(listing);
}

static inline void assert_counts(statistic which, int64_t before, int64_t difference)
{
    assert_int_equal(counter(which) - before, difference);
}

// Removes what was there: some file systems wait for the disk when a file is replaced.
static inline void write_bytes(const char *path, const void *bytes, size_t length)
{
    assert_ok(file_remove(path));
    assert_ok(file_write(path, bytes, length));
}

static inline char *read_bytes(arena *memory, const char *path, size_t *out_length)
{
    char *bytes;
    assert_ok(file_read(memory, path, LIMIT_BYTES, &bytes, out_length));
    return bytes;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

#endif
