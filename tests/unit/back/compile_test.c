// SPDX-License-Identifier: Apache-2.0
//
// Programs of hand-made bundles: their listings (SPYRE_BLESS=1 writes them anew), what holds for
// all of them, and what is refused.
#include <math.h>

#include "unit/back/cases.h"

#include "base/file.h"

static isa_program *compile(arena *memory, const bundle *b)
{
    back_options options = BACK_OPTIONS_INIT;
    isa_program *program = NULL;
    assert_ok(back_compile(b, &options, memory, &program));
    return program;
}

static void compile__golden_listings(void **state)
{
    (void)state;
    for (int n = 0; n < BACK_CASES; n++) {
        arena *memory = arena_create();
        isa_program *program = compile(memory, back_cases[n].make(memory, 1));
        text listing = {0};
        isa_print(program, &listing);
        char *path =
            arena_printf(memory, "%s/golden/back/%s.listing", SPYRE_TESTS_DIR, back_cases[n].name);
        char *expected = NULL;
        size_t length;
        if (getenv("SPYRE_BLESS")) assert_ok(file_write(path, listing.bytes, listing.length));
        assert_ok(file_read(memory, path, 1 << 20, &expected, &length));
        assert_string_equal(text_string(&listing), expected);
        text_free(&listing);
        arena_destroy(memory);
    }
}

// Loops, not copies: four times the rows are the same instructions, but for one more loop around
// them when there were two tiles only.
static void compile__size_does_not_depend_on_extents(void **state)
{
    (void)state;
    for (int n = 0; n < BACK_CASES; n++) {
        arena *memory = arena_create();
        isa_program *small = compile(memory, back_cases[n].make(memory, 64));
        isa_program *large = compile(memory, back_cases[n].make(memory, 256));
        assert_in_range(large->code.count, small->code.count - 2, small->code.count + 2);
        assert_in_range(large->code.count, 1, 120);
        arena_destroy(memory);
    }
}

static void compile__same_bundle_same_bytes(void **state)
{
    (void)state;
    for (int n = 0; n < BACK_CASES; n++) {
        arena *memory = arena_create();
        uint8_t *first, *second;
        size_t first_count, second_count;
        isa_program *one = compile(memory, back_cases[n].make(memory, 1));
        isa_program *two = compile(memory, back_cases[n].make(memory, 1));
        assert_ok(isa_encode(memory, one, &first, &first_count));
        assert_ok(isa_encode(memory, two, &second, &second_count));
        assert_int_equal(first_count, second_count);
        assert_memory_equal(first, second, first_count);
        arena_destroy(memory);
    }
}

// A queue never ends a kernel with a token left, whatever the remainders: one pass over the code
// with every loop once, since bodies leave what they find.
static void compile__tokens_balance(void **state)
{
    (void)state;
    for (int n = 0; n < BACK_CASES; n++) {
        arena *memory = arena_create();
        isa_program *program = compile(memory, back_cases[n].make(memory, 5));
        int balance[ISA_MAX_TOKENS] = {0};
        for (uint32_t i = 0; i < program->code.count; i++) {
            const isa_instruction *at = program->code.items[i];
            if (at->opcode == ISA_SIGNAL) balance[at->token]++;
            if (at->opcode == ISA_WAIT) balance[at->token]--;
            bool ends = at->opcode == ISA_END_KERNEL;
            for (int t = 0; t < ISA_MAX_TOKENS && ends; t++) assert_int_equal(balance[t], 0);
        }
        arena_destroy(memory);
    }
}

static void compile__kernels_know_their_source(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program = compile(memory, case_add(memory, 1));
    assert_int_equal(program->kernels.count, 1);
    assert_string_equal(program->kernels.items[0].name, "0_add");
    assert_string_equal(program->kernels.items[0].location, "model.py:7");
    assert_int_equal(program->kernels.items[0].active_cores, 3);
    // Core 1 begins 256 rows further.
    assert_int_equal(program->kernels.items[0].parameters[3], 256 * 128);
    arena_destroy(memory);
}

static void refused(bundle *b, int64_t share, spyre_code code, const char *message)
{
    back_options options = {.lx_reserved_bytes = share};
    isa_program *program;
    assert_error(back_compile(b, &options, b->memory, &program), code, message);
    arena_destroy(b->memory);
}

static void compile__tiles_must_fit(void **state)
{
    (void)state;
    refused(case_add(arena_create(), 1), 512, SPYRE_UNSUPPORTED,
            "step 0 0_add: the smallest tile needs 768 bytes of LX, the back-end has 512");
    refused(case_matmul(arena_create(), 1), 4096, SPYRE_UNSUPPORTED,
            "step 0 0_batchmatmul: no tile of a matmul fits the back-end's 4096 bytes of LX");
}

static void compile__lx_tensors_end_below_the_share(void **state)
{
    (void)state;
    bundle *b = case_exp_in_lx(arena_create(), 1);
    refused(b, (2 << 20) - 1024, SPYRE_UNSUPPORTED,
            "step 0 0_exp: Tensor0 ends at byte 2048 of LX, of which the back-end needs those "
            "from 1024 on");
}

static void compile__masks_must_be_neutral(void **state)
{
    (void)state;
    bundle *b = case_max_masked(arena_create(), 1);
    element_store(&b->steps.items[0].constants[0].bits, SPYRE_FORMAT_IEEE_FP32, 3.0);
    refused(b, (2 << 20) / 5, SPYRE_UNSUPPORTED,
            "step 0 0_max: maskingConstId_: max masked with 3, only -inf is supported");
}

static void compile__matmul_formats(void **state)
{
    (void)state;
    bundle *b = case_matmul(arena_create(), 1);
    bundle_tensor *right = &b->steps.items[0].tensors[1];
    right->format = SPYRE_FORMAT_IEEE_FP16;
    refused(b, (2 << 20) / 5, SPYRE_UNSUPPORTED, "batchmatmul of SEN169_FP16 and IEEE_FP16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compile__golden_listings),
        cmocka_unit_test(compile__size_does_not_depend_on_extents),
        cmocka_unit_test(compile__same_bundle_same_bytes),
        cmocka_unit_test(compile__tokens_balance),
        cmocka_unit_test(compile__kernels_know_their_source),
        cmocka_unit_test(compile__tiles_must_fit),
        cmocka_unit_test(compile__lx_tensors_end_below_the_share),
        cmocka_unit_test(compile__masks_must_be_neutral),
        cmocka_unit_test(compile__matmul_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
