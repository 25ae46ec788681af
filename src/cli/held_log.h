// SPDX-License-Identifier: Apache-2.0
//
// Warnings of the library while a command runs. They are of use beside a result; a command that
// fails says one line, so they are held back until the command has ended. What else is written to
// stderr passes. With SPYRE_LOG in the environment nothing is held.
#ifndef CLI_HELD_LOG_H
#define CLI_HELD_LOG_H

// From now on. Does nothing when the stream cannot be made.
void held_log_begin(void);

// Gives stderr back; after exit code 0 with what was held.
void held_log_end(int code);

#endif
