// SPDX-License-Identifier: Apache-2.0
//
// The choice of sticks as text, for dumps: sums of both ways to choose, then for every op what each
// of its modes would cost while all other ops keep theirs.
#ifndef FRONT_STICK_REPORT_H
#define FRONT_STICK_REPORT_H

#include "front/layout/stick_search.h"

// How many restickify ops the loop IR has, what they move, and how good the choice is; two lines.
// Nothing before propagate_layouts.
void stick_report_sums(const loop_graph *loops, text *out);

// Lines of comments, in the loop IR's memory.
SPYRE_MUST_CHECK spyre_status stick_report(loop_graph *loops, arena *scratch,
                                           const stick_mode *modes, const stick_choice *choice,
                                           const char **out_text);

#endif
