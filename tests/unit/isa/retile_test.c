// SPDX-License-Identifier: Apache-2.0
#include "unit/isa/sample.h"

#include "isa/retile.h"

#define HEAD(parameter)                                 \
    "program\n"                                         \
    "argument 0 bytes 1024\n"                           \
    "argument 1 bytes 1024\n"                           \
    "kernel 0 \"0_abs\" cores 0x00000003 slots 2\n"     \
    "    core 1: " parameter " 512\n"                   \
    "code\n"                                            \
    "kernel 0\n"

static isa_program *parsed(arena *memory, const char *source)
{
    isa_program *program = NULL;
    assert_ok(isa_parse(memory, source, "x.isa", &program));
    return program;
}

// Tiles of 256 bytes of argument 0, 1024 apart.
static const isa_tiling tilings[] = {{256, 1024}, {0, 0}};

static void retile__a_walk_through_tiles_becomes_two(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *out;
    const isa_program *program = parsed(memory, HEAD("512")
                                        "    loop 2\n"
                                        "        load [128]\n"
                                        "            SEN169_FP16 lx+0 [2]\n"
                                        "            SEN169_FP16 arg0+slot0+128 [2] loops [256]\n"
                                        "        load [2, 256]\n"
                                        "            SEN169_FP16 lx+1024 [512, 2]\n"
                                        "            SEN169_FP16 arg0+slot0+0 [512, 2]\n"
                                        "    endloop\n"
                                        "    store [256]\n"
                                        "        SEN169_FP16 arg1+slot1+0 [2]\n"
                                        "        SEN169_FP16 lx+0 [2]\n"
                                        "endkernel\n"
                                        "halt\n");
    assert_error(isa_retile(memory, program, tilings, &out), SPYRE_UNSUPPORTED,
                 "kernel 0_abs: instruction 2 (load), operand 1, argument 0: it goes from one tile "
                 "into the next");
    program = parsed(memory, HEAD("512")
                     "    loop 2\n"
                     "        load [64]\n"
                     "            SEN169_FP16 lx+0 [2]\n"
                     "            SEN169_FP16 arg0+slot0+128 [2] loops [256]\n"
                     "        load [256]\n"
                     "            SEN169_FP16 lx+1024 [2]\n"
                     "            SEN169_FP16 arg0+slot0+0 [2]\n"
                     "    endloop\n"
                     "    store [256]\n"
                     "        SEN169_FP16 arg1+slot1+0 [2]\n"
                     "        SEN169_FP16 lx+0 [2]\n"
                     "endkernel\n"
                     "halt\n");
    assert_ok(isa_retile(memory, program, tilings, &out));
    assert_string_equal(sample_print(memory, out),
                        "program\n"
                        "argument 0 bytes 3328\n"
                        "argument 1 bytes 1024\n"
                        "kernel 0 \"0_abs\" cores 0x00000003 slots 2\n"
                        "    core 1: 2048 512\n"
                        "code\n"
                        "kernel 0\n"
                        "    loop 2\n"
                        "        load [64]\n"
                        "            SEN169_FP16 lx+0 [2]\n"
                        "            SEN169_FP16 arg0+slot0+128 [2] loops [1024]\n"
                        "        load [2, 128]\n"
                        "            SEN169_FP16 lx+1024 [256, 2]\n"
                        "            SEN169_FP16 arg0+slot0+0 [1024, 2]\n"
                        "    endloop\n"
                        "    store [256]\n"
                        "        SEN169_FP16 arg1+slot1+0 [2]\n"
                        "        SEN169_FP16 lx+0 [2]\n"
                        "endkernel\n"
                        "halt\n");
    arena_destroy(memory);
}

static void retile__what_has_no_strides_of_its_own_is_refused(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *out;
    const char *const others[][2] = {
        {HEAD("384") "    load [64]\n"
                     "        SEN169_FP16 lx+0 [2]\n"
                     "        SEN169_FP16 arg0+slot0+128 [2]\n"
                     "endkernel\nhalt\n",
         "cores begin at other places of their tiles"},
        {HEAD("512") "    load [64]\n"
                     "        SEN169_FP16 lx+0 [2]\n"
                     "        SEN169_FP16 arg0+slot0+0 [2]\n"
                     "    load [64]\n"
                     "        SEN169_FP16 lx+0 [2]\n"
                     "        SEN169_FP16 arg1+slot0+0 [2]\n"
                     "endkernel\nhalt\n",
         "its slot is another argument's, too"},
    };
    for (uint32_t n = 0; n < sizeof others / sizeof *others; n++)
        assert_error(isa_retile(memory, parsed(memory, others[n][0]), tilings, &out),
                     SPYRE_UNSUPPORTED, others[n][1]);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retile__a_walk_through_tiles_becomes_two),
        cmocka_unit_test(retile__what_has_no_strides_of_its_own_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
