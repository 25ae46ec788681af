// SPDX-License-Identifier: Apache-2.0
#ifndef ESTIMATE_PICTURE_H
#define ESTIMATE_PICTURE_H

#include "estimate/division.h"

// An SVG: for each division that fits a bar of the prefill and one of a step of decoding, as long
// as its time is beside the longest, divided by what it goes into.
void picture_draw(const estimate_model *m, const spyre_estimate_options *o, const division *items,
                  uint32_t count, text *out);

#endif
