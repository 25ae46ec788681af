// SPDX-License-Identifier: Apache-2.0
//
// Dependences between tiles that are taken block of rows by block of rows.
#ifndef CARD_DEPENDENCES_H
#define CARD_DEPENDENCES_H

#include "card/row_fusion/row_tile.h"

// True when block by block, stick by stick leaves both tiles, or one, what they read and write. All
// tiles from a to b stand behind each other; `tiles` is the first one of all.
bool rows_in_order(const plan_phase *first, const rows_tile *tiles, const rows_tile *a,
                   const rows_tile *b);

// The same elements on every core.
bool rows_same_place(const plan_phase *first, const rows_place *a, const rows_place *b);

// Iterations of so many innermost loops touch nothing of each other's in memory and LX, and no row
// anything of another row's, but what they only read.
bool rows_loops_turn(const row_fusion *c, const plan_phase *first, uint32_t loops);

// True when no two rows write the same bytes.
bool rows_divides(const row_fusion *c);

#endif
