// SPDX-License-Identifier: Apache-2.0
//
// Counters of the process; any thread.
#ifndef COMPILE_STATISTICS_H
#define COMPILE_STATISTICS_H

#include <stdint.h>

#include "front/front.h"

typedef enum {
#define STATISTIC_ROW(id, name, meaning) STATISTIC_##id,
#include "compile/statistics.def"
#undef STATISTIC_ROW
    STATISTIC_COUNT
} statistic;

void statistics_add(statistic which, int64_t amount);

// Adds what the stages of a front took.
void statistics_add_front(const pass_times *records);

#endif
