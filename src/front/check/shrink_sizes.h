// SPDX-License-Identifier: Apache-2.0
//
// The same loop graph on smaller tensors, so that it can be run element by element.
#ifndef FRONT_SHRINK_SIZES_H
#define FRONT_SHRINK_SIZES_H

#include "front/ir/loop.h"

// Shortens loops of a graph as front_build() leaves it, until its ops take at most `most_steps`
// iterations in all. Loops and dims along which data flows are shortened together; those that a
// view cuts, joins or starts inside of stay, and so do rows of tables and dims of unusual layouts.
// Long ones keep their remainder by the stick, short ones whether they are even. *out_steps is what
// remains: above the limit when nothing more can be shortened.
SPYRE_MUST_CHECK spyre_status loop_shrink_sizes(loop_graph *loops, int64_t most_steps,
                                                int64_t *out_steps);

#endif
