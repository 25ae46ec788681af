// SPDX-License-Identifier: Apache-2.0
#include "unit/isa/sample.h"

#include "isa/corrections.h"

static const char corrected_text[] =
    "program\n"
    "argument 0 bytes 4096\n"
    "values 3\n"
    "correct 0 value 0\n"
    "correct 2 value 1\n"
    "correct 33 value 2\n"
    "correct 34 value 2\n"
    "kernel 0 \"0_abs\" cores 0x00000001 slots 1\n"
    "    core 1: 512\n"
    "code\n"
    "loop 4\n"
    "    kernel 0\n"
    "        load [8, 64]\n"
    "            SEN169_FP16 lx+0 [128, 2]\n"
    "            SEN169_FP16 arg0+slot0+0 [128, 2]\n"
    "    endkernel\n"
    "endloop\n"
    "halt\n";

static isa_program *parsed(arena *memory, const char *source)
{
    isa_program *program = NULL;
    assert_ok(isa_parse(memory, source, "x.isa", &program));
    return program;
}

// The size of the argument, core 1's parameter, the count of the loop and the first extent.
static void corrections__a_launch_replaces_them(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program = parsed(memory, corrected_text), *out, *again;
    const int64_t values[] = {8192, 1024, 6};
    assert_string_equal(sample_print(memory, program), corrected_text);
    uint8_t *bytes;
    size_t count;
    assert_ok(isa_encode(memory, program, &bytes, &count));
    memset(bytes + ISA_ARGUMENT_TABLE_OFFSET, 0xAB, 4 * 8);   // what a launch patches
    assert_ok(isa_decode(memory, bytes, count, &again));
    assert_string_equal(sample_print(memory, again), corrected_text);
    assert_ok(isa_correct(memory, again, values, &out));
    assert_int_equal(out->arg_bytes[0], 8192);
    assert_int_equal(out->kernels.items[0].parameters[1], 1024);
    assert_int_equal(out->code.items[0]->count, 6);
    assert_int_equal(out->code.items[2]->extent[0], 6);
    assert_int_equal(out->corrections.count, 0);
    assert_ok(isa_verify(out));
    assert_true(isa_same_form(out, program));
    assert_int_equal(program->code.items[0]->count, 4);
    const int64_t beyond[] = {8192, 1024, 1LL << 32};
    assert_error(isa_correct(memory, again, beyond, &out), SPYRE_INVALID_ARGUMENT, "instruction 0");
    arena_destroy(memory);
}

// Of 1/n the number is n; other constants are corrected by their bits.
static void corrections__constants(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program = parsed(memory,
        "program\nvalues 2\ncorrect 11 value 1\nkernel 0 \"\" cores 0x00000001 slots 0\ncode\n"
        "kernel 0\nfill (0.0625) [8]\nIEEE_FP32 lx+0 [4]\nendkernel\nhalt\n"), *out;
    uint32_t count = isa_number_count(program);
    int64_t *numbers = ARENA_NEW(memory, int64_t, count), values[] = {0, 48};
    isa_numbers(program, numbers);
    assert_int_equal(numbers[count - 1], 16);
    program->corrections.items[0].number = count - 1;
    assert_ok(isa_correct(memory, program, values, &out));
    assert_true(out->code.items[1]->constant[0] == (float)(1 / 48.0));
    assert_true(isa_same_form(program, out));
    values[1] = -1 - (int64_t)0xC0400000;
    assert_ok(isa_correct(memory, program, values, &out));
    assert_true(out->code.items[1]->constant[0] == -3);
    isa_numbers(out, numbers);
    assert_int_equal(numbers[count - 1], values[1]);
    const int64_t none[] = {0, -1 - (int64_t)UINT32_MAX - 1, -1 - (int64_t)0xFFC00000};
    for (size_t n = 0; n < sizeof none / sizeof *none; n++) {
        values[1] = none[n];
        assert_error(isa_correct(memory, program, values, &out), SPYRE_INVALID_ARGUMENT,
                     "instruction 1");
    }
    arena_destroy(memory);
}

static void corrections__corrections_beyond_the_program(void **state)
{
    (void)state;
    arena *memory = arena_create();
    static const struct { uint32_t number, value; } bad[] = {{1u << 20, 0}, {34, 3}, {2, 0}};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        isa_program *program = parsed(memory, corrected_text);
        program->corrections.items[3] = (isa_correction){bad[n].number, bad[n].value};
        assert_error(isa_verify(program), SPYRE_INVALID_ARGUMENT, "correction 3");
    }
    arena_destroy(memory);
}

// [1, 4, 8, 2] of one run, inside a loop of one round, is a dim of 64 without strides of the rest.
static void corrections__simplified_programs_are_equal(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *long_form = parsed(memory,
        "program\nargument 0 bytes 0\nkernel 0 \"\" cores 0x00000001 slots 0\ncode\nloop 1\n"
        "kernel 0\nload [1, 4, 8, 2]\nSEN169_FP16 lx+0 [77, 32, 4, 2] loops [128]\n"
        "SEN169_FP16 arg0+0 [1, 32, 4, 2] loops [4096]\nendkernel\nendloop\nhalt\n");
    isa_program *short_form = parsed(memory,
        "program\nargument 0 bytes 0\nkernel 0 \"\" cores 0x00000001 slots 0\ncode\nloop 1\n"
        "kernel 0\nload [64]\nSEN169_FP16 lx+0 [2]\nSEN169_FP16 arg0+0 [2]\n"
        "endkernel\nendloop\nhalt\n");
    assert_false(isa_same_form(long_form, short_form));
    isa_simplify(long_form);
    assert_string_equal(sample_print(memory, long_form), sample_print(memory, short_form));
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corrections__a_launch_replaces_them),
        cmocka_unit_test(corrections__constants),
        cmocka_unit_test(corrections__corrections_beyond_the_program),
        cmocka_unit_test(corrections__simplified_programs_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
