// SPDX-License-Identifier: Apache-2.0
//
// Translation validation: runs what the compiler has in hand after every pass and names the pass
// that changed a value.
//
// Two executions need no trust in the pass under test. *Values* evaluates the loop IR itself on
// host tensors (evaluate.h), which every stage allows. *Bundle* finishes a copy of the IR with the
// LOWER passes that are still to come, without any OPT pass, emits it and runs the bundle's
// interpreter on the same inputs. A pass may change no bit of either (but for the rounding of sums
// that it divides over cores). What layouts, places and emission do is common to all bundles, so
// the first one is held against the values, with room for sums in another order; where it differs,
// runs without shared places, and with layouts alone, tell which it is.
#ifndef FRONT_TRANSLATION_H
#define FRONT_TRANSLATION_H

#include "front/front.h"

enum { TRANSLATION_MOST_STEPS = 1 << 19 };

// front_emit(), or one that is wrong on purpose.
typedef spyre_status (*front_emitter)(loop_graph *loops, front_result *out_result);

// Validates rows[0..count) on the graph, on smaller tensors when its ops take more than
// TRANSLATION_MOST_STEPS iterations. SPYRE_INTERNAL: "translation: pass lx_planning changed output
// 0 (%y), element 5 (host order): 1.5, 2.25 before it". A graph that cannot be validated (still too
// large, an index that finds no row, a view that no layout expresses) is logged and passes.
SPYRE_MUST_CHECK spyre_status translation_validate(const spyre_graph *graph,
                                                   const spyre_settings *settings,
                                                   const front_pass_row *rows, uint32_t count,
                                                   front_emitter emit);

#endif
