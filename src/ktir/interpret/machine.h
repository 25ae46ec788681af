// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the interpreter share: the state of a compute tile.
#ifndef KTIR_MACHINE_H
#define KTIR_MACHINE_H

#include "ktir/interpret/reader_sets.h"
#include "ktir/interpret/interpreter.h"
#include "ktir/interpret/tensor.h"

enum {
    MACHINE_NO_MEMORY = -1,             // of a number that is no address
};

typedef struct {
    ktir_number_value number;
    int32_t memory;                     // an address: the argument that it points into
    ktir_tensor *tensor;                // owned; also the partial tensor of a future
} machine_cell;

typedef struct {
    const ktir_op *op;                  // whose region is running
    uint32_t region;
    int64_t value, end, step;           // FOR; nests count iterations in `value`
} machine_frame;

typedef enum { MACHINE_RUNS, MACHINE_WAITS, MACHINE_ENDED } machine_state;

// Who has written `unit` bytes of memory, when by its own clock, and who has read them since.
typedef struct {
    uint32_t writer;                    // compute tile + 1; 0: none
    uint32_t written, readers;
} machine_access;

typedef struct {
    uint8_t *bytes;
    int64_t byte_count;
    machine_access *accesses;           // [byte_count / unit + 1], or null
    uint8_t *known;                     // LX: a bit a byte that was written; or null
} machine_memory;

typedef struct machine {
    const ktir_module *m;
    const ktir_call *call;
    uint32_t tiles;
    int64_t unit;                       // bytes of the smallest element of a view, at most 2
    machine_memory *arguments;          // [function's arguments]
    machine_memory *placed;             // [call->placed_count]
    machine_memory *lx;                 // [tiles]
    uint32_t *clocks;                   // [tiles][tiles]
    arena *memory;
    readers readers;
    struct tile *tile;                  // [tiles]
    // Runs one operation that neither branches nor touches memory.
    spyre_status (*compute)(struct tile *t, const ktir_op *op);
} machine;

typedef struct tile {
    machine *x;
    uint32_t number;
    machine_cell *cells;                // [values]
    machine_frame frames[64 + 1];
    uint32_t depth, pc;
    uint64_t steps;
    machine_state state;
    const ktir_op *waiting;
    uint32_t *deliveries;               // [operations] that have been waited for
    int64_t indices[KTIR_MOST_RANK];    // of linalg.index
} tile;

// A fault of the kernel at an operation: names the compute tile.
SPYRE_MUST_CHECK spyre_status machine_fault(const tile *t, const ktir_op *op, const char *format,
                                            ...) SPYRE_PRINTF(3, 4);

static inline machine_cell *machine_operand(tile *t, const ktir_op *op, uint32_t n)
{
    return &t->cells[ktir_operand(t->x->m, op, n)];
}

static inline const ktir_tensor *machine_tensor(tile *t, const ktir_op *op, uint32_t n)
{
    return machine_operand(t, op, n)->tensor;
}

// Makes the cell own the tensor; out of memory when it is null.
SPYRE_MUST_CHECK spyre_status machine_give(tile *t, const ktir_op *op, uint32_t value,
                                           ktir_tensor *tensor);
void machine_set(tile *t, uint32_t value, ktir_number_value number);
void machine_copy(tile *t, uint32_t to, const machine_cell *from);

// Sizes of a type, unknown ones from operands of the operation from *next on.
SPYRE_MUST_CHECK spyre_status machine_sizes(tile *t, const ktir_op *op, const ktir_type *type,
                                            uint32_t next, int64_t *out_sizes);

// Runs a region of such operations; its arguments are set. *out is the cell that it yields.
SPYRE_MUST_CHECK spyre_status machine_region(tile *t, const ktir_op *op, uint32_t region,
                                             const machine_cell **out);

// By form.
SPYRE_MUST_CHECK spyre_status machine_arith(tile *t, const ktir_op *op, ktir_form form);
SPYRE_MUST_CHECK spyre_status machine_shape(tile *t, const ktir_op *op, ktir_form form);
SPYRE_MUST_CHECK spyre_status machine_linalg(tile *t, const ktir_op *op, ktir_form form);
SPYRE_MUST_CHECK spyre_status machine_load(tile *t, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status machine_store(tile *t, const ktir_op *op);

// Lets those go on that wait for a reduction whose group is complete; *out_moved says whether any.
SPYRE_MUST_CHECK spyre_status machine_deliver(machine *x, bool *out_moved);
SPYRE_MUST_CHECK spyre_status machine_produce(tile *t, const ktir_op *op);

// Why a compute tile still waits when no compute tile can go on.
SPYRE_MUST_CHECK spyre_status machine_deadlock(const tile *t);

#endif
