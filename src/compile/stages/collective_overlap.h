// SPDX-License-Identifier: Apache-2.0
//
// What the collectives of a graph take, and what of it the card's work hides. Internal to
// src/compile.
#ifndef COMPILE_COLLECTIVE_OVERLAP_H
#define COMPILE_COLLECTIVE_OVERLAP_H

#include "base/text.h"
#include "compile/executable.h"

// As spyre_executable_exchanges(); `executable` has its stages.
SPYRE_MUST_CHECK spyre_status exchanges_print(const spyre_executable *executable, uint32_t ranks,
                                              text *out);

#endif
