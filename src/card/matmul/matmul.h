// SPDX-License-Identifier: Apache-2.0
//
// Products (product.h) on a host: operands are packed to fp32 and go through a register-blocked
// kernel. Every result is one chain acc = fma(a, b, acc) with k ascending, whatever the blocking.
#ifndef CARD_MATMUL_H
#define CARD_MATMUL_H

#include <stddef.h>

#include <stdatomic.h>

#include "base/thread_pool.h"
#include "card/plan.h"

// The operands of one core, element 0 of each.
typedef uint8_t *matmul_operands[ISA_MAX_OPERANDS];

// The threads that share a product: the caller's alone when `workers` is null. At most ISA_CORES of
// them, each with a scratch.
typedef struct {
    pool *workers;
    plan_scratch *scratch;
    const atomic_bool *stop;            // set: leave the rest out; null: never
} matmul_host;

// True when products of these formats have a fast form.
bool matmul_is_fast(spyre_format a, spyre_format b);

// Computes a product for `count` cores whose operands 1 and 2 do not overlap any core's results.
// Operands that several cores read at one place are packed once for all of them, and blocks of rows
// reach over cores. False (nothing done) when the host has no memory for packing.
bool matmul_fast(const product *x, const matmul_operands *cores, uint32_t count,
                 const matmul_host *host);

// The same for a MATMUL's tile, with exact_run where there is no fast form (tile_run.c).
void tile_matmul(const plan_tile *tile, const matmul_operands *cores, uint32_t count,
                 const matmul_host *host);

// A MATMUL of SENINT8 whose results do not overlap its operands, nor each other.
void matmul_integers(const isa_instruction *i, uint8_t *const *operand);

enum {
    MATMUL_ROWS = 6,                    // most rows of a block
    MATMUL_RUN = 64,                    // of k side by side in packed rows, of lanes in columns
    MATMUL_LINE = 128,                  // bytes of a line of memory, two of the host's
};

// Lines that the host's second cache fetches while a block is multiplied.
typedef struct {
    const uint8_t *at;
    int64_t step;
    size_t count, a_run;                // in all, and before each run of k
} matmul_lines;

// What a block of rows is multiplied with. k comes in runs, the last one shorter: row r, index k of
// A is a[k / MATMUL_RUN * a_next + r * MATMUL_RUN + k % MATMUL_RUN], B is [k][MATMUL_RUN].
typedef struct {
    const float *a, *b;
    size_t a_next, depth;
    size_t wanted;                      // the first of the lanes, a multiple of 32
    bool fresh;                         // the chain begins with 0, not with what c holds
    uint8_t *const *results;            // null: the sums go to c; else to SEN169_FP16 elements
    int64_t column;                     // so many bytes behind each of them
    matmul_lines next_columns, next_sums;
} matmul_panel;

// c[row][lane] = fma over k of a[row][k] * b[k][lane], for rows of 1 to MATMUL_ROWS and the lanes
// that are wanted.
typedef void matmul_block(float *const *c, size_t rows, const matmul_panel *p);
matmul_block matmul_block_portable;     // multiplies and adds: for products that fp32 holds exactly
#if defined(__x86_64__)
matmul_block matmul_block_avx2;
matmul_block matmul_block_avx512;
#endif

#endif
