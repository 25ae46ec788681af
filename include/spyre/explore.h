// SPDX-License-Identifier: Apache-2.0
//
// A page to look through the stages of a compilation, made from the files of a dump.
#ifndef SPYRE_EXPLORE_H
#define SPYRE_EXPLORE_H

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes one HTML file that needs no other: graph, loop IR after each pass, bundle steps and
// program side by side, what lies in LX, which core does what, where the time goes. `directory`
// holds segment<n>.{graph,passes,loop,bundle,listing,lx,why,cost,time} as
// spyre_compile_options.dump_dir leaves them, or has them in stages/. Errors name the file and the
// rule; then nothing is written. Thread safe.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_explore(const char *directory, const char *path);

#ifdef __cplusplus
}
#endif
#endif
