// SPDX-License-Identifier: Apache-2.0
#include "unit/isa/sample.h"

static void text__parse_and_print_are_inverse(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program = sample_program(memory);
    assert_string_equal(sample_print(memory, program), sample_text);
    arena_destroy(memory);
}

static void text__every_instruction_is_in_the_sample(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program = sample_program(memory);
    for (int opcode = 0; opcode < ISA_OPCODE_COUNT; opcode++)
        assert_non_null(sample_find(program, (isa_opcode)opcode));
    arena_destroy(memory);
}

static void text__fields(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program = sample_program(memory);
    assert_int_equal(program->arg_count, 2);
    assert_int_equal(program->arg_bytes[0], 65536);
    const isa_kernel *kernel = &program->kernels.items[0];
    assert_string_equal(kernel->location, "model \"m\".py:12\t");
    assert_int_equal(kernel->parameters[0], 0);
    assert_int_equal(kernel->parameters[4 + 1], -128);
    const isa_instruction *load = sample_find(program, ISA_LOAD);
    assert_int_equal(load->queue, ISA_QUEUE_LOAD);
    assert_int_equal(load->dim_count, 2);
    assert_int_equal(load->operand[1].space, ISA_SPACE_MEMORY);
    assert_int_equal(load->operand[1].offset, -256);
    assert_int_equal(load->operand[1].loop_stride[0], 65536);
    const isa_instruction *gather = sample_find(program, ISA_GATHER);
    assert_int_equal(gather->row_count, 100);
    assert_int_equal(gather->operand[1].slot, ISA_NO_SLOT);
    const isa_instruction *wait = sample_find(program, ISA_WAIT);
    assert_int_equal(wait->queue, ISA_QUEUE_PT);
    assert_int_equal(wait->token, 31);
    const isa_instruction *clip = sample_find(program, ISA_VECTOR);
    assert_true(clip->constant[1] == 0.1f);
    arena_destroy(memory);
}

static void text__comments_and_line_ends(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program;
    assert_ok(
        isa_parse(memory, "program # p\r\ncode#c\nloop 0x2 endloop halt # end", "t", &program));
    assert_int_equal(program->code.count, 3);
    assert_int_equal(program->code.items[0]->count, 2);
    arena_destroy(memory);
}

static void text__errors_name_file_and_place(void **state)
{
    (void)state;
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"", "t:1:1: expected program"},
        {"program\nargument 1 bytes 0\n", "t:2:11: expected argument 0"},
        {"program\nkernel 0 \"a", "t:2:10: the string does not end on its line"},
        {"program\nkernel 0 \"\\q\"",
         "t:2:10: escapes in a string are \\\" \\\\ and \\xHH"},
        {"program\ncode\njump 1\n", "t:3:1: jump is no instruction"},
        {"program\ncode\nwait seq2 1\n", "t:3:6: expected a queue"},
        {"program\ncode\nwait load 32\n", "t:3:11: a token must be 0 to 31"},
        {"program\ncode\nloop 99999999999999999999\n",
         "t:3:6: 99999999999999999999 is beyond 64 bits"},
        {"program\ncode\nvector nothing [1]\n", "t:3:15: nothing is no opfunc"},
        {"program\ncode\nload [4]\n  SEN1 lx+0 [1]\n", "t:4:3: SEN1 is no format"},
        {"program\ncode\nload [4]\n  IEEE_FP32 lx+0 [1, 2]\n", "t:4:24: 2 strides for 1 extents"},
        {"program\ncode\nload [0]\n", "t:3:9: an extent is 0"},
        {"program\ncode\nfill [4]\n", "t:3:6: expected '('"},
        {"program\ncode\nloop 1\nendloop\n", "t: the program has no halt at its end"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        arena *memory = arena_create();
        isa_program *program = NULL;
        spyre_status status = isa_parse(memory, cases[n].source, "t", &program);
        assert_non_null(status);
        assert_string_equal(spyre_status_message(status), cases[n].message);
        spyre_status_free(status);
        arena_destroy(memory);
    }
}

// Whatever becomes of the text, the parser refuses it or gives a program that prints and parses.
static void text__mutations(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint32_t accepted = 0;
    static const char alphabet[] = "0123456789 \n[](),+-\"#lxwaitSENarg:";
    for (int trial = 0; trial < 3000; trial++) {
        char mutated[sizeof sample_text];
        memcpy(mutated, sample_text, sizeof sample_text);
        uint32_t changes = 1 + (uint32_t)check_random(&seed) % 3;
        for (uint32_t n = 0; n < changes; n++) {
            size_t at = (size_t)(check_random(&seed) >> 16) % (sizeof sample_text - 1);
            size_t c = (size_t)(check_random(&seed) >> 16) % sizeof alphabet;
            mutated[at] = alphabet[c];
        }
        arena *memory = arena_create();
        isa_program *program, *again;
        spyre_status status = isa_parse(memory, mutated, "t", &program);
        if (!status) {
            accepted++;
            char *printed = sample_print(memory, program);
            assert_ok(isa_parse(memory, printed, "t", &again));
            assert_string_equal(sample_print(memory, again), printed);
        }
        spyre_status_free(status);
        arena_destroy(memory);
    }
    assert_true(accepted > 0 && accepted < 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text__parse_and_print_are_inverse),
        cmocka_unit_test(text__every_instruction_is_in_the_sample),
        cmocka_unit_test(text__fields),
        cmocka_unit_test(text__comments_and_line_ends),
        cmocka_unit_test(text__errors_name_file_and_place),
        cmocka_unit_test(text__mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
