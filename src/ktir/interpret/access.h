// SPDX-License-Identifier: Apache-2.0
//
// Where elements of a view lie: sizes, strides and memory of views, and the points of access tiles
// one after the other, for the interpreter.
#ifndef KTIR_ACCESS_H
#define KTIR_ACCESS_H

#include "ktir/interpret/machine.h"

enum { ACCESS_MOST_PARTS = 64 };

// One memory view, maybe a part of a distributed one.
typedef struct {
    machine_memory *memory;
    uint32_t owner;                     // LX: the compute tile; else UINT32_MAX
    int64_t first;                      // byte of the first element
    int64_t element_bytes;
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK], stride[KTIR_MOST_RANK];       // elements
    const ktir_set *set;                // coordinates that it has, or null: all
    int64_t symbols[KTIR_MOST_RANK];    // of the set
    int64_t origin[KTIR_MOST_RANK];     // coordinate of its first element
    const ktir_op *op;
} access_view;

typedef struct {
    bool distributed;
    uint32_t count;
    access_view part[ACCESS_MOST_PARTS];
} access_views;

// The view that operand n is.
SPYRE_MUST_CHECK spyre_status access_view_of(tile *t, const ktir_op *op, uint32_t n,
                                             access_views *out_views);

// The address of an element: `coordinate` has the rank of the view. `value` is what will be written
// there, null when it is read: writing the bits that are there anyway is no race. Faults name `op`.
SPYRE_MUST_CHECK spyre_status access_address(tile *t, const ktir_op *op, const access_views *views,
                                             const int64_t *coordinate, const uint8_t *value,
                                             uint8_t **out_bytes);

#endif
