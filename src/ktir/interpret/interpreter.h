// SPDX-License-Identifier: Apache-2.0
//
// The plain interpreter: what a kernel means. Every compute tile of the grid runs the function on
// values that are numbers; one compute tile at a time, until it ends or waits for others. Memory
// has the card's formats. It finds what a card might not show: accesses outside of a view, LX of
// another compute tile read without a message, races, loops without an end.
//
// Numbers: every operation on elements is the opfunc in fp64 and one rounding to the element type
// (16-bit floats are the card's, SEN169_FP16). linalg.matmul is one fp32 accumulator an element
// that starts with outs, fma with k ascending, one rounding. linalg.reduce with one combining
// operation among add, maximum and minimum of floats is fp32: along the last dim an accumulator a
// lane of a stick, elements ascending, then the fixed tree of opfunc reductions; along other dims
// ascending; then outs, one rounding. With any other region it combines element by element,
// ascending. tensor.empty is zeros.
//
// Addresses count elements of the view that takes them. What is added to an argument moves in its
// memory; every constant address in HBM is a memory of its own, which a number inside of it
// reaches, too: RFC 0682 states no unit, and in any one some of its examples overlap. LX is one
// memory.
#ifndef KTIR_INTERPRETER_H
#define KTIR_INTERPRETER_H

#include "ktir/ir/ir.h"

typedef struct {
    bool is_memory;
    ktir_element element;               // of a number, as the function declares it
    int64_t integer;
    double real;
    uint8_t *bytes;                     // memory: address 0 of its pointer
    int64_t byte_count;
} ktir_argument;

// The LX of a compute tile.
typedef struct {
    uint8_t *bytes;
    int64_t byte_count;
} ktir_space;

// Memory at a constant address: of all compute tiles, or a part of LX.
typedef struct {
    int64_t address;                    // in elements
    uint8_t *bytes;
    int64_t byte_count;
    int64_t space;                      // KTIR_HBM ..
    ktir_element element;               // LX: of its view
    bool is_argument;                   // LX: the program brings it from memory,
    bool is_written;                    // and takes it back
} ktir_placed;

typedef struct {
    const ktir_function *function;
    uint32_t grid_rank;
    int64_t grid[KTIR_MOST_GRID];
    const ktir_argument *arguments;     // of the function
    uint32_t placed_count;
    const ktir_placed *placed;
    ktir_space *lx;                     // a compute tile: KTIR_LX_BYTES each, or null: zeros
    uint64_t most_steps;                // operations of one compute tile; 0: KTIR_MOST_STEPS
} ktir_call;

#define KTIR_MOST_STEPS 1000000000ULL
enum { KTIR_LX_BYTES = 2 << 20 };

// Runs the function of a verified module. Errors of the kernel are SPYRE_DEVICE_FAULT with file,
// line, column, operation, compute tile and rule; then memory has what was written before.
SPYRE_MUST_CHECK spyre_status ktir_run(const ktir_module *m, const ktir_call *call);

#endif
