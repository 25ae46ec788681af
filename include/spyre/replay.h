// SPDX-License-Identifier: Apache-2.0
//
// Recorded launches (SPYRE_RECORD, `spyre record`): one file that gives the same bytes on any host.
#ifndef SPYRE_REPLAY_H
#define SPYRE_REPLAY_H

#include <stdbool.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *until;          // stop before this instruction is first reached: its number, as
                                // faults name it, or the name of a kernel; null: run to the end
    int core;                   // whose operands are shown there; -1: the first that takes part
    bool exact;                 // instruction by instruction instead of host code over tiles
} spyre_replay_options;
#define SPYRE_REPLAY_OPTIONS_INIT {NULL, -1, false}

// Runs the launch of the file `path` on a card of its own. *out_equal: what it leaves is what was
// recorded, bit for bit (true with `until`). *out_text tells what happened and is freed with
// spyre_string_free() (spyre/graph.h). SPYRE_INVALID_FORMAT names the place in a damaged file,
// SPYRE_INVALID_ARGUMENT an instruction or core that the program does not have. A fault of the
// program is SPYRE_DEVICE_FAULT, unless it was recorded.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_replay(const char *path,
                                                     const spyre_replay_options *options,
                                                     bool *out_equal, char **out_text);

#ifdef __cplusplus
}
#endif
#endif
