// SPDX-License-Identifier: Apache-2.0
//
// Between the C files and glue.cpp, which implements what PyTorch offers as C++ classes only.
#ifndef CORE_GLUE_H
#define CORE_GLUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spyre/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the C++ classes call. `error` results are null or a message that stays valid until the
// thread's next error.
typedef struct {
    bool (*started)(void);
    bool (*forked)(void);
    int (*device_count)(void);
    int (*device_current)(void);
    const char *(*device_set)(int device);
    int (*device_of)(const void *pointer);
    const char *(*device_synchronize)(int device);
    const char *(*allocate)(int device, size_t bytes, void **out_pointer);
    void (*release)(void *pointer, void *context);
    const char *(*copy)(void *target, const void *source, size_t bytes);
    bool (*statistics)(int device, spyre_memory_statistics *out);
    void (*reset_peak)(int device);
    void (*reset_totals)(int device);
    void (*empty_cache)(void);
    int64_t (*stream_current)(int device);
    int64_t (*stream_exchange)(int device, int64_t stream);
    int64_t (*stream_new)(int device, bool high);
    bool (*stream_query)(int device, int64_t stream);
    const char *(*stream_synchronize)(int device, int64_t stream);
    const char *(*event_record)(void **event, int device, int64_t stream);
    const char *(*event_wait)(void *event, int64_t stream);
    bool (*event_query)(const void *event);
    const char *(*event_synchronize)(const void *event);
    double (*event_elapsed_ms)(const void *begin, const void *end);
    void (*event_destroy)(void *event);
} glue_calls;

// ---- operators one by one (eager.c)

enum { GLUE_MOST_TENSORS = 16, GLUE_KEY_BYTES = 2048 };

typedef struct glue_call glue_call;
struct glue_call {
    bool known;                                 // everything so far could be described
    uint32_t length, tensor_count;
    const void *tensors[GLUE_MOST_TENSORS];     // the caller's at::Tensor, each once
    void *storages[GLUE_MOST_TENSORS];
    void *results[4];                           // new at::Tensor, the caller's
    const void *written;                        // the argument that is the result instead, or null
    glue_call *outer;
    uint8_t key[GLUE_KEY_BYTES];
};

// Describes the call of an operator, argument by argument.
void eager_begin(glue_call *call, const void *op);
void eager_value(glue_call *call, char kind, uint64_t bits);
void eager_tensor(glue_call *call, const void *tensor);

// Runs the call's program: the number of results, or -1 when there is none. Throws.
int eager_run(glue_call *call);

// Around the Python kernel of a call without program.
void eager_enter(glue_call *call);
void eager_leave(glue_call *call);

bool glue_same_tensor(const void *a, const void *b);
// False with a Python exception when PyTorch refuses (no such name, registered twice).
bool glue_register_operator(const char *name);

// Registers allocator, guard, hooks and generators with PyTorch; `calls` must stay valid.
void glue_register(const glue_calls *calls);

// Throws the C++ exception that PyTorch turns into RuntimeError or OutOfMemoryError.
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void glue_throw(bool out_of_memory, const char *message);

// A new view of a tensor (an at::Tensor *) on the same storage, to be deleted by the caller.
void *glue_view(const void *tensor, int64_t rank, const int64_t *size, const int64_t *stride,
                int64_t offset_increment);

// The tensor (an at::Tensor *) of a Python object (a PyObject), which keeps it; null when it is none.
const void *glue_from_python(void *object);

// The Python object (a PyObject) of a tensor (an at::Tensor *), which it takes over; null with an
// exception set.
void *glue_to_python(void *tensor);

// PyTorch's name of a dtype by its number.
const char *glue_dtype_name(int torch_dtype);

// A new reference to the torch.Generator of the device (a PyObject), or null with an exception set.
void *glue_default_generator(int device);

#ifdef __cplusplus
}
#endif
#endif
