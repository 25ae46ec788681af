// SPDX-License-Identifier: Apache-2.0
//
// Rows so few that packing columns would cost more than multiplying: columns stay codes, which
// registers widen (card/simd/simd_multiply.h). An fp32 with the bits of a code where they belong,
// but its exponent as it is, is 2^-96 of the code's value, so rows are multiplied by 2^96 before:
// every product is what it was. Where a row or a code has no such form the part packs its columns.
#include <string.h>

#include "card/matmul/matmul_job.h"
#include "base/target_clones.h"
#include "tensor/convert.h"
#include "tensor/numeric.h"

enum { MOST_RUNS = 512 };

static size_t run_of(const product *x)
{
    return x->runs.items[0].run;
}

// All runs but the last are equal, and none lies across two packed sticks.
static bool runs_are_even(const product *x)
{
    size_t run = run_of(x);
    if (x->runs.count > MOST_RUNS || (x->runs.count > 1 && MATMUL_RUN % run)) return false;
    for (uint32_t n = 1; n + 1 < x->runs.count; n++)
        if (x->runs.items[n].run != run) return false;
    return x->runs.items[x->runs.count - 1].run <= run;
}

simd_multiplier *matmul_choose_few(const matmul_job *j, size_t rows)
{
    const product *x = j->x;
    const simd_table *table = simd_in_use();
    // A host without fma has a block in portable C only.
    if (j->block == matmul_block_portable && table != &simd_portable) return NULL;
    if (x->format != SPYRE_FORMAT_SEN169_FP16 || x->lanes != SIMD_LANES) return NULL;
    if (rows > MATMUL_PASSES * table->few_rows || !runs_are_even(x)) return NULL;
    return table->multiply;
}

// --- Scaled rows

BASE_CLONES
static uint32_t largest_magnitude(const float *values, size_t count)
{
    uint32_t largest = 0;
    for (size_t n = 0; n < count; n++) {
        uint32_t bits;
        memcpy(&bits, values + n, sizeof bits);
        bits &= 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

BASE_CLONES
static void scale(float *values, size_t count, float factor)
{
    for (size_t n = 0; n < count; n++) values[n] *= factor;
}

static size_t packed_floats(const matmul_part *p)
{
    return matmul_share(p->x->depth, MATMUL_RUN) * MATMUL_RUN * p->count;
}

// Behind the last element of k in each row.
static void clear_rest(matmul_part *p)
{
    size_t rest = p->x->depth % MATMUL_RUN, last = p->x->depth - rest;
    if (!rest) return;
    for (size_t row = 0; row < p->count; row++)
        memset(p->packed_rows + last * p->count + row * MATMUL_RUN + rest, 0,
               (MATMUL_RUN - rest) * sizeof(float));
}

void matmul_scale_few(matmul_part *p)
{
    clear_rest(p);
    bool fits = largest_magnitude(p->packed_rows, packed_floats(p)) < float_bits(SIMD_SCALE_LIMIT);
    if (fits) scale(p->packed_rows, packed_floats(p), SIMD_SCALE);
    else p->few = NULL;
}

// --- Multiplying

// Bytes from a stick of columns b to the next one of the part, if there is one.
static int64_t next_stick(const matmul_part *p, uint32_t b, size_t stick)
{
    const product_index *columns = p->x->columns.items;
    const uint8_t *here = p->job->b[b] + columns[stick++].at[PRODUCT_B];
    if (stick == matmul_sticks_of(p, b).end) {
        if (++b == p->job->b_count) return 0;
        stick = matmul_sticks_of(p, b).begin;
        if (stick == matmul_sticks_of(p, b).end) return 0;
    }
    return p->job->b[b] + columns[stick].at[PRODUCT_B] - here;
}

bool matmul_add_few(matmul_part *p, matmul_range rows, uint32_t b, size_t stick, float *sums)
{
    const product *x = p->x;
    const uint8_t *columns = p->job->b[b] + p->batch->at[PRODUCT_B] +
                             x->columns.items[stick].at[PRODUCT_B];
    size_t height = rows.end - rows.begin;
    const size_t most = simd_in_use()->few_rows, passes = matmul_share(height, most);
    const uint8_t *lines[MOST_RUNS];
    for (uint32_t n = 0; n < x->runs.count; n++)
        lines[n] = columns + x->runs.items[n].at[PRODUCT_B];
    for (size_t n = 0; n < passes; n++) {
        size_t begin = height * n / passes, end = height * (n + 1) / passes;
        const simd_product part = {.sums = sums + begin * SIMD_LANES,
                                   .a = p->packed_rows + (rows.begin + begin) * MATMUL_RUN,
                                   .a_next = p->count * MATMUL_RUN,
                                   .b = lines,
                                   .line = x->line,
                                   .ahead = next_stick(p, b, stick),
                                   .rows = end - begin,
                                   .depth = x->depth,
                                   .run = run_of(x),
                                   .wanted = matmul_wanted(x)};
        if (p->few(&part)) continue;
        scale(p->packed_rows, packed_floats(p), 1 / SIMD_SCALE);
        p->few = NULL;
        return false;
    }
    return true;
}
