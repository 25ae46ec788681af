// SPDX-License-Identifier: Apache-2.0
//
// How the cores divide a matrix product by itself: the fastest of all divisions of its loops, those
// of its contracted loops among them.
#ifndef FRONT_MATMUL_DIVISION_H
#define FRONT_MATMUL_DIVISION_H

#include "front/plan/division_price.h"

// Of product `index`; `resident`: operands in LX, a bit each, of which every core must have room
// for its parts. `published` is what torch-spyre chooses, the result where nothing is faster.
division matmul_division(const division_prices *p, uint32_t index, uint32_t resident,
                         const division *published);

#endif
