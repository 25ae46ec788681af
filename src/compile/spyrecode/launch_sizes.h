// SPDX-License-Identifier: Apache-2.0
//
// Bundles that a size known at launch completes. Their SpyreCode has the bundle, which is compiled
// for the sizes of a launch.
//
// - torch-spyre's gathers do not say how many rows their table has, and that decides where the
//   sticks of a row are. There is no program before.
// - Its conversions between formats of 64 and of 32 or 128 elements a stick round N_ up to the
//   longer stick, and its tensors of the other format may lack the last shorter sticks. A program
//   of all of N_ serves the tensors that have them, the bundle the others.
//
// Internal to src/compile.
#ifndef COMPILE_LAUNCH_SIZES_H
#define COMPILE_LAUNCH_SIZES_H

#include "bundle/model.h"

// The launch argument whose size says how long the indexed dim of a table is, or -1.
int32_t sizes_asked(const bundle *b, const bundle_tensor *t);

// Whether some launch argument's size must be known before the bundle compiles.
bool sizes_missing(const bundle *b);

// Whether a step's N_ may be rounded up beyond what an argument of unknown size has.
bool sizes_rounded(const bundle *b);

// Whether the step is such a conversion and takes the second stick of a row of its result for a dim
// of one index and a gap (torch-spyre, where the two are as far apart as rows), in an argument that
// no step reads. The host finds rows elsewhere, so nothing is taken from its N_.
bool sizes_mistake_stick(const bundle *b, const bundle_step *step);

// Gives those arguments the size that they have in a launch, and trims. `bytes` has an entry an
// argument. The bundle is to be verified afterwards, as after sizes_trim().
void sizes_set(bundle *b, const int64_t *bytes);

// Takes from such N_ the sticks that would lie behind the end of an argument of known size.
void sizes_trim(bundle *b);

// The end of what the steps of a verified bundle touch, for each argument that they touch further
// than bytes[argument]. No argument may be missing.
SPYRE_MUST_CHECK spyre_status sizes_touched(const bundle *b, int64_t *bytes);

// The directory of the bundle inside one of SpyreCode that waits for sizes.
const char *sizes_folder(bool pool_first);

// Copies the files of a bundle.
SPYRE_MUST_CHECK spyre_status sizes_copy_files(arena *memory, const char *from, const char *to);

#endif
