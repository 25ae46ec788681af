// SPDX-License-Identifier: Apache-2.0
//
// A copy between views of two tensors on one card, of one format: loops over the bytes of both, so
// that nothing is converted and no element travels through the host's form.
//
// Thread rule: a built copy is read only; several threads may run parts of it.
#ifndef TENSOR_CARD_COPY_H
#define TENSOR_CARD_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "spyre/layout.h"

enum { CARD_COPY_LOOPS = 12, CARD_COPY_NESTS = 32 };

// A view of the dense host tensor that a layout describes.
typedef struct {
    const spyre_layout *layout;
    const spyre_view *dense, *view;
} laid_view;

typedef struct {
    int64_t size, step[2];                      // bytes of target and source
} card_loop;

typedef struct {
    uint32_t loops;                             // outermost first
    card_loop loop[CARD_COPY_LOOPS];
    int64_t start[2];                           // bytes
} card_nest;

typedef struct {
    uint32_t nests, element_bytes;
    int64_t bytes;                              // that move
    card_nest nest[CARD_COPY_NESTS];
} card_copy;

// Describes target = source, views of the same sizes. A source may have strides of 0, a target has
// each element once. False, and `out` is undefined, where formats differ, a view goes along several
// dims of a layout at once, or too many nests would be needed.
bool card_copy_build(const laid_view *target, const laid_view *source, card_copy *out);

// Moves part `index` of `parts`, which are different elements; `target` and `source` hold the two
// tensors, or are one: the elements that are read are none of those that are written.
void card_copy_run(const card_copy *copy, char *target, const char *source, uint32_t index,
                   uint32_t parts);

#endif
