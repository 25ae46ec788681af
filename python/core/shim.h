// SPDX-License-Identifier: Apache-2.0
//
// The part of libtorch's stable C interface that the binding calls. PyTorch's own header is C++
// only, so the prototypes are written out here; the names are those of
// torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h of PyTorch 2.13.
//
// A handle is owned by whoever received it from a call or as a kernel's argument. Functions return
// 0, or 1 with the message in torch_exception_get_what_without_backtrace().
#ifndef CORE_SHIM_H
#define CORE_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct AtenTensorOpaque *AtenTensorHandle;
typedef struct TorchLibraryOpaque *TorchLibraryHandle;
typedef struct StableListOpaque *StableListHandle;
typedef uint64_t StableIValue;
typedef int32_t AOTITorchError;
typedef void boxed_kernel(StableIValue *stack, uint64_t argument_count, uint64_t result_count);

// The version the prototypes were written for: 2.13.0.
#define SHIM_VERSION ((2ULL << 56) | (13ULL << 48))

int32_t aoti_torch_device_type_privateuse1(void);
int32_t aoti_torch_device_type_cpu(void);
int32_t aoti_torch_layout_strided(void);
int32_t aoti_torch_memory_format_channels_last(void);
int32_t aoti_torch_memory_format_channels_last_3d(void);
int32_t aoti_torch_memory_format_contiguous_format(void);
int32_t aoti_torch_memory_format_preserve_format(void);
int32_t aoti_torch_dtype_float16(void);
int32_t aoti_torch_dtype_bfloat16(void);
int32_t aoti_torch_dtype_float32(void);
int32_t aoti_torch_dtype_float64(void);
int32_t aoti_torch_dtype_bool(void);
int32_t aoti_torch_dtype_int64(void);
int32_t aoti_torch_dtype_int32(void);
int32_t aoti_torch_dtype_int16(void);
int32_t aoti_torch_dtype_int8(void);
int32_t aoti_torch_dtype_uint8(void);
int32_t aoti_torch_dtype_float8_e4m3fn(void);
int32_t aoti_torch_dtype_float8_e5m2fnuz(void);
size_t aoti_torch_dtype_element_size(int32_t dtype);

AOTITorchError aoti_torch_library_init_impl(const char *ns, const char *key, const char *file,
                                            uint32_t line, TorchLibraryHandle *out);
AOTITorchError aoti_torch_library_init_fragment(const char *ns, const char *file, uint32_t line,
                                                TorchLibraryHandle *out);
AOTITorchError aoti_torch_library_def(TorchLibraryHandle library, const char *schema);
AOTITorchError torch_library_impl(TorchLibraryHandle library, const char *name,
                                  boxed_kernel *kernel, uint64_t version);
AOTITorchError torch_call_dispatcher(const char *op, const char *overload, StableIValue *stack,
                                     uint64_t version);
AOTITorchError torch_from_blob(void *data, int64_t rank, const int64_t *sizes,
                               const int64_t *strides, int64_t storage_offset, int32_t dtype,
                               int32_t device_type, int32_t device_index, AtenTensorHandle *out,
                               int32_t layout, const uint8_t *opaque, int64_t opaque_bytes,
                               void (*deleter)(void *data, void *context), void *context);
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t *out);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle tensor, int64_t *out);
AOTITorchError aoti_torch__reinterpret_tensor(AtenTensorHandle self, int64_t rank,
                                              const int64_t *sizes, const int64_t *strides,
                                              int64_t offset_increment, AtenTensorHandle *out);
AOTITorchError aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle source,
                                int32_t non_blocking);
AOTITorchError torch_list_size(StableListHandle list, size_t *out);
AOTITorchError torch_list_get_item(StableListHandle list, size_t index, StableIValue *out);
AOTITorchError torch_delete_list(StableListHandle list);
AOTITorchError torch_new_list_reserve_size(size_t size, StableListHandle *out);
AOTITorchError torch_new_stable_ivalue(StableIValue **out);
AOTITorchError torch_delete_stable_ivalue(StableIValue *value);
const char *torch_exception_get_what_without_backtrace(void);

#endif
