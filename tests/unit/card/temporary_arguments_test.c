// SPDX-License-Identifier: Apache-2.0
//
// What a program stores to a temporary argument, and then holds in registers, is stored where
// something reads it, and only there.
#include "one_card.h"

#include <string.h>

#include "isa/isa.h"

enum { ELEMENTS = 4096, BYTES = 2 * ELEMENTS, ARGUMENTS = 3, UNTOUCHED = 0x55 };

// A kernel on core 0 that loads, computes and stores.
#define KERNEL(number, op, sizes, strides, to, from)                     \
    "kernel " number "\n"                                                \
    "    load [" sizes "]\n"                                             \
    "        SEN169_FP16 lx+0 [" strides "]\n"                           \
    "        SEN169_FP16 " from " [" strides "]\n"                       \
    "    signal load 0\n"                                                \
    "    wait sfp 0\n"                                                   \
    "    vector " op " [" sizes "]\n"                                    \
    "        SEN169_FP16 lx+8192 [" strides "]\n"                        \
    "        SEN169_FP16 lx+0 [" strides "]\n"                           \
    "    signal sfp 1\n"                                                 \
    "    wait store 1\n"                                                 \
    "    store [" sizes "]\n"                                            \
    "        SEN169_FP16 " to " [" strides "]\n"                         \
    "        SEN169_FP16 lx+8192 [" strides "]\n"                        \
    "endkernel\n"

// Argument 1 = -argument 0, argument 2 = |argument 1|; then a third kernel.
static const char kernels[] =
    "program\n"
    "argument 0 bytes 8192\n"
    "argument 1 bytes 8192\n"
    "argument 2 bytes 8192\n"
    "kernel 0 \"neg\" cores 0x1 slots 0\n"
    "kernel 1 \"abs\" cores 0x1 slots 0\n"
    "kernel 2 \"last\" cores 0x1 slots 0\n"
    "code\n" KERNEL("0", "neg", "64, 64", "128, 2", "arg1+0", "arg0+0")
    KERNEL("1", "abs", "64, 64", "128, 2", "arg2+0", "arg1+0")
    KERNEL("2", "neg", "64", "2", "arg2+0", "%s")
    "halt\n";

typedef struct {
    const char *from;                       // what the third kernel takes
    uint32_t temporary;
    bool stores;                            // argument 1 must be stored
} expectation;

static uint8_t initial[ARGUMENTS * BYTES], exact[ARGUMENTS * BYTES];

static void run(const isa_program *program, card_mode mode, uint32_t temporary)
{
    card *c = the_card;
    card_program *loaded;
    card_argument arguments[ARGUMENTS];
    memcpy(card_memory(c, 128, sizeof initial), initial, sizeof initial);
    for (uint32_t k = 0; k < ARGUMENTS; k++)
        arguments[k] = (card_argument){128 + (uint64_t)k * BYTES, BYTES};
    assert_ok(card_load_with(c, program, temporary, &loaded));
    card_program_forget_lx(loaded);
    card_set_mode(c, mode);
    assert_ok(card_launch(c, loaded, arguments, ARGUMENTS, NULL));
    card_unload(c, loaded);
}

static void temporary_arguments__is_stored_where_it_is_read(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {"arg2+0", 1u << 1, false},
        {"arg2+0", 0, true},
        {"arg2+0", 1u << 0 | 1u << 2, true},
        {"arg1+128", 1u << 1, true},
    };
    uint64_t seed = 11;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const expectation *e = &cases[n];
        isa_program *program;
        arena *memory = arena_create();
        const char *source = arena_printf(memory, kernels, e->from);
        assert_ok(isa_parse(memory, source, "pair", &program));
        for (size_t at = 0; at < sizeof initial; at++) initial[at] = (uint8_t)check_random(&seed);
        memset(initial + BYTES, UNTOUCHED, 2 * BYTES);
        run(program, CARD_EXACT, e->temporary);
        memcpy(exact, card_memory(the_card, 128, sizeof exact), sizeof exact);
        run(program, CARD_FAST, e->temporary);
        const uint8_t *fast = card_memory(the_card, 128, sizeof exact);
        assert_memory_equal(fast, exact, BYTES);
        assert_memory_equal(fast + 2 * BYTES, exact + 2 * BYTES, BYTES);
        assert_int_equal(memcmp(fast + BYTES, exact + BYTES, BYTES) == 0, e->stores);
        assert_int_equal(memcmp(fast + BYTES, initial + BYTES, BYTES) == 0, !e->stores);
        arena_destroy(memory);
    }
}

// Cores have a row each: argument 1 = -argument 0, argument 2 = |argument 0|, which become rows of
// all cores; then core 0 takes a core's row of argument 1.
#define ROW(number, op, to)                                              \
    "kernel " number "\n"                                                \
    "    load [64]\n"                                                    \
    "        SEN169_FP16 lx+0 [2]\n"                                     \
    "        SEN169_FP16 arg0+slot0+0 [2]\n"                             \
    "    signal load 0\n"                                                \
    "    wait sfp 0\n"                                                   \
    "    vector " op " [64]\n"                                           \
    "        SEN169_FP16 lx+8192 [2]\n"                                  \
    "        SEN169_FP16 lx+0 [2]\n"                                     \
    "    signal sfp 1\n"                                                 \
    "    wait store 1\n"                                                 \
    "    store [64]\n"                                                   \
    "        SEN169_FP16 " to "+slot0+0 [2]\n"                           \
    "        SEN169_FP16 lx+8192 [2]\n"                                  \
    "endkernel\n"
#define CORES "    core 1: 128\n    core 2: 256\n    core 3: 384\n"

static const char rows[] =
    "program\n"
    "argument 0 bytes 8192\n"
    "argument 1 bytes 8192\n"
    "argument 2 bytes 8192\n"
    "kernel 0 \"neg\" cores 0xf slots 1\n" CORES
    "kernel 1 \"abs\" cores 0xf slots 1\n" CORES
    "kernel 2 \"last\" cores 0x1 slots 0\n"
    "code\n" ROW("0", "neg", "arg1") ROW("1", "abs", "arg2")
    KERNEL("2", "neg", "64", "2", "arg2+4096", "arg1+%d")
    "halt\n";

static void temporary_arguments__is_stored_where_another_core_reads_it(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int core = 0; core < 4; core++) {
        isa_program *program;
        arena *memory = arena_create();
        assert_ok(isa_parse(memory, arena_printf(memory, rows, 128 * core), "rows", &program));
        for (size_t at = 0; at < sizeof initial; at++) initial[at] = (uint8_t)check_random(&seed);
        run(program, CARD_EXACT, 1u << 1);
        memcpy(exact, card_memory(the_card, 128, sizeof exact), sizeof exact);
        run(program, CARD_FAST, 1u << 1);
        assert_memory_equal(card_memory(the_card, 128 + 2 * BYTES, BYTES), exact + 2 * BYTES,
                            BYTES);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporary_arguments__is_stored_where_it_is_read),
        cmocka_unit_test(temporary_arguments__is_stored_where_another_core_reads_it),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
