// SPDX-License-Identifier: Apache-2.0
//
// Groups of compute tiles of ktdp.inter_tile_produce and ktdp.inter_tile_reduce.
#ifndef KTIR_GROUPS_H
#define KTIR_GROUPS_H

#include "ktir/ir/ir.h"

#define GROUPS_NONE UINT32_MAX

// Whether compute tile `number` is in the set for that group.
bool groups_has(const ktir_set *set, int64_t group, uint32_t number);

// The group that compute tile `number` is in, by the set of producers or consumers of a future of
// that type: the least one below `tiles`, or GROUPS_NONE.
uint32_t groups_of(const ktir_type *future, const ktir_set *set, uint32_t number, uint32_t tiles);

#endif
