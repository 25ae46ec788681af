// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the reader of OpSpecs share; op_spec.h is for others.
#ifndef FRONT_OP_SPEC_READER_H
#define FRONT_OP_SPEC_READER_H

#include "base/json.h"
#include "front/spec/op_spec.h"

enum { MOST_SYMBOLS = LOOP_MAX_VARS + LOOP_MAX_TILES + 1, MOST_EXTENT = 1 << 30 };

// What the reader knows of a buffer beside the loop IR.
typedef struct {
    uint32_t rank; // device dims
    int64_t device_size[SPYRE_MAX_DEVICE_RANK], stride_map[SPYRE_MAX_DEVICE_RANK];
    uint8_t dim[SPYRE_MAX_DEVICE_RANK]; // of the buffer; LOOP_NO_DIM for a device dim of size 1
    int32_t argument;
    bool read; // by an op so far
} device_form;

typedef struct {
    arena *memory;
    loop_graph *loops;
    VEC(device_form) forms; // by buffer
    map_bytes names;
    uint32_t tiles[LOOP_MAX_TILES], depth; // counted loops that are open
} spec_reader;

// The symbols of one op and what they stand for: loops, counted loops, the row of a table.
typedef struct {
    uint32_t count, loops;
    const char *names[MOST_SYMBOLS];
    int64_t extent[MOST_SYMBOLS];
    // What an iteration of counted loop t adds to loop v: torch-spyre's form of tiles.
    int64_t advance[LOOP_MAX_TILES][LOOP_MAX_VARS];
} symbols;

// The buffer of that name in *out_id: a new one as the argument describes it, or the known one,
// which the argument has to describe alike.
SPYRE_MUST_CHECK spyre_status op_spec_read_buffer(spec_reader *r, const json_node *argument,
                                                  const char *name, uint32_t *out_id);

// Appends the argument to the operands of `op`, with its buffer.
SPYRE_MUST_CHECK spyre_status op_spec_read_argument(spec_reader *r, const json_node *argument,
                                                    const symbols *s, bool is_result, loop_op *op);

#endif
