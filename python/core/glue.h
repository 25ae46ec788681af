// SPDX-License-Identifier: Apache-2.0
//
// Between the C files and those of C++, which hold what PyTorch offers as C++ only.
#ifndef CORE_GLUE_H
#define CORE_GLUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spyre/placement.h"
#include "spyre/profile.h"

#ifdef __cplusplus
#define GLUE_NORETURN [[noreturn]]
extern "C" {
#else
#define GLUE_NORETURN _Noreturn
#endif

// ==== C, for the classes in C++. Fallible functions: the convention of core.h.

enum { CORE_MAX_CARDS = 8 };

// ---- the device (device.c)
uint32_t device_count(void);                    // cards in use; starts nothing
bool device_check(int64_t card);                // there is such a card
bool device_started(void);                      // and not in a child of fork()
bool device_open(void);                 // starts the runtime, once
int device_current(void);
bool device_set_current(int card);
bool device_synchronize(int card);              // -1: the current one
void device_cancel(void);                       // drops what is queued on all cards
uint32_t stream_current(uint32_t card);
uint32_t stream_exchange(uint32_t card, uint32_t stream);   // the one before

// ---- streams and events (stream.c). Streams of a runtime that has not started are idle.
bool stream_check(int64_t stream);              // there is such a stream
uint32_t stream_from_pool(uint32_t card, bool high);
bool stream_is_idle(uint32_t card, uint32_t stream);
bool stream_synchronize(uint32_t card, uint32_t stream);
bool event_record(void **event, uint32_t card, uint32_t stream);    // makes it when it is null
bool event_wait(void *event, uint32_t card, uint32_t stream);       // null: done already
bool event_is_done(const void *event);
bool event_synchronize(const void *event);

// ---- memory of cards (memory.c). Nothing is used before the start.
spyre_memory_statistics memory_statistics(uint32_t card);
void memory_reset_peak(uint32_t card);
void memory_reset_totals(uint32_t card);
void memory_empty_caches(void);
const spyre_placement *memory_placement(void);  // of this thread's new storages

// ---- storages (storage.c)
typedef struct storage storage;
// The pointer PyTorch gets is `*out_pointer`; storage_release() has the signature of a deleter.
storage *storage_create_raw(uint32_t card, int64_t bytes, void **out_pointer);
void storage_release(void *pointer, void *context);
uint32_t storage_card(const void *pointer);
bool storage_copy_bytes(void *target, const void *source, int64_t bytes);  // either may be ours

// ---- copies (copy.c)
// A tensor that is its whole storage, copied as it lies on the card; null for any other.
bool copy_whole(const void *tensor, void **out_tensor);
// Whether an operator of the card is to write the whole of `to`, which lies on the same card:
// `from` has another floating-point type.
bool copy_is_operator(const void *from, const void *to);

// ---- tensors (tensor.c)
// What PyTorch knows of one.
typedef struct {
    struct AtenTensorOpaque *handle;    // borrowed
    int64_t rank, numel, offset;
    const int64_t *size, *stride;
    int32_t torch_dtype, device_type, device_index;
    size_t element_bytes;
    char *base;                 // first byte of the storage; null for a tensor without elements
    storage *storage;           // null for tensors of the host
} tensor_info;
// `to` is a copy of `from`, maybe a wider one: what is known of the numbers of the one holds for
// it.
void tensor_note_copy(const void *from, const void *to);

// ---- concatenations that go on behind their first operand (grow_in_place.c)
// The result of torch.cat([tensor, more], dim); null where the operator is to make it.
bool extend_cat(const void *tensor, const void *more, int64_t dim, void **out_tensor);

// ---- tensors of collectives (comm.c)
// Whether the tensor (an at::Tensor *) is contiguous and its storage holds it alone in the form
// that every contiguous tensor of its sizes and dtype gets, so that equal tensors are equal bytes;
// or it is a run of whole sticks in a storage of one dim.
bool comm_is_direct(const void *tensor);
// The card's memory of such a tensor, and its bytes; null and 0 for one without elements. The
// storage stays where it is from then on.
bool comm_map(const void *tensor, bool writes, void **out_pointer, uint64_t *out_bytes);
// Puts an exchange on the virtual clock of a stream: spyre_exchange().
bool comm_model(uint32_t card, uint32_t stream, const spyre_exchange_info *info);
// Places on the virtual clock: of the stream's work, of the host.
double comm_stream_clock_us(uint32_t card, uint32_t stream);
double comm_host_clock_us(uint32_t card);
// Records an error of the library as this thread's; frees it.
void comm_fail(spyre_status error);

// ---- layouts in files (saved_layout.c)
enum { LAYOUT_TEXT_BYTES = 1024 };
// The form of a tensor's storage as text; false where a storage of the tensor's own would have the
// same anyway.
bool layout_write_text(const void *tensor, char text[LAYOUT_TEXT_BYTES]);
// Gives the form to the storage, values stay. Text of anything else is passed over.
bool layout_read_text(const void *tensor, const char *text);

// ---- operators one by one (eager.c)
enum { GLUE_MOST_TENSORS = 48, GLUE_MOST_RESULTS = 8, GLUE_KEY_BYTES = 8192 };
enum { GLUE_MOST_SCALARS = 4, GLUE_MOST_ARGUMENTS = 32 };

// A number of a call, which may be a parameter of its program.
typedef struct {
    double value;
    uint32_t at;                                // of its place in the key
    uint8_t argument;
    bool is_int;
} glue_number;

typedef struct glue_call glue_call;
struct glue_call {
    bool known;                                 // everything so far could be described
    uint32_t length, tensor_count;
    const void *tensors[GLUE_MOST_TENSORS];     // the caller's at::Tensor, each once; gone when
                                                // Python's kernel has them
    const void *identities[GLUE_MOST_TENSORS];
    storage *storages[GLUE_MOST_TENSORS];       // null: a tensor without elements
    uint32_t card;                              // of the first tensor
    void *results[GLUE_MOST_RESULTS];           // new at::Tensor, the caller's; null: undefined
    const void *written;                        // the argument that is the result instead, or null
    const void *op;
    const uint8_t *rules;                       // by argument of the operator; null: no parameters
    spyre_number_range range;                   // what every tensor's dtype holds
    uint32_t number_count, scalar_count;        // the first few numbers; parameters among them
    glue_number numbers[GLUE_MOST_SCALARS];
    double scalars[GLUE_MOST_SCALARS];
    glue_call *outer;
    uint8_t key[GLUE_KEY_BYTES];
};

// Describes the call of an operator, argument by argument.
void eager_begin(glue_call *call, const void *op);
void eager_value(glue_call *call, char kind, uint64_t bits);
void eager_text(glue_call *call, const char *text, size_t bytes);
// A tensor, and a number of argument `index` (SIZE_MAX: of a list). `kind`: 'i' or 'd'.
void eager_tensor(glue_call *call, size_t index, const void *tensor);
void eager_number(glue_call *call, size_t index, char kind, uint64_t bits);

// Runs the call's program: the number of results; EAGER_UNKNOWN when there is none; EAGER_MOVED
// when operands have got another layout, for which there may be one: to be described again. Throws.
enum { EAGER_UNKNOWN = -1, EAGER_MOVED = -2 };
int eager_run(glue_call *call);

// Around the Python kernel of a call without program.
void eager_enter(glue_call *call);
void eager_leave(glue_call *call);

// ---- profiles (profile.c)
void profile_start(void);
// Takes what was recorded, placed on the clock of the host: the number of records, which the caller
// frees, and in `*out_lost` of those that there was no room for. `*out_offset_ns` leads from their
// times (times 1000) to those of CLOCK_REALTIME. Names and sources are fit for JSON.
uint32_t profile_stop(spyre_activity **out_records, int64_t *out_offset_ns, uint64_t *out_lost);
const char *profile_name(const spyre_activity *activity);       // of its event

// ---- errors (error.c, source_line.c)
#define CORE_INDEX_ERROR ((spyre_code)(SPYRE_INDEX_FAULT + 1)) // beside the codes of a spyre_status
spyre_code core_error_code(void);
const char *core_error_message(void);
bool core_fail_pytorch(const char *what);       // an exception of PyTorch, caught; false
// What spyre_set_interrupt() gets: runs handlers of signals that have come.
bool core_interrupted(void);
// What spyre_set_caller() gets: the innermost line of Python outside of PyTorch and torch_spyre.
void core_caller(char *out_text, size_t size);
// The exception (type, value, traceback, new PyObjects) of the handler that ended the wait which
// has failed; false for any other error.
bool core_take_interruption(void *out_exception[3]);
void *core_error_class(void);   // of torch_spyre's own, a borrowed PyObject; null for other errors

// ==== C++, for the C files

bool comm_graph_register(void *module);         // comm_graph.cpp; the module is a PyObject

// Registers allocator, guard, hooks and generators with PyTorch.
void glue_register(void);

// All of a tensor (an at::Tensor *) but handle and storage; false where PyTorch has no answer, as
// of a sparse one.
bool glue_describe(const void *tensor, tensor_info *out);

// What all at::Tensors of one tensor have in common; of no other as long as one of them lives.
const void *glue_identity(const void *tensor);
// PyTorch's number of torch.get_default_dtype(), below 128.
int glue_default_dtype(void);
// Whether graphs that this thread traces keep attention with gradients one node; gives what held.
bool glue_trace_attention(bool knows);
// False with a Python exception when PyTorch refuses (no such name, registered twice).
bool glue_register_operator(const char *name);

// Gives elements to a new tensor (an at::Tensor *) where torch.use_deterministic_algorithms() and
// torch.utils.deterministic.fill_uninitialized_memory ask for it: NaN, or the largest integer.
void glue_settle_new(void *tensor);

// Throws the recorded error, as RuntimeError or OutOfMemoryError in Python.
GLUE_NORETURN void glue_throw(void);
// The exception of a signal's handler that ended the wait which has failed, if there is one.
void glue_throw_interruption(void);

// A new view of a tensor (an at::Tensor *) on the same storage, to be deleted by the caller.
void *glue_view(const void *tensor, int64_t rank, const int64_t *size, const int64_t *stride,
                int64_t offset_increment);

// The tensor (an at::Tensor *) of a Python object (a PyObject), which keeps it; null when it is
// none.
const void *glue_from_python(void *object);

// The Python object (a PyObject) of a tensor (an at::Tensor *), which it takes over; null with an
// exception set.
void *glue_to_python(void *tensor);

// PyTorch's name of a dtype by its number.
const char *glue_dtype_name(int torch_dtype);
bool glue_dtype_is_quantized(int torch_dtype);

// Whether a tensor (an at::Tensor *) stands for the conjugate or the negative of what its storage
// holds.
bool glue_is_lazy(const void *tensor);

// A new contiguous tensor of the sizes and the type of `like` with the elements of `tensor`, which
// is broadcast; null where PyTorch has thrown what glue_throw() throws on.
void *glue_converted(const void *tensor, const void *like);
// Lets `tensor` stand for what `like` stands for.
void glue_make_lazy(void *tensor, const void *like);

// ---- profiler.cpp
void profiler_register(void);                   // with Kineto, and the stubs
// A range "launch_kernel:<name>" of the calling thread; null, and no work, without a profiler.
// What fails here is left out of the profile: none of these throws.
void *profiler_begin_launch(const char *name);
void profiler_end_launch(void *range);
// `bytes` more, or fewer, belong to the storage that PyTorch knows by `pointer`.
void profiler_report_memory(void *pointer, int64_t bytes, uint32_t card);

// A new reference to the torch.Generator of the device (a PyObject), or null with an exception set.
void *glue_default_generator(int device);

#ifdef __cplusplus
}
#endif
#endif
