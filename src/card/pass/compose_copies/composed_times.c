// SPDX-License-Identifier: Apache-2.0
//
// What a tile takes the host, roughly: enough to tell a copy of runs from one that takes elements
// one by one. Measured on an AMD EPYC with AVX-512, one thread.
#include "card/pass/compose_copies/compose.h"

#define TILE_NS 200.0                       // whatever its size
#define RUN_NS 3.0
#define BYTE_NS 0.03
#define NEAR_RUN_NS 10.0                    // of words of which each is one of few
#define NEAR_NS 0.12                        // such a word (tile_copy.c)
#define TRANSPOSED_NS 0.12                  // by blocks
#define ELEMENT_NS 0.7                      // an element alone

enum { BLOCK = 8, NEAR = 4, FEW = 16 };

// A dim along which the elements of an operand are neighbours, long enough; else dim_count.
static uint32_t dim_of_neighbours(const plan_tile *t, uint32_t o, int64_t bytes)
{
    uint32_t d = 0;
    while (d < t->dim_count && (t->stride[o][d] != bytes || t->extent[d] < BLOCK)) d++;
    return d;
}

static double element_ns(const plan_tile *t)
{
    const int64_t bytes = spyre_format_bytes(t->instruction->operand[0].format);
    const uint32_t none = t->dim_count;
    for (uint32_t d = 0; d < t->dim_count; d++) {
        const int64_t step = t->stride[1][d] / bytes;
        if (t->stride[0][d] != bytes || t->extent[d] < 2) continue;
        if (step == 1) return RUN_NS / (double)t->extent[d] + BYTE_NS * (double)bytes;
        if (bytes == sizeof(uint16_t) && (step == -1 || (step > 1 && step <= NEAR)) &&
            t->extent[d] > FEW)
            return NEAR_RUN_NS / (double)t->extent[d] + NEAR_NS;
    }
    const bool blocks = bytes == sizeof(uint16_t) && dim_of_neighbours(t, 0, bytes) < none &&
                        dim_of_neighbours(t, 1, bytes) < none;
    return blocks ? TRANSPOSED_NS : ELEMENT_NS;
}

double compose_ns(const plan_tile *tile)
{
    const bool copies = contents_is_copy(tile->instruction);
    return TILE_NS + compose_elements(tile) * (copies ? element_ns(tile) : TRANSPOSED_NS);
}
