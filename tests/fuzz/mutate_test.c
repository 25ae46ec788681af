// SPDX-License-Identifier: Apache-2.0
//
// The mutator reaches what a hand would try: lists emptied, items dropped, extreme numbers, lines
// and words of another input. Each within some thousand seeded mutations of one text.
#include "fuzz/mutate.h"

#include <stdbool.h>
#include <string.h>

#include "unit/check.h"

enum { CAPACITY = 512, ATTEMPTS = 20000 };

static const char own[] = "buffer b0 input f16 tensor(4:1 2:4) layout(0* 1)\n"
                          "op 0 mul for(c0<4)\n"
                          "return b0\n";
static const char other[] = "constant b9 value(0.5)\nreturn b9\n";

static size_t mutate(uint8_t *bytes, const char *from, uint64_t *random)
{
    size_t count = strlen(from);
    memcpy(bytes, from, count);
    return mutate_structure(bytes, count, CAPACITY, (const uint8_t *)other, strlen(other), random);
}

static bool reaches(const char *wanted)
{
    uint8_t bytes[CAPACITY + 1];
    uint64_t random = 1;
    for (int n = 0; n < ATTEMPTS; n++) {
        bytes[mutate(bytes, own, &random)] = 0;
        if (strstr((const char *)bytes, wanted)) return true;
    }
    return false;
}

static void mutate__reaches_what_a_hand_does(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "tensor() ",                                // a list emptied
        "tensor(4:1 4:1 2:4)",                      // an item doubled
        "tensor(2:4) ",                             // an item dropped
        "tensor(9223372036854775807:1",             // an extreme number
        "op 0 mul for(c0<4)\nop 0 mul for(c0<4)\n", // a line doubled
        "constant b9 value(0.5)\n",                 // a line of the other input
        "tensor(0.5)",                              // a part of the other input
        "b0 buffer ",                               // words swapped
        "b0 b0 ",                                   // a word doubled
        "buffer input",                             // a word dropped
    };
    for (size_t n = 0; n < sizeof wanted / sizeof *wanted; n++) {
        if (!reaches(wanted[n])) fail_msg("never reached: %s", wanted[n]);
    }
}

static void mutate__stays_within_its_room(void **state)
{
    (void)state;
    enum { SMALL = 40, GUARD = 0x5a };
    uint64_t random = 7;
    for (int n = 0; n < ATTEMPTS; n++) {
        uint8_t bytes[SMALL + 8];
        memset(bytes, GUARD, sizeof bytes);
        memcpy(bytes, own, SMALL);
        size_t count = mutate_structure(bytes, SMALL, SMALL, (const uint8_t *)other,
                                        n % 2 ? strlen(other) : 0, &random);
        assert_true(count <= SMALL);
        for (size_t i = SMALL; i < sizeof bytes; i++) assert_int_equal(bytes[i], GUARD);
    }
}

static void mutate__words_of_other_inputs(void **state)
{
    (void)state;
    uint64_t random = 3;
    bool shorter = false, longer = false, extreme = false;
    for (int n = 0; n < ATTEMPTS; n++) {
        uint8_t bytes[CAPACITY] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        static const uint8_t largest[8] = {255, 255, 255, 255, 255, 255, 255, 127};
        size_t count = mutate_structure(bytes, 16, CAPACITY, NULL, 0, &random);
        shorter |= count < 16;
        longer |= count > 16;
        extreme |= count == 16 && memcmp(bytes + 8, largest, 8) == 0;
    }
    assert_true(shorter && longer && extreme);
}

static void mutate__same_state_same_bytes(void **state)
{
    (void)state;
    uint64_t first = 5, second = 5;
    for (int n = 0; n < 100; n++) {
        uint8_t a[CAPACITY], b[CAPACITY];
        size_t count = mutate(a, own, &first);
        assert_int_equal(mutate(b, own, &second), count);
        assert_memory_equal(a, b, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutate__reaches_what_a_hand_does),
        cmocka_unit_test(mutate__stays_within_its_room),
        cmocka_unit_test(mutate__words_of_other_inputs),
        cmocka_unit_test(mutate__same_state_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
