// SPDX-License-Identifier: Apache-2.0
//
// What a function is called with: which arguments are addresses, and which views lie at constant
// addresses.
#ifndef KTIR_PARAMETERS_H
#define KTIR_PARAMETERS_H

#include "ktir/ir/ir.h"
#include "spyre/ktir.h"

typedef struct {
    spyre_ktir_parameter form;
    ktir_element element;               // of memory, or of the number
    const ktir_op *view;                // of one that is a view
    int64_t space;                      // of a view: KTIR_HBM, KTIR_LX ..
    int64_t address, byte_count;        // of a view
} ktir_parameter;

typedef struct {
    uint32_t count;
    const ktir_parameter *items;
} ktir_parameters;

// SPYRE_UNSUPPORTED when views give one address elements of different sizes.
SPYRE_MUST_CHECK spyre_status ktir_find_parameters(const ktir_module *m, const ktir_function *f,
                                                   ktir_parameters *out_parameters);

#endif
