// SPDX-License-Identifier: Apache-2.0
//
// The views that PyTorch asks of a device; all others are composed of as_strided.
#include "core.h"

#include <stdio.h>
#include <string.h>

// Replaces the kernel's first argument by a view of it.
static bool reinterpret(StableIValue *stack, int64_t rank, const int64_t *size,
                        const int64_t *stride, int64_t offset_increment)
{
    AtenTensorHandle self = (AtenTensorHandle)(uintptr_t)stack[0], view = NULL;
    bool ok = true;
    for (int64_t i = 0; ok && i < rank; i++)
        ok = stride[i] >= 0 || core_fail(SPYRE_INVALID_ARGUMENT,
                                         "the stride of dim %lld is %lld: out of bounds for "
                                         "a view",
                                         (long long)i, (long long)stride[i]);
    // The shim's own function makes an inference tensor of a normal one in inference mode.
    if (ok) view = glue_view(self, rank, size, stride, offset_increment);
    aoti_torch_delete_tensor_object(self);
    stack[0] = (StableIValue)(uintptr_t)view;
    return ok;
}

static noreturn void drop_and_throw(StableIValue *stack)
{
    aoti_torch_delete_tensor_object((AtenTensorHandle)(uintptr_t)stack[0]);
    glue_throw();
}

// as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset)
static void as_strided(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK], offset = 0;
    int64_t rank = kernel_take_view(stack + 1, size, stride, CORE_MAX_RANK);
    StableIValue given;
    bool has_offset = kernel_take_optional(stack[3], &given);
    AtenTensorHandle self = (AtenTensorHandle)(uintptr_t)stack[0];
    if (rank < 0 || !core_shim(aoti_torch_get_storage_offset(self, &offset))) drop_and_throw(stack);
    tensor_info view;
    if (!reinterpret(stack, rank, size, stride, has_offset ? (int64_t)given - offset : 0))
        glue_throw();
    if (!tensor_describe((AtenTensorHandle)(uintptr_t)stack[0], &view)) drop_and_throw(stack);
}

// Strides that show a tensor in another shape without a copy; PyTorch's computeStride. Dims of the
// tensor that lie on one line of memory form a chunk; each chunk must be split without remainder.
static bool view_strides(const tensor_info *t, int64_t rank, const int64_t *size, int64_t *stride)
{
    if (t->numel == 0 || t->rank == 0) {
        tensor_contiguous_strides(rank, size, stride);
        return true;
    }
    int64_t dim = rank - 1, step = t->stride[t->rank - 1], chunk = 1, taken = 1;
    for (int64_t i = t->rank - 1; i >= 0; i--) {
        chunk *= t->size[i];
        bool ends = i == 0 || (t->size[i - 1] != 1 && t->stride[i - 1] != chunk * step);
        if (!ends) continue;
        while (dim >= 0 && (taken < chunk || size[dim] == 1)) {
            stride[dim] = taken * step;
            taken *= size[dim--];
        }
        if (taken != chunk) return false;
        if (i > 0) {
            step = t->stride[i - 1];
            chunk = taken = 1;
        }
    }
    return dim == -1;
}

// Fails in PyTorch's words. Ambiguous: an empty tensor, and a -1 beside a dim of size 0.
static bool refuse_size(const tensor_info *t, int64_t rank, const int64_t *size, bool ambiguous)
{
    char shape[512];
    size_t length = 0;
    for (int64_t i = 0; i < rank && length < sizeof shape - 32; i++)
        length += (size_t)snprintf(shape + length, sizeof shape - length, "%s%lld", i ? ", " : "",
                                   (long long)size[i]);
    shape[length] = '\0';
    if (ambiguous)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "cannot reshape tensor of 0 elements into shape [%s] because the "
                         "unspecified dimension size -1 can be any value and is ambiguous", shape);
    return core_fail(SPYRE_INVALID_ARGUMENT, "shape '[%s]' is invalid for input of size %lld",
                     shape, (long long)t->numel);
}

// Replaces a -1 in `size`.
static bool infer_size(const tensor_info *t, int64_t rank, int64_t *size)
{
    int64_t known = 1, unknown = -1;
    for (int64_t i = 0; i < rank; i++) {
        if (size[i] < -1)
            return core_fail(SPYRE_INVALID_ARGUMENT, "invalid shape dimension %lld",
                             (long long)size[i]);
        if (size[i] == -1 && unknown >= 0)
            return core_fail(SPYRE_INVALID_ARGUMENT, "only one dimension can be inferred");
        if (size[i] == -1) unknown = i;
        else if (__builtin_mul_overflow(known, size[i], &known))
            return refuse_size(t, rank, size, false);
    }
    if (unknown >= 0 && known == 0) return refuse_size(t, rank, size, t->numel == 0);
    int64_t inferred = unknown >= 0 ? t->numel / known : 1;
    if (known * inferred != t->numel) return refuse_size(t, rank, size, false);
    if (unknown >= 0) size[unknown] = inferred;
    return true;
}

// view(Tensor(a) self, SymInt[] size)
static void view(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK];
    int64_t rank = kernel_take_ints(stack[1], size, CORE_MAX_RANK);
    tensor_info t;
    bool ok = rank >= 0 && tensor_describe((AtenTensorHandle)(uintptr_t)stack[0], &t) &&
              infer_size(&t, rank, size);
    if (ok && !view_strides(&t, rank, size, stride))
        ok = core_fail(SPYRE_INVALID_ARGUMENT,
                       "view size is not compatible with input tensor's size and stride (at least "
                       "one dimension spans across two contiguous subspaces). Use .reshape(...) "
                       "instead.");
    if (!ok) drop_and_throw(stack);
    if (!reinterpret(stack, rank, size, stride, 0)) glue_throw();
}

// _reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride)
static void reshape_alias(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK];
    int64_t rank = kernel_take_view(stack + 1, size, stride, CORE_MAX_RANK);
    if (rank < 0) drop_and_throw(stack);
    if (!reinterpret(stack, rank, size, stride, 0)) glue_throw();
}

// unfold(Tensor(a) self, int dimension, int size, int step)
static void unfold(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t dim = (int64_t)stack[1], window = (int64_t)stack[2], step = (int64_t)stack[3];
    int64_t size[CORE_MAX_RANK + 1], stride[CORE_MAX_RANK + 1];
    tensor_info t;
    bool ok = tensor_describe((AtenTensorHandle)(uintptr_t)stack[0], &t);
    int64_t rank = ok ? t.rank : 0, least = rank ? rank : 1;
    if (ok && rank > CORE_MAX_RANK)
        ok = core_fail(SPYRE_INVALID_ARGUMENT, "unfold: %lld dims, at most %d are allowed",
                       (long long)rank, CORE_MAX_RANK);
    if (ok && (dim < -least || dim >= least))
        ok = core_fail(CORE_INDEX_ERROR,
                       "Dimension out of range (expected to be in range of [%lld, %lld], but got "
                       "%lld)",
                       (long long)-least, (long long)(least - 1), (long long)dim);
    if (dim < 0) dim += least;
    int64_t extent = ok && rank ? t.size[dim] : 1;
    if (ok && (window < 0 || window > extent))
        ok = core_fail(SPYRE_INVALID_ARGUMENT,
                       "maximum size for tensor at dimension %lld is %lld but size is %lld",
                       (long long)dim, (long long)extent, (long long)window);
    if (ok && step <= 0)
        ok = core_fail(SPYRE_INVALID_ARGUMENT, "step is %lld but must be > 0", (long long)step);
    if (!ok) drop_and_throw(stack);
    memcpy(size, t.size, (size_t)rank * sizeof *size);
    memcpy(stride, t.stride, (size_t)rank * sizeof *stride);
    size[rank] = window;
    stride[rank] = rank ? t.stride[dim] : 1;
    if (rank) {
        size[dim] = (extent - window) / step + 1;
        stride[dim] = t.stride[dim] * step;
    }
    if (!reinterpret(stack, rank + 1, size, stride, 0)) glue_throw();
}

bool view_register(PyObject *module)
{
    (void)module;
    return kernel_register("as_strided", as_strided) &&
           kernel_register("view", view) &&
           kernel_register("_reshape_alias", reshape_alias) &&
           kernel_register("unfold", unfold);
}
