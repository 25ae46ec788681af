// SPDX-License-Identifier: Apache-2.0
//
// Every made bundle against its files in tests/golden/bundle (SPYRE_BLESS=1 rewrites them), and
// once around through the reader.
#include "support/scratch.h"
#include "unit/bundle/golden.h"

#include <unistd.h>

#include "base/file.h"
#include "bundle/files.h"
#include "bundle/write.h"

static char scratch[SCRATCH_BYTES];

static int make_scratch(void **state)
{
    (void)state;
    return scratch_make(scratch) ? 0 : -1;
}

static void remove_files(arena *memory, const char *directory)
{
    file_names names = {0};
    assert_ok(file_list(memory, directory, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        assert_ok(file_remove(file_join(memory, directory, names.items[i])));
    }
}

static int remove_scratch(void **state)
{
    (void)state;
    arena *memory = arena_create();
    remove_files(memory, scratch);
    arena_destroy(memory);
    return rmdir(scratch);
}

static void expect_same_files(arena *memory, const char *expected, const char *actual)
{
    file_names wanted = {0}, found = {0};
    assert_ok(file_list(memory, expected, "", &wanted));
    assert_ok(file_list(memory, actual, "", &found));
    assert_int_equal(wanted.count, found.count);
    for (uint32_t i = 0; i < wanted.count; i++) {
        char *a, *b;
        size_t a_length, b_length;
        assert_string_equal(wanted.items[i], found.items[i]);
        assert_ok(file_read(memory, file_join(memory, expected, wanted.items[i]), 1 << 24, &a,
                            &a_length));
        assert_ok(file_read(memory, file_join(memory, actual, found.items[i]), 1 << 24, &b,
                            &b_length));
        if (a_length != b_length || memcmp(a, b, a_length) != 0) {
            fail_msg("%s/%s differs", expected, wanted.items[i]);
        }
    }
}

static void write__golden_files(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GOLDEN_CASES; i++) {
        arena *memory = arena_create();
        bundle *b = golden_cases[i].make(memory);
        const char *golden = file_join(memory, SPYRE_TESTS_DIR "/golden/bundle",
                                       golden_cases[i].name);
        bool bless = getenv("SPYRE_BLESS") != NULL;
        if (bless && file_is_directory(golden)) remove_files(memory, golden);
        assert_ok(bundle_write(b, bless ? golden : scratch));
        if (!bless) expect_same_files(memory, golden, scratch);
        remove_files(memory, scratch);
        arena_destroy(memory);
    }
}

static void write__read_back_and_written_again(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GOLDEN_CASES; i++) {
        arena *memory = arena_create();
        const char *golden = file_join(memory, SPYRE_TESTS_DIR "/golden/bundle",
                                       golden_cases[i].name);
        bundle *b;
        assert_ok(bundle_read(memory, golden, golden_cases[i].pool_first, &b));
        assert_ok(bundle_write(b, scratch));
        expect_same_files(memory, golden, scratch);
        remove_files(memory, scratch);
        arena_destroy(memory);
    }
}

// Both forms of addresses mean the same bundle.
static void write__symbolic_and_absolute_agree(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GOLDEN_CASES; i++) {
        if (strcmp(golden_cases[i].name, "loops") == 0) continue;
        if (strcmp(golden_cases[i].name, "many_arguments") == 0) continue;
        if (strcmp(golden_cases[i].name, "sizes") == 0) continue;
        arena *memory = arena_create();
        const char *golden = file_join(memory, SPYRE_TESTS_DIR "/golden/bundle",
                                       golden_cases[i].name);
        bundle *b, *symbolic;
        assert_ok(bundle_read(memory, golden, golden_cases[i].pool_first, &b));
        assert_ok(bundle_write_form(b, scratch, BUNDLE_FORM_SYMBOLIC));
        assert_ok(bundle_read(memory, scratch, false, &symbolic));
        remove_files(memory, scratch);
        assert_ok(bundle_write_form(symbolic, scratch, BUNDLE_FORM_ABSOLUTE));
        expect_same_files(memory, golden, scratch);
        remove_files(memory, scratch);
        arena_destroy(memory);
    }
}

static const char *add_folder(arena *memory, const char *name)
{
    return file_join(memory, scratch, name);
}

// What was written and read is the same bundle at every size, in the absolute form and, with the
// loop, in the symbolic one.
static void write__sizes_of_a_launch(void **state)
{
    (void)state;
    for (int with_loop = 0; with_loop < 2; with_loop++) {
        arena *memory = arena_create();
        bundle *made = golden_sizes(memory), *found, *bound[2];
        if (!with_loop) made->body.count = made->steps.count = 1;
        const char *a = add_folder(memory, "a"), *b = add_folder(memory, "b");
        assert_ok(bundle_write(made, a));
        assert_ok(bundle_read(memory, a, false, &found));
        assert_int_equal(found->symbols.count, 1);
        assert_string_equal(found->symbols.items[0].name, "rows");
        remove_files(memory, a);
        for (int64_t rows = 4; rows <= 12; rows += 4) {
            assert_ok(bundle_bind(memory, made, &rows, &bound[0]));
            assert_ok(bundle_bind(memory, found, &rows, &bound[1]));
            bound[0]->symbols.count = bound[1]->symbols.count = 0;
            for (uint32_t n = 0; n < 2; n++) {
                for (uint32_t s = 0; s < bound[n]->steps.count; s++)
                    bound[n]->steps.items[s].symbol[0] = 0;
                for (uint32_t at = 0; at < bound[n]->body.count; at++)
                    bound[n]->body.items[at].symbol = 0;
            }
            assert_int_equal(bound[1]->steps.items[0].size[0], rows);
            if (with_loop) assert_int_equal(bound[1]->body.items[1].count, rows / 2);
            assert_ok(bundle_write(bound[0], a));
            assert_ok(bundle_write(bound[1], b));
            expect_same_files(memory, a, b);
            remove_files(memory, a);
            remove_files(memory, b);
        }
        assert_int_equal(rmdir(a), 0);
        assert_int_equal(rmdir(b), 0);
        arena_destroy(memory);
    }
}

static void write__refusals(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = golden_many_arguments(memory);
    assert_error(bundle_write_form(b, scratch, BUNDLE_FORM_ABSOLUTE), SPYRE_INVALID_ARGUMENT,
                 "8 launch arguments have no absolute addresses");
    b->args.items[3].kind = BUNDLE_ARG_POOL;
    assert_error(bundle_write(b, scratch), SPYRE_UNSUPPORTED,
                 "launch arguments 2 and 3 are both the pool");
    b = golden_add_scalar(memory);
    b->steps.items[0].size[0] = 0;
    assert_error(bundle_write(b, scratch), SPYRE_INVALID_ARGUMENT,
                 "step 0 0_add: N_: dim mb has size 0, at least 1 is needed");
    const char *no_directory = SPYRE_TESTS_DIR "/unit/check.h";
    assert_error(bundle_write(golden_add_scalar(memory), no_directory), SPYRE_IO, "check.h");
    b = golden_loops(memory);
    assert_error(bundle_write_form(b, scratch, BUNDLE_FORM_ABSOLUTE), SPYRE_INVALID_ARGUMENT,
                 "addresses that loops advance have no absolute form");
    b->steps.items[0].tensors[1].in_lx = true;
    b->steps.items[0].tensors[1].arg = -1;
    assert_error(bundle_write(b, scratch), SPYRE_UNSUPPORTED,
                 "step 0 0_neg: Tensor1: a loop advances it in LX");
    b = golden_sizes(memory);
    b->body.items[1].per = 12;
    b->steps.items[1].tensors[0].loop_stride[0] = 1024;
    assert_error(bundle_write(b, scratch), SPYRE_UNSUPPORTED,
                 "advances an address by no multiple of its step");
    arena_destroy(memory);
}

// N_ of a restickify is padded in the sticks of its tensors, by less than one: in "out" the input
// lacks 61, in the other dims it has room for more.
static void write__gaps_that_no_rounding_leaves_are_room(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = make_bundle(memory, 2, 0), *read;
    bundle_step s = make_step(memory, OPFUNC_RESTICKIFY,
                              DIMS({"mb", 128, 1}, {"out", 128, 1}, {"x", 1, 1}, {"y", 4, 2}));
    bundle_tensor *source = make_tensor(&s, "OUTPUT", DL16, "out x y mb", "mb", "");
    source->gap[1] = 61, source->gap[2] = 6, source->gap[3] = 2;
    source->gap_is_room[2] = source->gap_is_room[3] = true;
    place_tensor(b, &s, source, 0, 0);
    bundle_tensor *target = make_tensor(&s, "KERNEL", DL16, "mb x y out", "out", "");
    target->gap[0] = 64, target->gap_is_room[0] = true;
    place_tensor(b, &s, target, 1, 0);
    finish_step(b, &s);
    assert_ok(bundle_write(b, scratch));
    assert_ok(bundle_read(memory, scratch, false, &read));
    const bundle_step *found = &read->steps.items[0];
    static const int64_t gaps[2][4] = {{0, -61, 6, 2}, {64, 0, 0, 0}};
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t d = 0; d < 4; d++)
            assert_int_equal(bundle_effective_gap(found, &found->tensors[t], d), gaps[t][d]);
    remove_files(memory, scratch);
    arena_destroy(memory);
}

static void write__names_of_tensors_that_end_like_operands(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b = golden_add_scalar(memory), *read;
    bundle_step *s = &b->steps.items[0];
    snprintf(s->tensors[0].name, sizeof s->tensors[0].name, "Tensor2-idx");
    snprintf(s->tensors[1].name, sizeof s->tensors[1].name, "Tensor2-idx0");
    assert_ok(bundle_write(b, scratch));
    assert_ok(bundle_read(memory, scratch, false, &read));
    remove_files(memory, scratch);
    const bundle_step *found = &read->steps.items[0];
    assert_int_equal(found->input_count, s->input_count);
    for (uint32_t i = 0; i < s->input_count; i++) {
        assert_int_equal(found->inputs[i], s->inputs[i]);
    }
    for (uint32_t t = 0; t < 2; t++) {
        assert_string_equal(found->tensors[t].name, s->tensors[t].name);
    }
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__golden_files),
        cmocka_unit_test(write__read_back_and_written_again),
        cmocka_unit_test(write__symbolic_and_absolute_agree),
        cmocka_unit_test(write__sizes_of_a_launch),
        cmocka_unit_test(write__gaps_that_no_rounding_leaves_are_room),
        cmocka_unit_test(write__names_of_tensors_that_end_like_operands),
        cmocka_unit_test(write__refusals),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
