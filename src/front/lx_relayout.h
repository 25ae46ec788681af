// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_LX_RELAYOUT_H
#define FRONT_LX_RELAYOUT_H

#include "front/loop.h"

// Takes the shuffles out again, for plans on trial.
void lx_relayout_undo(loop_graph *loops);

#endif
