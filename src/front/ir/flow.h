// SPDX-License-Identifier: Apache-2.0
//
// Who writes and who reads each buffer.
#ifndef FRONT_FLOW_H
#define FRONT_FLOW_H

#include "front/ir/loop.h"

#define FLOW_NO_WRITER UINT32_MAX
#define FLOW_MANY_WRITERS (UINT32_MAX - 1)

typedef struct {
    uint32_t op, operand;
} flow_use;

typedef struct {
    uint32_t *writer;    // by buffer: op, FLOW_NO_WRITER or FLOW_MANY_WRITERS
    uint32_t *first_use; // by buffer, and one more: range of its reads in uses, in op order
    flow_use *uses;
} flow;

SPYRE_MUST_CHECK spyre_status flow_build(const loop_graph *loops, flow *out);

// From now on the first of several writers of a buffer is its writer, and what the others write are
// uses of it like reads.
SPYRE_MUST_CHECK spyre_status flow_join_writers(const loop_graph *loops, flow *f);

// True when the buffer has one writer.
static inline bool flow_is_written_once(const flow *f, uint32_t buffer)
{
    return f->writer[buffer] < FLOW_MANY_WRITERS;
}

static inline uint32_t flow_use_count(const flow *f, uint32_t buffer)
{
    return f->first_use[buffer + 1] - f->first_use[buffer];
}

// Leaves out each op that `goes` made needless; what the others read and write may change with it,
// the ops and the counts of uses stay until the end. *out_changed: some went.
typedef bool flow_goes(loop_graph *loops, const flow *f, const loop_op *op);
SPYRE_MUST_CHECK spyre_status flow_drop_ops(loop_graph *loops, flow_goes *goes, bool *out_changed);

// The op that writes what `read`, an access of the op `reader`, reads, element by element in the
// same loops, under the same hints; null: none.
const loop_op *flow_writer_in_loops(const flow *f, const loop_graph *loops, const loop_op *reader,
                                    const loop_access *read);

// By what an op may read 16 bits in the place of `read`, which reads what a cast to float32 makes
// of them: in the same loops, or the cast leaves elements where they are. False: by nothing.
bool flow_through_cast(const flow *f, const loop_graph *loops, const loop_op *reader,
                       const loop_access *read, loop_access *out);

#endif
