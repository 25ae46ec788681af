// SPDX-License-Identifier: Apache-2.0
//
// Which emitter writes the kernels of a step. Internal.
#ifndef BACK_SELECT_EMITTER_H
#define BACK_SELECT_EMITTER_H

#include "back/emit.h"

typedef spyre_status emit_step(emitter *e, const bundle_step *step);

emit_step *select_emitter(const bundle_step *step);

// One file each.
SPYRE_MUST_CHECK spyre_status emit_pointwise(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_stick_copy(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_shuffle(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_rows(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_reduction(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_matmul(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_rank(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_mask(emitter *e, const bundle_step *step);
SPYRE_MUST_CHECK spyre_status emit_scan(emitter *e, const bundle_step *step);

#endif
