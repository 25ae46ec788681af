// SPDX-License-Identifier: Apache-2.0
#include "compile/statistics.h"

#include <stdatomic.h>
#include <string.h>

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

// The front's stages follow the rows.
static const char *const stage_names[] = {
    "front_build_us",
#define PASS_ROW(name, kind, summary) "pass_" #name "_us",
#include "front/pass.def"
#undef PASS_ROW
    "front_invariants_us", "front_emit_us",
};

enum { STAGE_COUNT = sizeof stage_names / sizeof stage_names[0] };

static _Atomic int64_t stage_ns[STAGE_COUNT];

static uint32_t stage_of(const char *name)
{
    if (strcmp(name, "build") == 0) return 0;
    if (strcmp(name, "invariants") == 0) return FRONT_PASS_COUNT + 1;
    if (strcmp(name, "emit") == 0) return FRONT_PASS_COUNT + 2;
    uint32_t pass = 0;
    while (strcmp(front_passes[pass].name, name) != 0) pass++;
    return pass + 1;
}

void statistics_add_front(const pass_times *records)
{
    for (uint32_t i = 0; i < records->count; i++) {
        const pass_time *r = &records->items[i];
        atomic_fetch_add_explicit(&stage_ns[stage_of(r->name)], r->ns, memory_order_relaxed);
    }
}

bool spyre_statistic_at(uint32_t index, spyre_statistic *out_statistic)
{
    if (index >= STATISTIC_COUNT + STAGE_COUNT) return false;
    if (index >= STATISTIC_COUNT) {
        uint32_t stage = index - STATISTIC_COUNT;
        *out_statistic =
            (spyre_statistic){stage_names[stage], atomic_load(&stage_ns[stage]) / 1000,
                              "microseconds of processor time in a stage of the front"};
        return true;
    }
    *out_statistic = (spyre_statistic){rows[index].name, atomic_load(&values[index]),
                                       rows[index].meaning};
    return true;
}
