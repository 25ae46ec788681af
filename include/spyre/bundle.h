// SPDX-License-Identifier: Apache-2.0
//
// Boundary artefacts as directories: the back-end compiler on a SuperDSC-Bundle that this or
// another front-end wrote, and everything that a compiled graph has to show.
//
// A directory that these functions write appears complete or not at all. Thread safe as long as two
// threads do not write one directory.
#ifndef SPYRE_BUNDLE_H
#define SPYRE_BUNDLE_H

#include <stdbool.h>

#include "spyre/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    bool pool_first;            // launch argument 0 is the pool though bundle.mlir does not say so
    const char *output;         // directory to write; null: "<directory>/spyreCodeDir"
    bool init_text;             // also loadprogram_to_device/<name>-SenProgSend/init.txt below
                                // `directory`, `name` being its last part
} spyre_bundle_options;
#define SPYRE_BUNDLE_OPTIONS_INIT {false, NULL, false}

// Reads and verifies the bundle in `directory`, compiles it and writes SpyreCode (spyrecode.json,
// init.bin). An earlier output is replaced. Errors name file, field and rule, or step, opfunc and
// rule; then nothing is written.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_bundle_compile(const char *directory,
                                                             const spyre_bundle_options *options);

// Writes segment_<i>/bundle and segment_<i>/spyrecode of every card segment into `directory`, which
// must be missing or empty.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_save(const spyre_executable *executable,
                                                              const char *directory);

#ifdef __cplusplus
}
#endif
#endif
