// SPDX-License-Identifier: Apache-2.0
//
// Tensors and errors for the C files, as far as they are PyTorch's C++.
#include <ATen/Context.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/empty.h>

#include "glue.hpp"
#include "python_tensor.h"

void glue_settle_new(void *tensor)
{
    const auto &context = at::globalContext();
    const auto &made = *static_cast<at::Tensor *>(tensor);
    if (!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory() ||
        made.numel() == 0)
        return;
    // PyTorch fills the CPU's; of int64 the card holds numbers of 32 bits. fill_() on the card
    // would need Python, which is shut out of torch.tensor().
    auto fill = at::empty(made.sizes(), made.options().device(at::kCPU));
    if (made.scalar_type() == at::kLong) fill.fill_(std::numeric_limits<int32_t>::max());
    made.copy_(fill);
}

bool glue_describe(const void *tensor, tensor_info *out)
try {
    auto *impl = static_cast<const at::Tensor *>(tensor)->unsafeGetTensorImpl();
    const auto sizes = impl->sizes();
    out->rank = static_cast<int64_t>(sizes.size());
    out->size = sizes.data();
    out->stride = impl->strides().data();
    out->numel = impl->numel();
    out->offset = impl->storage_offset();
    out->torch_dtype = static_cast<int32_t>(c10::typeMetaToScalarType(impl->dtype()));
    out->device_type = static_cast<int32_t>(impl->device_type());
    out->device_index = impl->device().index();
    out->element_bytes = impl->itemsize();
    auto *data = static_cast<char *>(impl->mutable_data());
    out->base = data ? data - out->offset * static_cast<int64_t>(out->element_bytes) : nullptr;
    return true;
} catch (const c10::Error &error) {
    return core_fail_pytorch(error.what_without_backtrace());
} catch (const std::exception &error) {
    return core_fail_pytorch(error.what());
}

int glue_default_dtype(void)
{
    return static_cast<int>(c10::get_default_dtype_as_scalartype());
}

const void *glue_identity(const void *tensor)
{
    return static_cast<const at::Tensor *>(tensor)->unsafeGetTensorImpl();
}

// An error of one of torch_spyre's classes on its way through the dispatcher.
struct OwnError final : torch::PyTorchError {
    PyObject *python_type() override { return type; }
    PyObject *type = nullptr;
};

void glue_throw_interruption(void)
{
    void *exception[3];
    if (core_take_interruption(exception)) throw python_error(exception);
}

// What PyTorch threw below a C function, which gives back what it holds before it goes on.
static thread_local std::exception_ptr thrown;

void *glue_converted(const void *tensor, const void *like)
try {
    const auto &from = *static_cast<const at::Tensor *>(tensor);
    const auto &to = *static_cast<const at::Tensor *>(like);
    return new at::Tensor(at::_to_copy(from.expand(to.sizes()), to.scalar_type(), std::nullopt,
                                       std::nullopt, std::nullopt, false,
                                       at::MemoryFormat::Contiguous));
} catch (...) {
    thrown = std::current_exception();
    return nullptr;
}

void glue_throw(void)
{
    if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
    glue_throw_interruption();
    if (void *type = core_error_class()) {
        OwnError own;
        own.type = static_cast<PyObject *>(type);
        own.msg = core_error_message();
        throw own;
    }
    TORCH_CHECK_INDEX(core_error_code() != CORE_INDEX_ERROR, core_error_message());
    TORCH_CHECK_WITH(OutOfMemoryError, core_error_code() != SPYRE_OUT_OF_MEMORY,
                     core_error_message());
    TORCH_CHECK(false, core_error_message());
}

void *glue_view(const void *tensor, int64_t rank, const int64_t *size, const int64_t *stride,
                int64_t offset_increment)
{
    const auto &base = *static_cast<const at::Tensor *>(tensor);
    auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW,
                                                         c10::Storage(base.storage()),
                                                         base.key_set(), base.dtype());
    auto *impl = view.unsafeGetTensorImpl();
    size_t count = static_cast<size_t>(rank);
    impl->set_storage_offset(base.storage_offset() + offset_increment);
    impl->set_sizes_and_strides({size, count}, {stride, count});
    return new at::Tensor(std::move(view));
}

const char *glue_dtype_name(int torch_dtype)
{
    return c10::toString(static_cast<c10::ScalarType>(torch_dtype));
}

bool glue_dtype_is_quantized(int torch_dtype)
{
    return c10::isQIntType(static_cast<c10::ScalarType>(torch_dtype));
}

bool glue_is_lazy(const void *tensor)
{
    const auto &t = *static_cast<const at::Tensor *>(tensor);
    return t.is_conj() || t.is_neg();
}

void glue_make_lazy(void *tensor, const void *like)
{
    const auto &from = *static_cast<const at::Tensor *>(like);
    auto *to = static_cast<at::Tensor *>(tensor);
    if (from.is_conj()) to->_set_conj(true);
    if (from.is_neg()) to->_set_neg(true);
}

const void *glue_from_python(void *object)
{
    auto *python = static_cast<PyObject *>(object);
    return python_is_tensor(python) ? &reinterpret_cast<THPVariable *>(python)->cdata : nullptr;
}

void *glue_to_python(void *tensor)
{
    std::unique_ptr<at::Tensor> owned(static_cast<at::Tensor *>(tensor));
    return THPVariable_Wrap(std::move(*owned));
}
