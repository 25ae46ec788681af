// SPDX-License-Identifier: Apache-2.0
//
// Bundles that a size known at launch completes: torch-spyre's gathers do not say how many rows
// their table has, and that decides where the sticks of a row are. Their SpyreCode is the bundle,
// compiled for the sizes of a launch. Internal to src/compile.
#ifndef COMPILE_SIZES_H
#define COMPILE_SIZES_H

#include "bundle/model.h"

// The launch argument whose size says how long the indexed dim of a table is, or -1.
int32_t sizes_asked(const bundle *b, const bundle_tensor *t);

// Whether some launch argument's size must be known before the bundle compiles.
bool sizes_missing(const bundle *b);

// Gives those arguments the size that they have in a launch; `bytes` has an entry an argument.
void sizes_set(bundle *b, const int64_t *bytes);

// The directory of the bundle inside one of SpyreCode that waits for sizes.
const char *sizes_folder(bool pool_first);

// Copies the files of a bundle.
SPYRE_MUST_CHECK spyre_status sizes_copy_files(arena *memory, const char *from, const char *to);

#endif
