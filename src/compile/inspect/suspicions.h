// SPDX-License-Identifier: Apache-2.0
//
// What is allowed in a bundle and still looks wrong: front-ends have faults that no rule of the
// form catches. Internal to src/compile.
#ifndef COMPILE_INSPECT_SUSPICIONS_H
#define COMPILE_INSPECT_SUSPICIONS_H

#include "base/text.h"
#include "bundle/files.h"

// Appends "suspicious" and a line for each finding in plain words, or nothing: first those that are
// `known`. `b` is verified.
SPYRE_MUST_CHECK spyre_status inspect_suspicions(const bundle *b, const bundle_warnings *known,
                                                 text *out);

#endif
