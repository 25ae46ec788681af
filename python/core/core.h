// SPDX-License-Identifier: Apache-2.0
//
// What the files of the extension share: errors, the device, storages, tensors.
//
// Convention: a fallible function returns false (or null) after recording the error of this thread
// with core_fail() or core_check(). The outermost function turns it into an exception:
// core_raise() in a Python method, glue_throw() in a kernel that PyTorch's dispatcher called.
#ifndef CORE_CORE_H
#define CORE_CORE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdnoreturn.h>

#include "glue.h"
#include "shim.h"

enum { CORE_MAX_RANK = 16 };

// ---- errors (error.c)
bool core_fail(spyre_code code, const char *format, ...) SPYRE_PRINTF(2, 3);
bool core_check(spyre_status status);           // frees the status; true when it was null
bool core_shim(AOTITorchError error);           // true when 0
PyObject *core_raise(void);                     // null, with the Python exception set
PyObject *core_raise_of_graph(void);            // the same; of wrong arguments ArgumentError
PyObject *core_raise_runtime(void);             // as RuntimeError: errors of devices and streams
bool error_register(PyObject *module);

// ---- values of Python (arguments.c)
// Integers of a Python sequence; -1 with an exception set.
int64_t core_ints(PyObject *sequence, int64_t *out, int64_t capacity, const char *what);
// As PyArg_ParseTuple, of an object that may be no tuple: then TypeError, which names it `what`.
bool core_parse(PyObject *object, const char *what, const char *format, ...);
// Reads an int of 32 bits without sign, also as a converter ("O&"); 0 with an exception otherwise.
int core_u32(PyObject *object, void *out);
PyObject *core_int_list(const int64_t *values, uint32_t count);
// The text that a function gave, which this frees, as str; null with an exception for an error.
PyObject *core_text(spyre_status status, char **text);
// ---- functions that Python hands over and the binding calls (python_callbacks.c)
typedef enum { HOOK_DOWNCAST, HOOK_WIDE, HOOK_LAYOUT, HOOK_COUNT } hook;
// Calls the function, if there is one: a new reference, None without a function, null for an error.
PyObject *hook_call(hook which);
bool hook_register(PyObject *module);

// The rest of a function that returns a list of `count` new objects, each made by an expression of
// i; null with an exception when one is null.
#define CORE_RETURN_LIST(count, make)                                                              \
    PyObject *list = PyList_New((Py_ssize_t)(count));                                              \
    for (uint32_t i = 0; list && i < (count); i++) {                                               \
        PyObject *item = make;                                                                     \
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);                \
    }                                                                                              \
    return list

// ---- objects of a type of this module (object.c)
PyObject *object_new(PyTypeObject *type);       // zeros behind its head
void object_free(PyObject *self);               // after what it holds

// ---- device and streams (device.c), beside what glue.h has
bool device_is_forked(void);
spyre_context *device_context(void);            // starts the runtime on the first call; may fail
void device_profile(bool enabled);              // whether the runtime records, now and once started
bool device_register(PyObject *module);
void core_use_pytorch_threads(void);            // openmp_threads.c; of the calling thread
bool stream_register(PyObject *module);
bool memory_register(PyObject *module);
bool placement_register(PyObject *module);
bool profile_register(PyObject *module);        // profile.c

// ---- dtypes (dtype.c)
spyre_dtype dtype_of_torch(int32_t torch_dtype);            // SPYRE_DTYPE_COUNT: not of the card
bool dtype_of_card(int32_t torch_dtype, spyre_dtype *out);   // fails without a form on the card
bool dtype_can_be_stored(int32_t torch_dtype);              // fails for quantized dtypes
int32_t dtype_to_torch(spyre_dtype dtype);
bool dtype_of_object(PyObject *object, spyre_dtype *out);   // of a torch.dtype; false: no exception
// Narrows `range`, of numbers that may be parameters of a program, to what the dtype holds.
void dtype_narrow_range(int32_t torch_dtype, spyre_number_range *range);
bool dtype_register(PyObject *module);

// ---- storages (storage.c, storage_values.c)
// A storage is known to PyTorch by a pointer that no host access may follow: non-canonical, it
// names the card and the record below. The card's address stays in the record, so a storage may
// move when it gets another layout. A storage that PyTorch allocated by bytes alone has no element
// type; its bytes stay on the host until a tensor gives it one (storage_type()).
//
// A storage of bytes is one of int8 and rank 1. It holds elements of any dtype as the host has
// them: those that the card has no format for, and int64 whose values do not fit 32 bits. No
// program reads such elements; operators on them run on the host. A storage of int64 becomes one of
// bytes when a value that does not fit is written.
typedef struct storage_memory storage_memory;

struct storage {
    void *pointer;              // PyTorch's
    uint32_t card;
    bool typed;
    spyre_dtype dtype;
    spyre_view dense;           // the host tensor that `layout` describes; offset 0
    spyre_layout layout;
    uint64_t address;           // of card memory; 0 until typed
    storage_memory *shared;     // when other storages have it, too
    int64_t card_bytes;
    int64_t host_bytes;         // of the dense host tensor
    void *raw;                  // untyped: host_bytes bytes
    // What launches, of any thread, have made of its layout since it was written.
    _Atomic bool read_as_is;        // one had use for it
    _Atomic bool read_otherwise;    // one copied all of it into another one first
    bool settled;               // it has been given that other one, or the user's: it stays
    bool extended;              // the next write is that of its last rows, which no other one has
    bool window;                // over another one, which sees what is written
    _Atomic bool range_known;   // since it was written
    spyre_integer_range range;  // of all its integers, under a lock of storage_values.c
    uint32_t widened_from;      // of float32: the dtype whose numbers these are, plus one; 0:
                                // not known
};

storage *storage_create(uint32_t card, spyre_dtype dtype, const spyre_view *dense,
                        const spyre_layout *layout, void **out_pointer);
// Card memory of several storages: views of one another, each of which sees what is written into
// any of them, or one that goes on behind the end of another one, copied on write. The memory is
// freed with the last of them.

// Another form of the card memory of `of`, which is typed, and whose layout stays from then on.
storage *storage_share(storage *of, spyre_dtype dtype, const spyre_view *dense,
                       const spyre_layout *layout, void **out_pointer);
bool storage_is_over(const storage *a, const storage *b);      // views in the same card memory
bool storage_has_views(const storage *s);
// A storage of `layout`, the beginning of which has the contents of `of`, in the same card memory,
// that goes on for `reach_bytes` in all, zeros behind it; *out is null, and no error, where there
// is no such room behind `of` or others have it.
bool storage_extend(storage *of, const spyre_view *dense, const spyre_layout *layout,
                    int64_t reach_bytes, storage **out, void **out_pointer);
// An uninitialised one in memory with room, zeros, for storages that extend it.
storage *storage_create_with_room(uint32_t card, spyre_dtype dtype, const spyre_view *dense,
                                  const spyre_layout *layout, int64_t room_bytes,
                                  void **out_pointer);
// `of` and the zeros behind it, for one launch: what is written into it is in `of`, too.
storage *storage_with_zeros(storage *of, const spyre_view *dense, const spyre_layout *layout,
                            void **out_pointer);
// Before a write, which forgets what is known of its elements: gives the storage memory of its own
// where one that it extends, or that extends it, would see it.
bool storage_own(storage *s);
storage *storage_create_bytes(uint32_t card, int64_t bytes, void **out_pointer);
bool storage_is_bytes(const storage *s);
storage *storage_of(const void *base);          // null for a pointer that is not ours
int64_t storage_start_bytes(const void *base);  // where a part of a storage starts in it; else 0
bool storage_type(storage *s, spyre_dtype dtype);           // SPYRE_DTYPE_COUNT: none of the card
bool storage_set_layout(storage *s, const spyre_layout *layout);
// Gives the storage the layout that the next launch prefers, when one launch has copied the same
// contents already, or `at_once`: once in its life, and only where no launch has used the layout
// that it had, so that two readers do not move it back and forth; a layout that the user gave
// stays. *out_moved tells.
bool storage_prefer_layout(storage *s, const spyre_layout *layout, bool at_once, bool *out_moved);
// Gives a typed storage another form of as many bytes, and forgets its values; one with views of
// another layout stays as it is.
bool storage_renew(storage *s, spyre_dtype dtype, const spyre_view *dense,
                   const spyre_layout *layout);
// Gives the storage a form of as many bytes; int64 that does not fit stays as it is. Values stay.
bool storage_set_form(storage *s, spyre_dtype dtype, const spyre_view *dense,
                      const spyre_layout *layout);
// A copy of `from`, form included, in a storage of as many bytes without element type.
bool storage_take_after(storage *s, const storage *from);
bool storage_read(const storage *s, void *host);            // host_bytes bytes
bool storage_write(storage *s, const void *host);
// From or to a host tensor of the storage's sizes and any strides; SPYRE_UNSUPPORTED is for the
// caller to stage. *out_held is false when int64 values are written that do not fit the card's 32
// bits: the storage is to be written again, as a whole, before anyone reads it.
bool storage_read_view(const storage *s, const spyre_view *view, void *host);
bool storage_write_view(storage *s, const spyre_view *view, const void *host, bool *out_held);
// As storage_read and storage_write, of what such a view of the storage touches and maybe more;
// packed: in memory that storage_pack() described. *out_held as above.
bool storage_read_part(const storage *s, const spyre_view *part, bool packed, void *host);
bool storage_write_part(storage *s, const spyre_view *part, bool packed, const void *host,
                        bool *out_held);
// Memory for what moves with a part alone: elements, and the part's view of them. False where the
// layout walks along several dims at once.
bool storage_pack(const storage *s, const spyre_view *part, spyre_view *out_part,
                  int64_t *out_elements);
// The range of the integers of all of a storage. Read: where they lie, SPYRE_UNSUPPORTED where
// spyre_read_integer_range() cannot. Kept: until it is written, unless it has views, which write
// it, too; false where none is.
bool storage_read_range(const storage *s, spyre_integer_range *out);
bool storage_kept_range(storage *s, spyre_integer_range *out);
void storage_keep_range(storage *s, const spyre_integer_range *range);
bool storage_read_raw(const storage *s, void *bytes);       // card_bytes bytes, as on the card
bool storage_exchange(storage *a, storage *b);  // card memory; false when they differ otherwise

// ---- tensors (tensor.c)
bool tensor_describe(AtenTensorHandle handle, tensor_info *out);
// Of a Python tensor, which keeps `handle`; TypeError for any other object.
bool tensor_of_object(PyObject *object, tensor_info *out);
// Everything of a tensor that a compiled program depends on, as bytes: their number. Above
// `capacity` nothing is written (tensor_key.c).
size_t tensor_write_key(const tensor_info *t, void *buffer, size_t capacity);
// The keys of a list or tuple of tensors, as bytes; null with an exception set.
PyObject *tensors_key(PyObject *tensors);
// Same sizes, and same strides of the dims of more than one element.
bool tensor_same_shape(int64_t rank, const int64_t *size, const int64_t *stride,
                       const int64_t *other_size, const int64_t *other_stride);
bool tensor_same_geometry(const tensor_info *a, const tensor_info *b);  // and of the same dtype
bool tensor_is_contiguous(const tensor_info *t);
// A contiguous tensor of its sizes, but for that of a dim; of all its sizes with dim -1.
spyre_view tensor_dense_view(const tensor_info *t, int64_t dim, int64_t size);
bool tensor_covers(const tensor_info *t);       // its typed storage exactly
bool tensor_fills_bytes(const tensor_info *t);  // a storage of bytes exactly, in any order of dims
bool tensor_is_disjoint(const tensor_info *t);  // no two elements share memory, by the strides
AtenTensorHandle tensor_handle(const void *tensor);         // of a borrowed at::Tensor
bool tensor_view(const tensor_info *t, spyre_view *out);    // fails above SPYRE_MAX_RANK
void tensor_contiguous_strides(int64_t rank, const int64_t *size, int64_t *out_stride);
// Fails for sizes and strides that no tensor can have. PyTorch itself checks what it asks for only
// after the memory is there.
bool tensor_count_elements(int64_t rank, const int64_t *size, const int64_t *stride,
                           int64_t *out_count);
// Settles the form of a storage without element type: that of a new tensor when this one fills it,
// else a flat one.
bool tensor_settle(const tensor_info *t);
// Before the tensor is overwritten: one that is all of a storage of bytes gets the form of a new
// tensor, whose values are not those that it had.
bool tensor_renew(const tensor_info *t);
// Whether its storage has the form that tensor_create() would give it.
bool tensor_has_own_form(const tensor_info *t);
bool tensor_create(int64_t rank, const int64_t *size, const int64_t *stride, int32_t torch_dtype,
                   uint32_t card, AtenTensorHandle *out);
// Of the same sizes, strides and form of its storage, uninitialised.
bool tensor_create_alike(const tensor_info *t, AtenTensorHandle *out);
// The tensor that is all of a new storage, which goes when that fails.
bool tensor_of_storage(void *pointer, const storage *s, AtenTensorHandle *out);
// A tensor of these sizes and strides over the memory of another one's storage: storage_share().
bool tensor_share(storage *of, const spyre_view *dense, const spyre_layout *layout,
                  AtenTensorHandle *out);
// The tensor of a fresh storage with `layout`, viewed as `view`.
bool tensor_create_laid_out(spyre_dtype dtype, const spyre_view *dense, const spyre_layout *layout,
                            const spyre_view *view, uint32_t card, AtenTensorHandle *out);

// ---- copies (copy.c)
// The elements of a tensor of the card, in the order of its dims, as the host has them.
bool copy_read(const tensor_info *t, void *elements);

// ---- kernels (boxed_kernels.c). Arguments: both consume what they read.
int64_t kernel_take_ints(StableIValue list, int64_t *out, int64_t capacity);   // -1 on failure
// Sizes and strides, of one number: the rank, or -1.
int64_t kernel_take_view(const StableIValue lists[2], int64_t *out_size, int64_t *out_stride,
                         int64_t capacity);
bool kernel_take_optional(StableIValue value, StableIValue *out);              // false for None
bool kernel_register(const char *op, boxed_kernel *kernel);     // of aten, for the card

// ---- layouts (layout_object.c)
bool layout_of_object(PyObject *object, spyre_layout *out);
PyObject *layout_to_object(const spyre_layout *layout);
bool layout_register(PyObject *module);

// ---- what the compiler made (executable_object.c)
spyre_executable *executable_of_object(PyObject *object);   // null with TypeError set
PyObject *executable_to_object(spyre_executable *compiled); // takes it over
// The segment of an Executable by a Python integer, and its number; null with IndexError set.
const spyre_segment *executable_segment(PyObject *self, PyObject *index, uint32_t *out_number);
// Adds the type Executable to the module.
bool executable_add_type(PyObject *module, PyMethodDef *methods);

// ---- launches (launch.c)
// The result that brings the memory of result `index`: the first of its buffer, or SPYRE_NO_ID for
// a view of an input.
uint32_t executable_output_owner(const spyre_segment *segment, uint32_t index);
bool executable_owns_outputs(const spyre_segment *segment); // none is a view
// Address of an input's storage on the card, moved into the layout that the program was compiled
// for.
bool executable_input(const spyre_segment *segment, size_t index, uint32_t card, storage *s,
                      uint64_t *out);
bool executable_prefers(const spyre_segment *segment);      // any other layout of an input
// storage_prefer_layout() for an input of that storage, or none.
bool executable_move_input(const spyre_segment *segment, uint32_t index, storage *s, bool at_once,
                           bool *out_moved);
// The tensor of a fresh storage for a result, whose address goes to its place among `buffers`.
bool executable_output(const spyre_segment *segment, uint32_t index, uint32_t card,
                       AtenTensorHandle *out, uint64_t *buffers);
// Hands a card segment to the current stream of the card, as a range of profiles.
bool executable_start(spyre_executable *executable, uint32_t segment, uint32_t card,
                      const uint64_t *inputs, const uint64_t *buffers, const double *scalars);
// Methods of Executable.
// launch(segment, inputs, card, scalars=()) -> the results that own their memory; the others are
// views(), which the caller makes.
PyObject *executable_launch(PyObject *self, PyObject *args);
// The same of a tuple of inputs, by the segment's number and without numbers.
PyObject *executable_launch_tensors(spyre_executable *executable, uint32_t segment,
                                    PyObject *inputs, uint32_t card);
// The same by the interpreter of bundles.
PyObject *executable_interpret(PyObject *self, PyObject *args);
// run(tensors): launches a kernel of compile_op_specs() on its arguments in order; asynchronous.
PyObject *executable_run(PyObject *self, PyObject *tensors);
// preferred_inputs(segment) -> [inputs that it would read in another layout without a copy]
PyObject *executable_preferred_inputs(PyObject *self, PyObject *segment);
// prefer_layout(segment, input, tensor, at_once) -> whether the tensor's storage has got the layout
// that the segment prefers, as storage_prefer_layout() decides.
PyObject *executable_prefer_layout(PyObject *self, PyObject *args);

// ---- launches of directories (spyrecode_launch.c)
struct spyre_program;
// On a sequence of tensors; tiled: larger ones may be taken in several launches.
bool spyrecode_launch(struct spyre_program *program, PyObject *tensors, bool tiled);
// _launch_from_views(wanted)
PyObject *spyrecode_launch_from_views(PyObject *self, PyObject *wanted);

// ---- passes over the loop IR (loops.c)
spyre_loops_pass loops_call;    // the context is a callable, (point, loops)
PyObject *loops_costs(const spyre_loops *loops); // a new list, a prediction an op
PyObject *loops_read(const spyre_loops *loops);  // (ops, buffers), see loops.c
bool loops_register(PyObject *module);

bool empty_register(PyObject *module);          // ops_empty.c
bool tensor_key_register(PyObject *module);     // tensor_key.c
bool view_register(PyObject *module);           // ops_view.c
bool copy_register(PyObject *module);           // copy.c
bool copy_rows_register(PyObject *module);      // copy_rows.c
bool extend_register(PyObject *module);         // grow_in_place.c
bool graph_register(PyObject *module);          // graph_object.c
bool executable_register(PyObject *module);     // executable.c
bool compile_register(PyObject *module);        // compile.c
bool eager_register(PyObject *module);          // eager.c
bool graph_calls_register(PyObject *module);    // graph_calls.c
bool spyrecode_register(PyObject *module);        // program.c
bool ktir_register(PyObject *module);           // ktir.c
const spyre_graph *graph_of_object(PyObject *object);       // null with TypeError set

#endif
