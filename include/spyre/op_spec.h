// SPDX-License-Identifier: Apache-2.0
//
// Kernels from OpSpecs: what the front-end decided for every op, as JSON that a person may change
// (docs/op-spec.md). spyre_executable_text() gives the OpSpecs of a card segment as "opspec".
#ifndef SPYRE_OP_SPEC_H
#define SPYRE_OP_SPEC_H

#include "spyre/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

// Compiles a JSON array of OpSpecs into an executable of one card segment. Its inputs and outputs
// are numbers of launch arguments (arg_index): input_count of them in `inputs`, and `value` of
// every output, which is a buffer of its own. Layouts are those of the specs, storages and dtypes
// are not known. `name` is for messages. SPYRE_INVALID_FORMAT names place and rule.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_compile_op_specs(const char *json, const char *name,
                                                               const spyre_settings *settings,
                                                               spyre_executable **out_executable);

#ifdef __cplusplus
}
#endif
#endif
