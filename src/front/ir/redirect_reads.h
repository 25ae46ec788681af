// SPDX-License-Identifier: Apache-2.0
//
// Ops left out because what they make is in another buffer already, which their readers read.
#ifndef FRONT_REDIRECT_READS_H
#define FRONT_REDIRECT_READS_H

#include "front/ir/def_use.h"

// Says in *place in which buffer else the contents of the op's result are, if in any; it is the
// result at first. The op's inputs are redirected already; the uses are those before the pass.
typedef spyre_status redirect_rule(void *context, const loop_graph *loops, const def_use *f,
                                   const loop_op *op, uint32_t *place);

// Asks about every op in order and leaves out those whose contents are elsewhere, except where the
// caller gets the result or another op writes into it as well.
SPYRE_MUST_CHECK spyre_status redirect_reads(loop_graph *loops, redirect_rule *rule, void *context,
                                             bool *out_changed);

#endif
