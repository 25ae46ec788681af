// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/scratch.h"

typedef struct {
    arena *memory;
    char directory[SCRATCH_BYTES];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f) return 1;
    f->memory = arena_create();
    *state = f;
    return !f->memory || !scratch_make(f->directory);
}

// Removes the files that tests leave, then the two levels of directories.
static int tear_down(void **state)
{
    fixture *f = *state;
    const char *inner = file_join(f->memory, f->directory, "a");
    const char *innermost = file_join(f->memory, inner, "b");
    const char *directories[] = {innermost, inner, f->directory};
    for (int i = 0; i < 3; i++) {
        if (!file_is_directory(directories[i])) continue;
        file_names names;
        spyre_status_free(file_list(f->memory, directories[i], "", &names));
        for (uint32_t n = 0; n < names.count; n++)
            spyre_status_free(file_remove(file_join(f->memory, directories[i], names.items[n])));
        rmdir(directories[i]);
    }
    int left = file_exists(f->directory);
    arena_destroy(f->memory);
    free(f);
    return left;
}

static void file__write_then_read(void **state)
{
    fixture *f = *state;
    const char *path = file_join(f->memory, f->directory, "x.bin");
    char *bytes;
    size_t length;
    assert_ok(file_write(path, "a\0b", 3));
    assert_ok(file_read(f->memory, path, 3, &bytes, &length));
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "a\0b", 4);
    assert_ok(file_write(path, "", 0));
    assert_ok(file_read(f->memory, path, 3, &bytes, &length));
    assert_int_equal(length, 0);
    file_names names;
    assert_ok(file_list(f->memory, f->directory, "", &names));
    assert_int_equal(names.count, 1);
}

static void file__errors_name_the_path(void **state)
{
    fixture *f = *state;
    const char *missing = file_join(f->memory, f->directory, "missing");
    const char *below = file_join(f->memory, missing, "x");
    const char *path = file_join(f->memory, f->directory, "x");
    char *bytes;
    size_t length;
    file_names names;
    assert_error(file_read(f->memory, missing, 9, &bytes, &length), SPYRE_NOT_FOUND, missing);
    assert_error(file_read(f->memory, f->directory, 9, &bytes, &length), SPYRE_IO, "not a regular");
    assert_error(file_write(below, "x", 1), SPYRE_NOT_FOUND, below);
    assert_error(file_list(f->memory, missing, "", &names), SPYRE_NOT_FOUND, missing);
    assert_ok(file_write(path, "abc", 3));
    assert_error(file_read(f->memory, path, 2, &bytes, &length), SPYRE_INVALID_FORMAT,
                 "3 bytes, at most 2");
    assert_error(file_make_directories(path), SPYRE_IO, path);
}

static void file__failed_write_leaves_nothing(void **state)
{
    fixture *f = *state;
    const char *directory = file_join(f->memory, f->directory, "a");
    file_names names;
    assert_ok(file_make_directories(directory));
    assert_error(file_write(directory, "x", 1), SPYRE_IO, "cannot replace");
    assert_ok(file_list(f->memory, f->directory, "", &names));
    assert_int_equal(names.count, 1);
}

static void file__directories_are_made_with_parents(void **state)
{
    fixture *f = *state;
    const char *deep = file_join(f->memory, f->directory, "a/b");
    assert_ok(file_make_directories(deep));
    assert_true(file_is_directory(deep));
    assert_ok(file_make_directories(deep));
    assert_ok(file_make_directories(arena_printf(f->memory, "%s/", deep)));
    assert_ok(file_make_directories(""));
}

static void file__list_is_sorted_and_filtered(void **state)
{
    fixture *f = *state;
    static const char *const made[] = {"sdsc_1.json", "b.txt", "sdsc_0.json", ".json"};
    for (int i = 0; i < 4; i++)
        assert_ok(file_write(file_join(f->memory, f->directory, made[i]), "", 0));
    file_names names;
    assert_ok(file_list(f->memory, f->directory, ".json", &names));
    assert_int_equal(names.count, 3);
    assert_string_equal(names.items[0], ".json");
    assert_string_equal(names.items[1], "sdsc_0.json");
    assert_string_equal(names.items[2], "sdsc_1.json");
}

static void file__remove_allows_missing(void **state)
{
    fixture *f = *state;
    const char *path = file_join(f->memory, f->directory, "x");
    assert_ok(file_write(path, "x", 1));
    assert_true(file_exists(path));
    assert_ok(file_remove(path));
    assert_false(file_exists(path));
    assert_ok(file_remove(path));
}

static void file__names_are_joined(void **state)
{
    fixture *f = *state;
    assert_string_equal(file_join(f->memory, "a", "b"), "a/b");
    assert_string_equal(file_join(f->memory, "a/", "b"), "a/b");
    assert_string_equal(file_join(f->memory, "", "b"), "b");
}

static void refuses_member(fixture *f, const char *name, const char *message)
{
    char *bytes;
    size_t length;
    assert_error(file_read_member(f->memory, f->directory, name, 100, &bytes, &length),
                 SPYRE_INVALID_FORMAT, message);
}

static void file__members_are_regular_files_inside(void **state)
{
    fixture *f = *state;
    char *bytes;
    size_t length;
    const char *inner = file_join(f->memory, f->directory, "a");
    assert_ok(file_make_directories(inner));
    assert_ok(file_write(file_join(f->memory, inner, "x"), "x", 1));
    assert_ok(file_read_member(f->memory, f->directory, "a/x", 1, &bytes, &length));
    assert_string_equal(bytes, "x");
    refuses_member(f, "a", "not a regular file");
    refuses_member(f, "a/../a/x", "must not lead out of the directory");
    refuses_member(f, "..", "must not lead out of the directory");
    refuses_member(f, "/etc/passwd", "must not be an absolute path");
    refuses_member(f, "", "has an empty part");
    refuses_member(f, "a//x", "has an empty part");
    refuses_member(f, "./a/x", "has an empty part");
    assert_error(file_read_member(f->memory, f->directory, "a/y", 1, &bytes, &length),
                 SPYRE_NOT_FOUND, "a/y: cannot open");
    assert_error(file_read_member(f->memory, f->directory, "a/x/y", 1, &bytes, &length),
                 SPYRE_NOT_FOUND, "a/x/y: cannot open");
}

static void file__members_are_no_links_or_devices(void **state)
{
    fixture *f = *state;
    const char *inner = file_join(f->memory, f->directory, "a");
    assert_ok(file_make_directories(inner));
    assert_ok(file_write(file_join(f->memory, inner, "x"), "x", 1));
    assert_int_equal(symlink("a", file_join(f->memory, f->directory, "link")), 0);
    assert_int_equal(symlink("a/x", file_join(f->memory, f->directory, "file")), 0);
    assert_int_equal(symlink("/dev/null", file_join(f->memory, f->directory, "null")), 0);
    assert_int_equal(mkfifo(file_join(f->memory, f->directory, "pipe"), 0600), 0);
    refuses_member(f, "link/x", "symbolic link");
    refuses_member(f, "file", "symbolic link");
    refuses_member(f, "null", "symbolic link");
    refuses_member(f, "pipe", "not a regular file");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(file__write_then_read),
        CASE(file__errors_name_the_path),
        CASE(file__failed_write_leaves_nothing),
        CASE(file__directories_are_made_with_parents),
        CASE(file__list_is_sorted_and_filtered),
        CASE(file__remove_allows_missing),
        CASE(file__names_are_joined),
        CASE(file__members_are_regular_files_inside),
        CASE(file__members_are_no_links_or_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
