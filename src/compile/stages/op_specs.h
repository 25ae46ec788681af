// SPDX-License-Identifier: Apache-2.0
//
// The OpSpecs of a card segment with what a program around them needs: the launch arguments, and
// where each result is found.
#ifndef COMPILE_OP_SPECS_H
#define COMPILE_OP_SPECS_H

#include "compile/executable.h"

SPYRE_MUST_CHECK spyre_status op_specs_print(const executable_segment *segment, text *out);

#endif
