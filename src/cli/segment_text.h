// SPDX-License-Identifier: Apache-2.0
//
// A stage of every card segment on standard output.
#ifndef CLI_SEGMENT_TEXT_H
#define CLI_SEGMENT_TEXT_H

#include "cli.h"
#include "spyre/compile.h"

// Prints the stage (spyre_executable_text) below a line that names the segment; of a host segment
// the line alone. Returns the exit code.
int segment_text_print(const char *command, const spyre_executable *executable, const char *stage);

#endif
