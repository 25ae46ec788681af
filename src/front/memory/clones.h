// SPDX-License-Identifier: Apache-2.0
//
// Clones: what enters or leaves the graph lives in memory, and a copy of it, by an op of its own,
// may live in LX. An input that is read more than once is copied before its first reader, an output
// that is read in the graph too is made as a clone and copied behind its writer.
#ifndef FRONT_CLONES_H
#define FRONT_CLONES_H

#include "front/ir/loop.h"

typedef struct {
    uint32_t original, op; // the copy goes before this op, or, of an output, behind it
    uint32_t buffer, copy; // the clone and the op that copies, after insertion
} clone;

typedef VEC(clone) clone_list;

// Which buffers could have one: those whose accesses are divided alike, or all whatever divides
// them.
typedef enum { CLONES_AGREED, CLONES_ALL } clones_kind;

// False when the settings and a look at the ops alone rule out all clones.
bool clones_possible(const loop_graph *loops);

SPYRE_MUST_CHECK spyre_status clones_find(const loop_graph *loops, clones_kind kind,
                                          clone_list *out);

// Puts the copies between the ops, which use the clones from now on. Copies are divided like the op
// beside them; those of CLONES_ALL where that cannot be are whole.
SPYRE_MUST_CHECK spyre_status clones_insert(loop_graph *loops, clones_kind kind,
                                            clone_list *clones);

#endif
