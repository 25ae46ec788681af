// SPDX-License-Identifier: Apache-2.0
//
// State of the interpreter while it executes one step, shared by the files that know one family of
// opfuncs each.
#ifndef BUNDLE_EXECUTION_H
#define BUNDLE_EXECUTION_H

#include "base/odometer.h"
#include "bundle/interpret.h"
#include "tensor/accumulate.h"

typedef struct {
    const bundle_tensor *tensor;
    bundle_geometry geometry;
    int64_t *offset[BUNDLE_MAX_DIMS];   // bits by core-local index; null: the dim does not move
    uint8_t *number;                    // where the number that an index has is put; null: none
} operand;

typedef struct {
    const bundle *b;
    const bundle_buffer *buffers;
    uint8_t *lx;
    int64_t loop_index[BUNDLE_MAX_LOOPS];
    arena *scratch;                     // lives as long as the step
    const bundle_step *step;
    int64_t local[BUNDLE_MAX_DIMS];     // elements of a dim that the core in work owns; before the
                                        // first one, the most that a core has
    operand operands[BUNDLE_MAX_TENSORS];
    uint32_t reduced_count;
    uint8_t reduced[BUNDLE_MAX_DIMS];   // in the order of N_
    uint32_t kept_count;
    uint8_t kept[BUNDLE_MAX_DIMS];      // dims along which the output moves, in the order of N_
} execution;

// Finds lane `lane`, of whole bytes, past the element of `tensor` at core-local `index`, checked
// against its buffer.
SPYRE_MUST_CHECK spyre_status execution_place(const execution *x, uint32_t tensor, uint32_t core,
                                              const int64_t *index, uint32_t lane,
                                              uint8_t **out_element);

// The same for an address that the caller computed: `offset` bytes into the launch argument or LX.
SPYRE_MUST_CHECK spyre_status execution_place_offset(const execution *x, uint32_t tensor,
                                                     uint32_t core, const int64_t *index,
                                                     int64_t offset, uint8_t **out_element);

// The start address with the loop indices applied, in bytes.
int64_t execution_start(const execution *x, const bundle_tensor *tensor, uint32_t core);

// Loads an element in register form; stores one with one rounding.
SPYRE_MUST_CHECK spyre_status execution_load(const execution *x, uint32_t tensor, uint32_t core,
                                             const int64_t *index, double *out_value);
SPYRE_MUST_CHECK spyre_status execution_store(const execution *x, uint32_t core,
                                              const int64_t *index, uint32_t lane, double value);

// Sets `local` to what the core owns.
void execution_begin_core(execution *x, uint32_t core);

// Elements of the kept dims on one core.
int64_t execution_kept_elements(const execution *x);

// True where coordinateMasking_ says padding, or a window is outside of its input, for a core-local
// index.
bool execution_masked(const execution *x, uint32_t core, const int64_t *index);

// Combines partial results of cores whose slices differ in reduced dims only, in ascending order of
// those slices, and leaves the result in the entry of each of them. partial[core * count + i].
void execution_combine_cores(const execution *x, opfunc op, bool integers,
                             accumulator_cell *partial, int64_t count);

// One family each.
SPYRE_MUST_CHECK spyre_status interpret_pointwise(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_layernormscale(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_shuffle(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_rows(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_reduction(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_matmul(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_rank(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_mask(execution *x);
SPYRE_MUST_CHECK spyre_status interpret_scan(execution *x);

#endif
