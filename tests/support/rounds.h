// SPDX-License-Identifier: Apache-2.0
#ifndef SPYRE_TEST_ROUNDS_H
#define SPYRE_TEST_ROUNDS_H

// How often random tests repeat. SPYRE_TEST_ROUNDS scales them all, in per cent (100 when unset):
// sanitizers find a fault in the first rounds or not at all and run a share (tests/CMakeLists.txt),
// `make test-long` runs ten times as many.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint32_t test_rounds_percent(void)
{
    const char *wanted = getenv("SPYRE_TEST_ROUNDS");
    if (!wanted) return 100;
    char *end;
    unsigned long percent = strtoul(wanted, &end, 10);
    if (end == wanted || *end || percent < 1 || percent > 100000) {
        fprintf(stderr, "SPYRE_TEST_ROUNDS: '%s' is no per cent from 1 to 100000\n", wanted);
        exit(EXIT_FAILURE);
    }
    return (uint32_t)percent;
}

// How many rounds of `standard`, at least one.
static inline uint32_t test_rounds(uint32_t standard)
{
    uint64_t rounds = (uint64_t)standard * test_rounds_percent() / 100;
    return rounds ? (uint32_t)rounds : 1;
}

// The distance between the cases that run of a list that is walked whole at 100 per cent and more.
static inline uint32_t test_stride(void)
{
    uint32_t percent = test_rounds_percent();
    return percent < 100 ? 100 / percent : 1;
}

#endif
