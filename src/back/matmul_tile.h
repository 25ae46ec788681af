// SPDX-License-Identifier: Apache-2.0
//
// The roles of a matmul's dims and the tiles that move the fewest bytes. Internal.
#ifndef BACK_MATMUL_TILE_H
#define BACK_MATMUL_TILE_H

#include "back/nest.h"

typedef enum { MATMUL_LOOPED, MATMUL_ROW } matmul_role;

typedef struct {
    nest nest;
    uint32_t a, b, c;                   // tensors
    spyre_format format;                // of A and B in LX; SENINT8 of SENINT4
    spyre_format sum;                   // of the accumulator
    bool unpacks;                       // A and B are pairs that become elements in LX
    int64_t lanes;                      // elements a stick of that format
    uint32_t k;
    int32_t n;                          // -1: B has no columns of its own
    matmul_role role[BUNDLE_MAX_DIMS];  // of the other dims
} matmul_roles;

// From r->nest; makes k and n split at sticks.
SPYRE_MUST_CHECK spyre_status matmul_find_roles(matmul_roles *r);

typedef struct {
    int64_t tile[BUNDLE_MAX_DIMS];
    int64_t a_bytes, b_bytes, c_bytes, accumulator_bytes;   // one buffer each
    bool passing;   // there is room for two of A, B and C: rows and k are whole, the others not
} matmul_tiles;

// `chained`: cores exchange accumulators, so there is a second one and B never stays.
SPYRE_MUST_CHECK spyre_status matmul_choose_tiles(const matmul_roles *r, int64_t lx_bytes,
                                                  bool chained, matmul_tiles *out_tiles);

#endif
