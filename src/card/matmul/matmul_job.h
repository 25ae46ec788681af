// SPDX-License-Identifier: Apache-2.0
//
// What the files that compute a product share: matmul.c divides it among threads, matmul_rows.c
// computes a part, matmul_few_rows.c those of few rows, matmul_pack.c packs operands,
// matmul_prefetch.c finds what the second cache should fetch for the next packing. Private to
// these.
#ifndef CARD_MATMUL_JOB_H
#define CARD_MATMUL_JOB_H

#include "card/matmul/matmul.h"

enum {
    MATMUL_PASSES = 2,                  // of few rows over codes, each for as many as fit registers
    MATMUL_FEW_ROWS = MATMUL_PASSES * SIMD_MOST_ROWS,
};

typedef struct {
    size_t begin, end;
} matmul_range;

// A product for several cores. The rows of all cores form one list, those that several cores read
// once; so do the sticks of columns, operand by operand.
typedef struct {
    const product *x;
    matmul_block *block;
    uint32_t a_count, b_count;          // different operands 1 and 2
    const uint8_t *a[ISA_CORES], *b[ISA_CORES];
    uintptr_t highest;                  // of a
    uint8_t *(*c)[ISA_CORES];           // [b][a]: the result, null when no core wants it
    matmul_range wanted[ISA_CORES];     // [b]: from the first to the last a that is not null
    bool gaps;                          // there are others between
    const atomic_bool *stop;            // the host's
} matmul_job;

// What one thread computes of it. Different parts write different results.
typedef struct {
    const matmul_job *job;
    const product *x;                   // the job's
    matmul_range batches, rows, sticks; // of the lists
    int64_t element;                    // bytes of A and B
    simd_multiplier *few;               // packed rows are times SIMD_SCALE; null: they are not
    size_t group;                       // rows that are packed at a time, at most
    size_t chunk_depth;                 // of k in packed rows, at most
    size_t panel_depth;                 // of k in packed columns, at most
    float *packed_rows, *packed_columns, *sums;     // plan_scratch
    uint8_t **results;                  // [b][row of the group]: column 0

    const product_index *batch;         // at work
    size_t first, count;                // rows of the list that are packed
    size_t sums_first[ISA_CORES];       // [b]: floats before its sums
} matmul_part;

// The part of k that is packed: whole runs, and the elements before it.
typedef struct {
    uint32_t begin, end;
    size_t before, depth;
} matmul_chunk;

// Elements of a stick of columns that will be packed behind a panel; none where it does not pay to
// fetch them before.
typedef struct {
    const uint8_t *stick;
    uint32_t run;                       // of k
    size_t element;                     // of the run
    size_t count;                       // from there on
} matmul_ahead;

// What comes behind element `done` of the chunk of a stick of columns b.
matmul_ahead matmul_look_ahead(const matmul_part *p, const matmul_chunk *k, uint32_t b,
                               size_t stick, size_t done);

// Takes about `most` of them, to be fetched before `runs` runs of k.
matmul_lines matmul_take_ahead(const matmul_part *p, matmul_ahead *ahead, size_t most,
                               size_t runs);

static inline size_t matmul_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t matmul_share(size_t count, size_t parts)
{
    return (count + parts - 1) / parts;
}

// Lanes of a stick that results have, in whole vectors; of sums that wait in C all.
static inline size_t matmul_wanted(const product *x)
{
    return x->adds ? x->lanes : matmul_share(x->kept, 32) * 32;
}

// The part's sticks of operand b.
static inline matmul_range matmul_sticks_of(const matmul_part *p, uint32_t b)
{
    size_t count = p->x->columns.count, before = b * count;
    size_t begin = p->sticks.begin > before ? p->sticks.begin - before : 0;
    size_t end = p->sticks.end > before ? p->sticks.end - before : 0;
    if (end > count) end = count;
    return (matmul_range){begin < end ? begin : end, end};
}

// The rows of the group as [k / MATMUL_RUN][row][k % MATMUL_RUN], however k is cut into runs.
void matmul_pack_rows(const matmul_part *p, const matmul_chunk *k);

// Elements [begin, end) of the chunk's k, of the wanted lanes of one stick of columns, as
// [lane / MATMUL_RUN][k][lane % MATMUL_RUN].
void matmul_pack_columns(const matmul_part *p, const matmul_chunk *k, const uint8_t *stick,
                         matmul_range elements);

// The multiplier for so few rows that packing columns would cost more; null where there is none.
simd_multiplier *matmul_choose_few(const matmul_job *j, size_t rows);

// Scales the packed rows, all of k, for p->few; sets it to null where they have no scaled form.
void matmul_scale_few(matmul_part *p);

// sums[row][lane] += rows of the group by a stick of columns b. False where a code has no scaled
// form: the rest of the part goes on with columns that are packed.
bool matmul_add_few(matmul_part *p, matmul_range rows, uint32_t b, size_t stick, float *sums);

// Computes the part, whose memory is ready.
void matmul_multiply(matmul_part *p);

#endif
