// SPDX-License-Identifier: Apache-2.0
//
// A matrix product as a host computes it: one MATMUL, or all that the loops of a kernel make of one
// together with the FILL before it and the rounding after it (accumulate_matmuls.c). Which elements
// belong together is spelled out in lists of byte offsets, so that rows, columns and k may come
// from any number of dims and loops.
#ifndef CARD_PRODUCT_H
#define CARD_PRODUCT_H

#include "isa/isa.h"

enum { PRODUCT_C, PRODUCT_A, PRODUCT_B, PRODUCT_OPERANDS };

// Where the index of a list begins in the operands that move along it; k comes in runs.
typedef struct {
    int64_t at[PRODUCT_OPERANDS];           // bytes from element 0 of operand 0, 1 and 2
    uint32_t run;                           // of k: elements of A side by side, at most `lanes`
} product_index;
typedef VEC(product_index) product_list;

// C[batch, row, stick of columns] = or += sum over k, ascending, of A[batch, row, k] and
// B[batch, k, stick].
typedef struct {
    spyre_format format;                    // of A and B
    spyre_format result;                    // of C; IEEE_FP32 when it adds
    bool adds;                              // to what C holds
    uint32_t lanes;                         // elements of a stick, side by side in B and C
    uint32_t kept;                          // of them, the first so many go to C
    int64_t line;                           // bytes from k to k + 1 in B, within a run
    product_list batches, rows, columns, runs;
    size_t depth;                           // elements of all runs
} product;

// Most entries of a list.
enum { PRODUCT_LONGEST = 1 << 16 };

// The product that a MATMUL is; null when its results share bytes or are too many for lists.
SPYRE_MUST_CHECK spyre_status product_of(arena *memory, const isa_instruction *i,
                                         product **out_product);

// Repeats a list: entry n * count + m = entry m + n * step. False when it would be too long.
SPYRE_MUST_CHECK spyre_status product_repeat(arena *memory, product_list *list, uint32_t count,
                                             const int64_t *step, bool *out_done);

// Result by result, from element 0 of each operand: slow, but needs no memory.
void product_compute(const product *x, uint8_t *const *operand);

#endif
