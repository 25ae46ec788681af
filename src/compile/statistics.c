// SPDX-License-Identifier: Apache-2.0
#include "compile/statistics.h"

#include <stdatomic.h>
#include <time.h>

#include "spyre/compile.h"

static const struct {
    const char *name, *meaning;
} rows[STATISTIC_COUNT] = {
#define STATISTIC_ROW(id, name, meaning) {#name, meaning},
#include "compile/statistics.def"
#undef STATISTIC_ROW
};

static _Atomic int64_t values[STATISTIC_COUNT];

void statistics_add(statistic which, int64_t amount)
{
    atomic_fetch_add_explicit(&values[which], amount, memory_order_relaxed);
}

int64_t statistics_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

bool spyre_statistic_at(uint32_t index, spyre_statistic *out_statistic)
{
    if (index >= STATISTIC_COUNT) return false;
    *out_statistic = (spyre_statistic){rows[index].name, atomic_load(&values[index]),
                                       rows[index].meaning};
    return true;
}
