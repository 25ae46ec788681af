// SPDX-License-Identifier: Apache-2.0
//
// Outputs of a random graph, run several times: all runs agree bit for bit, the first one with the
// graph's own numbers up to rounding.
#ifndef TESTS_RANDOM_OUTPUTS_H
#define TESTS_RANDOM_OUTPUTS_H

#include "support/random_op.h"

enum { RANDOM_MOST_OUTPUTS = 8, RANDOM_MOST_RUNS = 6 };

typedef struct {
    const random_value *value[RANDOM_MOST_OUTPUTS];
    void *got[RANDOM_MOST_RUNS][RANDOM_MOST_OUTPUTS];
    uint32_t count;
} random_outputs;

static inline size_t random_bytes_of(const random_value *value)
{
    return (size_t)value->count *
           (value->dtype == SPYRE_DTYPE_F16 ? sizeof(uint16_t) : sizeof(float));
}

static inline double random_element(const random_value *value, const void *storage, int64_t at)
{
    uint16_t half;
    float single;
    if (value->dtype == SPYRE_DTYPE_F16) {
        memcpy(&half, (const char *)storage + at * 2, sizeof half);
        return (double)fp16_to_float(half);
    }
    memcpy(&single, (const char *)storage + at * 4, sizeof single);
    return (double)single;
}

static inline void random_outputs_choose(random_graph *g, random_outputs *out)
{
    for (uint32_t i = g->count; i-- > 0 && out->count < RANDOM_MOST_OUTPUTS;) {
        if (!g->value[i].computed || (out->count > 0 && !random_chance(g, 40))) continue;
        if (spyre_graph_add_output(g->run.graph, g->value[i].id)) abort();
        out->value[out->count++] = &g->value[i];
    }
}

// Room for what run number `run` gives.
static inline void random_outputs_room(random_graph *g, random_outputs *out, uint32_t run)
{
    for (uint32_t i = 0; i < out->count; i++)
        out->got[run][i] = random_own(g, random_bytes_of(out->value[i]));
}

// What is wrong with the results of so many runs, as a line in `out_text`; false when nothing is.
static inline bool random_outputs_differ(const random_outputs *out, uint32_t runs,
                                         char out_text[128])
{
    for (uint32_t i = 0; i < out->count; i++) {
        const random_value *value = out->value[i];
        for (uint32_t run = 1; run < runs; run++) {
            if (memcmp(out->got[run][i], out->got[0][i], random_bytes_of(value)) == 0) continue;
            snprintf(out_text, 128, "output %u: run %u differs", i, run);
            return true;
        }
        for (int64_t at = 0; value->checked && at < value->count; at++) {
            double found = random_element(value, out->got[0][i], at), wanted = value->storage[at];
            if (fabs(found - wanted) <= 4 * value->error + 0.002) continue;
            snprintf(out_text, 128, "output %u, element %lld: %g, not %g", i, (long long)at, found,
                     wanted);
            return true;
        }
    }
    return false;
}

#endif
