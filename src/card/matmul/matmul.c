// SPDX-License-Identifier: Apache-2.0
//
// From a product for several cores to parts, one a host thread. What threads would pack twice is
// divided among them as far as it pays: each gets some batches, some rows and some sticks of
// columns.
#include "card/matmul/matmul_job.h"

#include <stdlib.h>
#include <string.h>

#include "card/simd/lanes.h"
#include "tensor/convert.h"
#include "tensor/format.h"

enum {
    LEAST_ROWS_BYTES = 512 << 10,       // packed rows: half of the second cache
    MOST_ROWS_BYTES = 1 << 20,
    CHUNK_DEPTH = 512,                  // of k in them
    PANEL_BYTES = 128 << 10,            // packed columns
    FEW_PANEL_BYTES = 32 << 10,         // of which only few rows make use
    PACK_ALIGNMENT = 64,
    PACKING_ROWS = 10,                  // an element is packed in the time of so many products
};

// Significant bits of formats whose products cannot leave fp32's exponent range; 0 for others.
static int fraction_bits(spyre_format format)
{
    if (format == SPYRE_FORMAT_SEN169_FP16) return 10;
    if (format == SPYRE_FORMAT_IEEE_FP16) return 11;
    if (format == SPYRE_FORMAT_SEN143_FP8 || format == SPYRE_FORMAT_SEN152_FP8) return 4;
    return 0;
}

static matmul_block *choose_block(spyre_format format)
{
#if defined(__x86_64__)
    const char *variant = convert_variant();
    if (__builtin_cpu_supports("fma")) {
        if (strcmp(variant, "avx512") == 0) return matmul_block_avx512;
        if (strcmp(variant, "avx2") == 0) return matmul_block_avx2;
    }
#endif
    return fraction_bits(format) ? matmul_block_portable : NULL;
}

bool matmul_is_fast(spyre_format a, spyre_format b)
{
    return a == b && lanes_fits_f32(a) && format_class_of(a) == FORMAT_FLOAT &&
           spyre_format_elements_per_stick(a) % 32 == 0 &&
           choose_block(a) != NULL;
}

// --- The operands of all cores

// Each pair of operands is one product; a core that has the same pair as another gets rows of its
// own. At most `cores` come.
static void add_core(matmul_job *j, const matmul_operands *core, uint32_t cores)
{
    // Mostly they come in the order of their addresses: one above all others is new.
    uintptr_t place = (uintptr_t)(*core)[PRODUCT_A];
    uint32_t a = place > j->highest ? j->a_count : 0, b = 0;
    if (place > j->highest) j->highest = place;
    while (b < j->b_count && j->b[b] != (*core)[PRODUCT_B]) b++;
    if (b == j->b_count) {
        j->b[j->b_count++] = (*core)[PRODUCT_B];
        memset(j->c[b], 0, cores * sizeof j->c[b][0]);
    }
    while (a < j->a_count && (j->a[a] != (*core)[PRODUCT_A] || j->c[b][a])) a++;
    if (a == j->a_count) j->a[j->a_count++] = (*core)[PRODUCT_A];
    j->c[b][a] = (*core)[PRODUCT_C];
    matmul_range *wanted = &j->wanted[b];
    if (wanted->end == 0) wanted->begin = a;
    if (a < wanted->begin) wanted->begin = a;
    if (a >= wanted->end) wanted->end = a + 1;
}

static bool has_gaps(const matmul_job *j)
{
    for (uint32_t b = 0; b < j->b_count; b++)
        for (size_t a = j->wanted[b].begin; a < j->wanted[b].end; a++)
            if (!j->c[b][a]) return true;
    return false;
}

static size_t row_count(const matmul_job *j)
{
    return (size_t)j->a_count * j->x->rows.count;
}

static size_t stick_count(const matmul_job *j)
{
    return (size_t)j->b_count * j->x->columns.count;
}

// --- Parts

// How many threads share the batches, the rows and the sticks.
typedef struct {
    size_t batches, rows, sticks;
} division;

// Multiplications of the largest part and, in their measure, its packing.
static size_t cost_of(const matmul_job *j, const division *d)
{
    size_t rows = matmul_share(row_count(j), d->rows);
    size_t columns = matmul_share(stick_count(j), d->sticks) * j->x->lanes;
    return matmul_share(j->x->batches.count, d->batches) *
           (rows * columns + PACKING_ROWS * (rows + columns));
}

static division divide(const matmul_job *j, size_t threads)
{
    division best = {1, 1, 1};
    size_t least_cost = SIZE_MAX;
    for (size_t batches = 1; batches <= matmul_least(threads, j->x->batches.count); batches++) {
        size_t left = threads / batches;
        for (size_t rows = 1; rows <= matmul_least(left, row_count(j)); rows++) {
            division d = {batches, rows, matmul_least(left / rows, stick_count(j))};
            size_t cost = cost_of(j, &d);
            if (cost >= least_cost) continue;
            least_cost = cost;
            best = d;
        }
    }
    return best;
}

static matmul_range slice(size_t count, size_t parts, size_t part)
{
    return (matmul_range){count * part / parts, count * (part + 1) / parts};
}

// Floats that a line of columns is packed to.
static size_t packed_lanes(const product *x)
{
    return matmul_share(x->lanes, MATMUL_RUN) * MATMUL_RUN;
}

static size_t rows_bytes(const plan_scratch *scratch)
{
    size_t half = scratch->cache_bytes / 2;
    if (half < LEAST_ROWS_BYTES) return LEAST_ROWS_BYTES;
    return matmul_least(half, MOST_ROWS_BYTES);
}

static matmul_part make_part(const matmul_job *j, const division *d, size_t n,
                             const plan_scratch *scratch)
{
    const product *x = j->x;
    size_t floats = rows_bytes(scratch) / sizeof(float);
    size_t batch = n / (d->rows * d->sticks), row = n / d->sticks % d->rows;
    matmul_part p = {.job = j,
                     .x = x,
                     .batches = slice(x->batches.count, d->batches, batch),
                     .rows = slice(row_count(j), d->rows, row),
                     .sticks = slice(stick_count(j), d->sticks, n % d->sticks),
                     .element = spyre_format_bytes(x->format)};
    size_t rows = p.rows.end - p.rows.begin;
    p.few = matmul_choose_few(j, rows);
    bool few = p.few || rows <= SIMD_MOST_ROWS;
    p.chunk_depth = few ? floats / rows / MATMUL_RUN * MATMUL_RUN : CHUNK_DEPTH;
    p.chunk_depth = matmul_least(p.chunk_depth, x->depth);
    p.panel_depth = (few ? FEW_PANEL_BYTES : PANEL_BYTES) / sizeof(float) / packed_lanes(x);
    p.panel_depth = matmul_least(p.panel_depth, p.chunk_depth);
    if (p.chunk_depth < x->depth) p.few = NULL;
    p.group = matmul_share(rows, matmul_share(rows * p.chunk_depth, floats));
    return p;
}

// --- Memory

static bool ensure(void **memory, size_t *bytes, size_t needed)
{
    if (*bytes >= needed) return true;
    needed = (needed + PACK_ALIGNMENT - 1) / PACK_ALIGNMENT * PACK_ALIGNMENT;
    free(*memory);
    *memory = aligned_alloc(PACK_ALIGNMENT, needed);
    *bytes = *memory ? needed : 0;
    return *memory != NULL;
}

// Floats for sums that outlive a panel: every pair of rows and columns of a group at most.
static size_t sums_floats(const matmul_part *p)
{
    const matmul_job *j = p->job;
    size_t count = 0, height = p->x->rows.count;
    if (p->x->adds || p->x->depth <= p->panel_depth) return 0;
    for (uint32_t b = 0; b < j->b_count; b++) {
        size_t own = (j->wanted[b].end - j->wanted[b].begin) * height;
        matmul_range sticks = matmul_sticks_of(p, b);
        count += matmul_least(own, p->group) * (sticks.end - sticks.begin);
    }
    return count * p->x->lanes;
}

static bool prepare(matmul_part *p, plan_scratch *scratch)
{
    const size_t run = MATMUL_RUN * sizeof(float), line = packed_lanes(p->x) * sizeof(float);
    size_t runs = matmul_share(p->chunk_depth, MATMUL_RUN);
    bool ready = ensure(&scratch->rows, &scratch->rows_bytes, p->group * runs * run) &&
                 ensure(&scratch->columns, &scratch->columns_bytes, p->panel_depth * line) &&
                 ensure(&scratch->sums, &scratch->sums_bytes, sums_floats(p) * sizeof(float)) &&
                 ensure(&scratch->results, &scratch->results_bytes,
                        p->group * p->job->b_count * sizeof(uint8_t *));
    p->packed_rows = scratch->rows;
    p->packed_columns = scratch->columns;
    p->sums = scratch->sums;
    p->results = scratch->results;
    return ready;
}

// --- The product

static void multiply_part(void *context, size_t index, uint32_t worker)
{
    (void)worker;
    matmul_multiply((matmul_part *)context + index);
}

bool matmul_fast(const product *x, const matmul_operands *cores, uint32_t count,
                 const matmul_host *host)
{
    uint8_t *results[ISA_CORES][ISA_CORES];
    matmul_job j = {.x = x, .block = choose_block(x->format), .c = results, .stop = host->stop};
    for (uint32_t n = 0; n < count; n++) add_core(&j, &cores[n], count);
    j.gaps = has_gaps(&j);
    division d = divide(&j, host->workers ? pool_threads(host->workers) : 1);
    size_t part_count = d.batches * d.rows * d.sticks;
    matmul_part parts[ISA_CORES];
    for (size_t n = 0; n < part_count; n++) {
        parts[n] = make_part(&j, &d, n, &host->scratch[n]);
        if (!prepare(&parts[n], &host->scratch[n])) return false;
    }
    if (part_count == 1) matmul_multiply(parts);
    else pool_run(host->workers, part_count, multiply_part, parts);
    return true;
}
