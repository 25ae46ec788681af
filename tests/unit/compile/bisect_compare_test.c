// SPDX-License-Identifier: Apache-2.0
//
// What differs between two memories behind a step, by core, indices and distance.
#include "unit/check.h"

#include <math.h>
#include <stdlib.h>

#include "bundle/files.h"
#include "compile/debug/bisect_compare.h"

enum { BYTES = 4096 };

typedef struct {
    arena *memory;
    bundle *b;
    bundle_buffer wanted[2], found[2];
    uint8_t *lx[2];
} fixture;

static int make(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->memory = arena_create();
    assert_ok(bundle_read(f->memory, SPYRE_TESTS_DIR "/golden/bundle/softmax", false, &f->b));
    for (int i = 0; i < 2; i++) {
        f->wanted[i] = (bundle_buffer){calloc(1, BYTES), BYTES};
        f->found[i] = (bundle_buffer){calloc(1, BYTES), BYTES};
        f->lx[i] = calloc(BUNDLE_MAX_CORES, BUNDLE_LX_BYTES);
    }
    *state = f;
    return 0;
}

static int drop(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        free(f->wanted[i].bytes);
        free(f->found[i].bytes);
        free(f->lx[i]);
    }
    arena_destroy(f->memory);
    free(f);
    return 0;
}

static core_differences compare(fixture *f, uint32_t step)
{
    core_differences out = {0};
    bundle_memory wanted = {f->wanted, f->lx[0]}, found = {f->found, f->lx[1]};
    assert_ok(bisect_compare(f->memory, f->b, &f->b->steps.items[step], &wanted, &found, &out));
    return out;
}

static void bisect_compare__equal_memories(void **state)
{
    assert_int_equal(compare(*state, 0).count, 0);
    assert_int_equal(compare(*state, 4).count, 0);
}

// Step 4, realdiv: mb 4 in 2 slices, out 128 in sticks of 64; row 3 is the second one of core 1.
static void bisect_compare__elements_in_memory(void **state)
{
    fixture *f = *state;
    const bundle_tensor *t = &f->b->steps.items[4].tensors[f->b->steps.items[4].output];
    const int64_t second = bundle_start(t, 1) + SPYRE_STICK_BYTES;
    uint16_t *row = (uint16_t *)(void *)(f->found[1].bytes + second);
    row[5] = 31 << 9;                       // 1.0
    row[9] = 0xFFFF;                        // NaN or infinity
    core_differences out = compare(f, 4);
    assert_int_equal(out.count, 1);
    const core_difference *at = &out.items[0];
    assert_int_equal(at->core, 1);
    assert_int_equal(at->different, 2);
    assert_int_equal(at->elements, 2 * 128);
    assert_true(at->first[0] == 3 && at->last[0] == 3 && at->first[1] == 5 && at->last[1] == 9);
    assert_true(at->wanted == 0 && at->found == 1 && isinf(at->largest));
    text said = {0};
    bisect_print(&f->b->steps.items[4], &out, &said);
    assert_string_equal(text_string(&said),
                        "    core 1: 2 of 256 elements, in mb 3..3 out 5..9, by up to inf; the "
                        "first is 1, not 0\n");
    text_free(&said);
}

// Step 0, max: one number a row, in lane 0 of LX; other lanes do not count.
static void bisect_compare__lanes_of_lx(void **state)
{
    fixture *f = *state;
    const bundle_tensor *t = &f->b->steps.items[0].tensors[f->b->steps.items[0].output];
    uint16_t *lane = (uint16_t *)(void *)(f->lx[1] + t->start);
    lane[1] = 7;
    assert_int_equal(compare(f, 0).count, 0);
    lane[0] = 7;
    core_differences out = compare(f, 0);
    assert_int_equal(out.count, 1);
    assert_int_equal(out.items[0].core, 0);
    assert_int_equal(out.items[0].elements, 2);
    assert_int_equal(out.items[0].different, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bisect_compare__equal_memories, make, drop),
        cmocka_unit_test_setup_teardown(bisect_compare__elements_in_memory, make, drop),
        cmocka_unit_test_setup_teardown(bisect_compare__lanes_of_lx, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
