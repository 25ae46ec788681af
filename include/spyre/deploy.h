// SPDX-License-Identifier: Apache-2.0
//
// A compiled graph that leaves its process: as bytes, and as a call on tensors of the host. What
// runs it needs this library and neither the graph nor the program that compiled it.
#ifndef SPYRE_DEPLOY_H
#define SPYRE_DEPLOY_H

#include <stddef.h>

#include "spyre/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// The executable as bytes, with the form's version and a checksum: programs, constants, the layouts
// of inputs and results, the report. They are for the build of the library that wrote them; the
// form for others is SpyreCode (spyre/program.h). Freed with spyre_bytes_free(). SPYRE_UNSUPPORTED
// when the library was linked without a build id.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_encode(const spyre_executable *executable,
                                                                void **out_bytes,
                                                                size_t *out_length);
SPYRE_API void spyre_bytes_free(void *bytes);

// Reads them back; `bytes` are copied. It launches, reports and counts as the one that was encoded;
// of stage texts and artefacts, which are made from the graph, there are none. SPYRE_INVALID_FORMAT
// for bytes of another version or build, that were cut or changed.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_decode(const void *bytes, size_t length,
                                                                spyre_executable **out_executable);

// A dense tensor in host memory. Bytes are those of all its elements.
typedef struct {
    void *data;
    int64_t byte_count;
    spyre_dtype dtype;
} spyre_host_tensor;

// Runs an executable that is one card segment, once, on stream 0 of a card, and waits. Tensors are
// in the order of spyre_executable_segment(executable, 0): inputs[i] has the sizes and strides of
// its input_storages[i] and any dtype that converts to the format of input_layouts[i]; outputs[i],
// which is filled, those of its outputs[i].storage (which type.view is a view of) and the dtype of
// outputs[i].type. SPYRE_UNSUPPORTED: there is a host segment, or several; SPYRE_INVALID_ARGUMENT
// names the tensor that does not fit; SPYRE_DEVICE_FAULT as spyre_stream_synchronize() has it.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_run(
    spyre_context *context, uint32_t card, spyre_executable *executable,
    const spyre_host_tensor *inputs, uint32_t input_count, const spyre_host_tensor *outputs,
    uint32_t output_count);

#ifdef __cplusplus
}
#endif
#endif
