// SPDX-License-Identifier: Apache-2.0
//
// The choice of a mode (stick_modes.h) for every op, so that the ops and the copies between them
// cost least (stick_price.h).
//
//   greedy   op by op, in order: what leaves the fewest elements to copy; ties go to the innermost
//            host dim of the result
//   global   walks the ops in order with a set of states. A state is what later ops can tell apart:
//            the sticks of buffers that are still read, and which copies of them exist; of equal
//            states the cheapest stays. So the walk is exact, and linear for graphs that are narrow
//            (a chain, a tree, layer behind layer), however many choices they have in all. States
//            that cannot become cheaper than greedy are dropped, which loses nothing; beyond the
//            setting stick_beam_width the dearest are left out, which may, and is counted.
//
// Time is that of ops times width. The greedy choice stays unless STICK_LEAST_GAIN of its price is
// saved: below that the prediction, which knows no divisions and no places in LX, tells nothing.
#ifndef FRONT_STICK_SEARCH_H
#define FRONT_STICK_SEARCH_H

#include "front/layout/stick_price.h"

#define STICK_LEAST_GAIN 0.01

typedef struct stick_choice {
    bool searched;        // greedy was not the optimum for sure, nor all that was asked for
    bool global;          // and something better was found
    double us, greedy_us; // predicted; infinite when it cannot be built
    double least_us;      // every op at its best and no copy: no choice costs less
    uint64_t left_out;    // states; 0: us is the optimum, or greedy's within STICK_LEAST_GAIN
    uint32_t widest;      // most states at a time
} stick_choice;

// Chooses; out_modes has one a op of the loop IR, in scratch. Local buffers have no layouts before
// and afterwards. SPYRE_UNSUPPORTED names an op that has no mode.
SPYRE_MUST_CHECK spyre_status stick_choose(loop_graph *loops, arena *scratch,
                                           const stick_mode **out_modes, stick_choice *out_choice);

// The predicted cost of any modes; infinite when they cannot be built.
SPYRE_MUST_CHECK spyre_status stick_price_modes(loop_graph *loops, arena *scratch,
                                                const stick_mode *modes, double *out_us);

#endif
