// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <unistd.h>

#include "base/file.h"
#include "base/staging.h"
#include "support/scratch.h"

typedef struct {
    arena *memory;
    char folder[SCRATCH_BYTES];
    const char *target;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f.memory = arena_create();
    if (!scratch_make(f.folder)) return 1;
    f.target = file_join(f.memory, f.folder, "deep/target");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    staging all = {.path = f->folder};
    staging_abort(&all);
    bool gone = !file_exists(f->folder);
    arena_destroy(f->memory);
    return gone ? 0 : 1;
}

static void put(fixture *f, const staging *stage, const char *name)
{
    assert_ok(file_write(file_join(f->memory, stage->path, name), name, strlen(name)));
}

static uint32_t entries(fixture *f, const char *directory)
{
    file_names names = {0};
    assert_ok(file_list(f->memory, directory, "", &names));
    return names.count;
}

static void staging__appears_at_commit(void **state)
{
    fixture *f = *state;
    staging stage;
    assert_ok(staging_begin(f->memory, f->target, &stage));
    put(f, &stage, "a");
    assert_false(file_exists(f->target));
    assert_ok(staging_commit(&stage));
    assert_true(file_exists(file_join(f->memory, f->target, "a")));
    assert_int_equal(entries(f, file_join(f->memory, f->folder, "deep")), 1);
}

static void staging__replaces_all(void **state)
{
    fixture *f = *state;
    staging stage;
    assert_ok(file_make_directories(file_join(f->memory, f->target, "inner")));
    staging old = {.path = f->target};
    put(f, &old, "stale");
    put(f, &old, "inner/stale");
    assert_ok(staging_begin(f->memory, f->target, &stage));
    put(f, &stage, "new");
    assert_int_equal(entries(f, f->target), 2);
    assert_ok(staging_commit(&stage));
    assert_int_equal(entries(f, f->target), 1);
    assert_true(file_exists(file_join(f->memory, f->target, "new")));
    assert_int_equal(entries(f, file_join(f->memory, f->folder, "deep")), 1);
}

static void staging__abort_leaves_nothing(void **state)
{
    fixture *f = *state;
    staging stage;
    assert_ok(staging_begin(f->memory, f->target, &stage));
    put(f, &stage, "a");
    staging_abort(&stage);
    assert_int_equal(entries(f, file_join(f->memory, f->folder, "deep")), 0);
}

static void staging__slash_at_the_end(void **state)
{
    fixture *f = *state;
    staging stage;
    const char *target = arena_printf(f->memory, "%s//", f->target);
    assert_ok(staging_begin(f->memory, target, &stage));
    put(f, &stage, "a");
    assert_ok(staging_commit(&stage));
    assert_true(file_exists(file_join(f->memory, f->target, "a")));
}

// A link below the old target is removed, not what it points to.
static void staging__does_not_follow_links(void **state)
{
    fixture *f = *state;
    staging stage;
    const char *elsewhere = file_join(f->memory, f->folder, "elsewhere");
    assert_ok(file_make_directories(elsewhere));
    assert_ok(file_make_directories(f->target));
    assert_int_equal(symlink(elsewhere, file_join(f->memory, f->target, "link")), 0);
    assert_ok(file_write(file_join(f->memory, elsewhere, "kept"), "", 0));
    assert_ok(staging_begin(f->memory, f->target, &stage));
    assert_ok(staging_commit(&stage));
    assert_true(file_exists(file_join(f->memory, elsewhere, "kept")));
    assert_int_equal(entries(f, f->target), 0);
}

static void staging__refuses_a_file(void **state)
{
    fixture *f = *state;
    staging stage, over = {.path = f->folder};
    put(f, &over, "plain");
    assert_error(staging_begin(f->memory, file_join(f->memory, f->folder, "plain"), &stage),
                 SPYRE_IO, "is no directory");
}

// Two writers of one target, and names that somebody has foreseen: neither is in the other's way.
static void staging__names_cannot_be_foreseen(void **state)
{
    fixture *f = *state;
    staging one, other;
    const char *process = arena_printf(f->memory, "%s.%ld.new", f->target, (long)getpid());
    assert_ok(file_make_directories(file_join(f->memory, process, "kept")));
    assert_ok(staging_begin(f->memory, f->target, &one));
    assert_ok(staging_begin(f->memory, f->target, &other));
    assert_string_not_equal(one.path, other.path);
    put(f, &one, "a");
    assert_int_equal(entries(f, other.path), 0);
    assert_ok(staging_commit(&one));
    assert_ok(staging_commit(&other));
    assert_int_equal(entries(f, f->target), 0);
    assert_true(file_is_directory(file_join(f->memory, process, "kept")));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(staging__appears_at_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(staging__replaces_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(staging__abort_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(staging__slash_at_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(staging__does_not_follow_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(staging__refuses_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(staging__names_cannot_be_foreseen, set_up, tear_down),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
