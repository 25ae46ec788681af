// SPDX-License-Identifier: Apache-2.0
#ifndef CARD_NARROW_FORMULA_H
#define CARD_NARROW_FORMULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/opfunc.h"

// Whether narrow_formula() has the opfunc on this host.
bool narrow_has_formula(opfunc op);

// codes[n] = op(x[n], y[n]) as SEN169_FP16: opfunc_apply's result rounded once.
void narrow_formula(opfunc op, uint16_t *codes, const float *x, const float *y, size_t count);

#endif
