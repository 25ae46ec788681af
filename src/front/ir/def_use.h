// SPDX-License-Identifier: Apache-2.0
//
// Who writes and who reads each buffer.
#ifndef FRONT_DEF_USE_H
#define FRONT_DEF_USE_H

#include "front/ir/loop.h"

#define DEF_USE_NO_WRITER UINT32_MAX
#define DEF_USE_MANY_WRITERS (UINT32_MAX - 1)

typedef struct {
    uint32_t op, operand;
} def_use_use;

typedef struct {
    uint32_t *writer;    // by buffer: op, DEF_USE_NO_WRITER or DEF_USE_MANY_WRITERS
    uint32_t *first_use; // by buffer, and one more: range of its reads in uses, in op order
    def_use_use *uses;
} def_use;

SPYRE_MUST_CHECK spyre_status def_use_build(const loop_graph *loops, def_use *out);

// From now on the first of several writers of a buffer is its writer, and what the others write are
// uses of it like reads.
SPYRE_MUST_CHECK spyre_status def_use_join_writers(const loop_graph *loops, def_use *f);

// True when the buffer has one writer.
static inline bool def_use_is_written_once(const def_use *f, uint32_t buffer)
{
    return f->writer[buffer] < DEF_USE_MANY_WRITERS;
}

static inline uint32_t def_use_use_count(const def_use *f, uint32_t buffer)
{
    return f->first_use[buffer + 1] - f->first_use[buffer];
}

// Leaves out each op that `goes` made needless; what the others read and write may change with it,
// the ops and the counts of uses stay until the end. *out_changed: some went.
typedef bool def_use_goes(loop_graph *loops, const def_use *f, const loop_op *op);
SPYRE_MUST_CHECK spyre_status def_use_drop_ops(loop_graph *loops, def_use_goes *goes,
                                               bool *out_changed);

// The op that writes what `read`, an access of the op `reader`, reads, element by element in the
// same loops, under the same hints; null: none.
const loop_op *def_use_writer_in_loops(const def_use *f, const loop_graph *loops,
                                       const loop_op *reader, const loop_access *read);

// By what an op may read 16 bits in the place of `read`, which reads what a cast to float32 makes
// of them: in the same loops, or the cast leaves elements where they are. False: by nothing.
bool def_use_through_cast(const def_use *f, const loop_graph *loops, const loop_op *reader,
                          const loop_access *read, loop_access *out);

#endif
