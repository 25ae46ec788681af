// SPDX-License-Identifier: Apache-2.0
//
// Random programs in memory argument 0: fast mode leaves the bytes of exact mode, on any number of
// host threads, every time.
#ifndef TESTS_CARD_FAST_AGAINST_EXACT_H
#define TESTS_CARD_FAST_AGAINST_EXACT_H

#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    void (*add_kernels)(isa_program *p, uint64_t *seed);
    uint64_t seed;
    uint32_t memory_bytes, most_threads, programs;  // programs a number of threads
} random_programs;

static inline void run_from(card *c, card_program *loaded, card_mode mode, const uint8_t *initial,
                            uint32_t bytes)
{
    card_argument argument = {0, bytes};
    memcpy(card_memory(c, 0, bytes), initial, bytes);
    card_program_forget_lx(loaded);
    card_wipe_lx(c);
    card_set_mode(c, mode);
    assert_ok(card_launch(c, loaded, &argument, 1, NULL));
}

static inline void check_random_program(const random_programs *r, card *c, uint64_t *seed,
                                        const uint8_t *initial, uint8_t *exact)
{
    uint32_t bytes = r->memory_bytes;
    isa_program *p = new_program(1);
    r->add_kernels(p, seed);
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(c, p, &loaded));
    run_from(c, loaded, CARD_EXACT, initial, bytes);
    memcpy(exact, card_memory(c, 0, bytes), bytes);
    for (int again = 0; again < 3; again++) {
        run_from(c, loaded, CARD_FAST, initial, bytes);
        assert_memory_equal(exact, card_memory(c, 0, bytes), bytes);
    }
    card_unload(c, loaded);
    free_program(p);
}

static inline void check_random_programs(const random_programs *r)
{
    uint64_t seed = r->seed;
    uint8_t *initial = malloc(r->memory_bytes), *exact = malloc(r->memory_bytes);
    assert_non_null(initial);
    assert_non_null(exact);
    for (uint32_t n = 0; n < r->memory_bytes; n++) initial[n] = (uint8_t)next_random(&seed);
    for (uint32_t threads = 1; threads <= r->most_threads; threads++) {
        card *c = card_with_threads(threads);
        for (uint32_t n = 0; n < r->programs; n++)
            check_random_program(r, c, &seed, initial, exact);
        card_destroy(c);
    }
    free(exact);
    free(initial);
}

#endif
