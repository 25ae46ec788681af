// SPDX-License-Identifier: Apache-2.0
//
// A kernel's tiles for all its cores at once.
#ifndef CARD_JOINED_CORES_H
#define CARD_JOINED_CORES_H

#include "card/row_fusion/row_tile.h"

// Makes tiles from `first` on, all those of a kernel, the tiles of all its cores: cores are loops
// around. *out_good is false where cores do not lie at equal distances.
SPYRE_MUST_CHECK spyre_status rows_join_cores(const isa_kernel *kernel, arena *scratch,
                                              uint32_t first, rows_tiles *tiles, bool *out_good);

#endif
