// SPDX-License-Identifier: Apache-2.0
//
// Numbers that a launch gives its program: what reaches the card of them.
#ifndef TENSOR_SCALAR_H
#define TENSOR_SCALAR_H

#include "spyre/graph.h"

// By the formula of scalar_form.def.
double scalar_apply(spyre_scalar_form form, double value);

const char *scalar_form_word(spyre_scalar_form form);
bool scalar_form_named(const char *word, size_t length, spyre_scalar_form *out_form);

// Fills the stick at `stick` with the number, rounded to the format.
void scalar_fill_stick(void *stick, spyre_format format, double value);

#endif
