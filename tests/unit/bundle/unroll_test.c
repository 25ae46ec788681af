// SPDX-License-Identifier: Apache-2.0
#include "unit/bundle/golden.h"

#include "bundle/unroll.h"

enum { BYTES = 1 << 13 };

static uint32_t loops_of(const bundle *b)
{
    uint32_t loops = 0;
    for (uint32_t at = 0; at < b->body.count; at++) loops += b->body.items[at].kind == BUNDLE_LOOP;
    return loops;
}

static void run(const bundle *b, arena *memory, uint8_t *bytes[2])
{
    bundle_buffer buffers[2];
    uint8_t *lx = arena_alloc(memory, (size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    assert_non_null(lx);
    for (uint32_t i = 0; i < 2; i++) {
        bytes[i] = arena_alloc(memory, BYTES);
        assert_non_null(bytes[i]);
        buffers[i] = (bundle_buffer){bytes[i], BYTES};
        for (int64_t at = 0; at + 2 <= BYTES; at += 2)
            element_store(bytes[i] + at, DL16, (double)((at * 7 + i) % 61) / 8);
    }
    assert_ok(bundle_interpret(b, buffers, lx));
}

// Two loops of 3 and 2 around a step, then another one: seven steps without a loop.
static void unroll__every_iteration_has_its_addresses(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *looped = golden_loops(memory), *unrolled = golden_loops(memory);
    uint8_t *want[2], *got[2];
    uint32_t kept;
    assert_ok(bundle_unroll(unrolled, &kept));
    assert_int_equal(kept, 0);
    assert_int_equal(loops_of(unrolled), 0);
    assert_int_equal(unrolled->steps.count, 7);
    assert_ok(bundle_verify(unrolled));
    for (int64_t i = 0; i < 6; i++) {
        const bundle_step *step = &unrolled->steps.items[i];
        assert_string_equal(step->name, looped->steps.items[0].name);
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            int64_t was = bundle_start(&looped->steps.items[0].tensors[0], core);
            assert_int_equal(bundle_start(&step->tensors[0], core),
                             was + i / 2 * 512 + i % 2 * 256);
            assert_int_equal(step->tensors[0].loop_stride[0], 0);
            assert_int_equal(step->tensors[0].loop_stride[1], 0);
        }
    }
    run(looped, memory, want);
    run(unrolled, memory, got);
    for (uint32_t i = 0; i < 2; i++) assert_memory_equal(want[i], got[i], BYTES);
    arena_destroy(memory);
}

static void unroll__long_loops_stay(void **state)
{
    (void)state;
    const int64_t counts[] = {BUNDLE_MOST_UNROLLED / 2, BUNDLE_MOST_UNROLLED / 2 + 1, 1 << 20};
    for (uint32_t i = 0; i < 3; i++) {
        arena *memory = arena_create();
        bundle *b = golden_loops(memory);
        uint32_t kept;
        assert_int_equal(b->body.items[0].kind, BUNDLE_LOOP);
        b->body.items[0].count = counts[i];
        assert_ok(bundle_unroll(b, &kept));
        assert_int_equal(kept, i > 0);
        assert_int_equal(loops_of(b), i > 0 ? 2 : 0);
        assert_int_equal(b->steps.count, i > 0 ? 2 : BUNDLE_MOST_UNROLLED + 1);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unroll__every_iteration_has_its_addresses),
        cmocka_unit_test(unroll__long_loops_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
