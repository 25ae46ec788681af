// SPDX-License-Identifier: Apache-2.0
//
// Sizes that a launch chooses, by name.
#ifndef BUNDLE_SYMBOLS_H
#define BUNDLE_SYMBOLS_H

#include "bundle/model.h"

// bundle_bind() with sizes by name, "s0=128"; symbols that none of them names are at their largest.
// SPYRE_INVALID_ARGUMENT for text of another form and for names that no symbol has.
SPYRE_MUST_CHECK spyre_status bundle_bind_named(arena *memory, const bundle *b,
                                                const char *const *sizes, uint32_t count,
                                                bundle **out_bundle);

#endif
