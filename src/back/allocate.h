// SPDX-License-Identifier: Apache-2.0
//
// Addresses in the back-end's share of LX, its top. A step starts with the whole share; nothing of
// it outlives the step. Internal.
#ifndef BACK_ALLOCATE_H
#define BACK_ALLOCATE_H

#include "back/back.h"
#include "back/place.h"
#include "base/integer.h"

enum { LX_ALIGNMENT = SPYRE_STICK_BYTES };

typedef struct {
    int64_t next;
} lx_share;

static inline int64_t lx_align(int64_t bytes)
{
    return round_up(bytes, LX_ALIGNMENT);
}

// First byte of the share, and its size.
int64_t lx_share_start(const back_options *options);
int64_t lx_share_bytes(const back_options *options);

lx_share lx_share_whole(const back_options *options);

// The share, and below it what no tensor of the bundle has in LX, if that may be taken.
SPYRE_MUST_CHECK spyre_status lx_share_largest(const bundle *b, const back_options *options,
                                               lx_share *out_share);

// A region of one or two aligned buffers. The tiles were chosen to fit, so running out is an
// internal error.
SPYRE_MUST_CHECK spyre_status lx_take(lx_share *share, int64_t bytes, bool doubled,
                                      lx_region *out_region);

// Tensors that the bundle keeps in LX must end below the share.
SPYRE_MUST_CHECK spyre_status lx_check_step(const bundle *b, const bundle_step *step,
                                            const back_options *options);

#endif
