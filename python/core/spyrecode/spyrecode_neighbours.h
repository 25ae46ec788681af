// SPDX-License-Identifier: Apache-2.0
//
// What lies beside the views that a launch writes. Programs write whole sticks and rows of padding,
// in which elements beside the view may be where it is a part of its storage.
#ifndef CORE_PROGRAM_NEIGHBOURS_H
#define CORE_PROGRAM_NEIGHBOURS_H

#include "core.h"

#include "spyre/program.h"

typedef struct {
    uint32_t count;
    PyObject *tensors;          // a tuple of at least as many
    storage **storages;
    const int64_t *skipped;     // card bytes in front of a view, or -1 for all of a storage
} launch_tensors;

// Storages of which the launch changes some elements, and what they were.
typedef struct {
    storage *storage;
    uint64_t copy;
    spyre_piece *pieces;        // the elements that the launch may change
    uint32_t piece_count;
} neighbour;
typedef struct {
    uint32_t count;
    neighbour *items;
} neighbours;

// Copies such storages of a launch that follows in the current stream. *out is to be returned in
// any case.
bool neighbours_save(spyre_context *context, const spyre_program *program,
                     const launch_tensors *launch, neighbours *out);

// Behind the launch: everything but the elements of the written views becomes what it was. Gives
// `ran`, unless something fails here.
bool neighbours_return(spyre_context *context, neighbours *saved, bool ran);

#endif
