// SPDX-License-Identifier: Apache-2.0
//
// The card's operation functions: those of the published list and those of this project alone. The
// rows are those of src/tensor/opfunc.def.
#ifndef SPYRE_OPFUNC_H
#define SPYRE_OPFUNC_H

#include <stdbool.h>
#include <stdint.h>

#include "spyre/dtype.h"
#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SPYRE_OPFUNC_PUBLISHED,     // of the SuperDSC-Bundle specification or of torch-spyre
    SPYRE_OPFUNC_OWN,           // of this project alone: the setting published_opfuncs refuses it
} spyre_opfunc_class;

enum { SPYRE_OPFUNC_PARAMETERS = 3 };

typedef struct {
    const char *name;           // in a bundle: "relufwd"
    spyre_opfunc_class class_of;
    const char *kind;           // "unary", "binary", ..
    uint32_t least_inputs, most_inputs;
    const char *parameters[SPYRE_OPFUNC_PARAMETERS]; // names of its constants, or null
    const char *meaning;        // of a published name without a definition, as it is here; or null
} spyre_opfunc_info;

// Fills in the row at `index`, from 0 on; false behind the last one. Strings are static memory.
SPYRE_API bool spyre_opfunc_at(uint32_t index, spyre_opfunc_info *out);

// Whether graphs compute the row's function in this dtype, by the setting `profile`.
SPYRE_API bool spyre_opfunc_takes(uint32_t index, spyre_dtype dtype, bool extended);

// "published" or "own".
SPYRE_API const char *spyre_opfunc_class_name(spyre_opfunc_class class_of);

#ifdef __cplusplus
}
#endif

#endif
