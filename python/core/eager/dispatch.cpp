// SPDX-License-Identifier: Apache-2.0
//
// Operators that PyTorch dispatches to C++ alone: those with a Storage, attention's choice, and the
// kernel that sees any operator's arguments and hands them to C (eager.c).
#include <ATen/ExpandUtils.h>
#include <ATen/native/MaxPooling.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool1d_native.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/rms_norm_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <torch/library.h>

#include <utility>

#include "glue.hpp"
#include "python_tensor.h"

namespace {

// A schema with a Storage argument cannot be implemented through the stable C interface. A tensor
// that does not fit its storage is found when it is used (tensor.c).
at::Tensor &set_storage(at::Tensor &self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride)
{
    at::native::checkSetStorage(self, std::move(source), offset, size, stride, false);
    auto *impl = self.unsafeGetTensorImpl();
    impl->set_storage_offset(offset);
    if (stride.empty()) impl->set_sizes_contiguous(size);
    else impl->set_sizes_and_strides(size, stride);
    return self;
}

at::Tensor &set_empty(at::Tensor &self)
{
    return at::native::set_tensor_(self, at::empty({0}, self.options()));
}

// Whether a tensor may take over another's contents and stay the same object (`self.data = from`),
// as parameters do in Module.to(). PyTorch's own rule lists its own devices only.
bool may_take_over(const at::Tensor &self, const at::Tensor &from)
{
    auto dense = [](c10::DispatchKeySet keys) {
        constexpr c10::DispatchKeySet backends(
            {c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
        return keys.has(c10::DispatchKey::Dense) && keys.has_any(backends);
    };
    return self.key_set() == from.key_set() || (dense(self.key_set()) && dense(from.key_set()));
}

// Whether who traces on this thread takes the gradient of the entry for devices apart.
thread_local bool knows_gradient = false;

// Dims that attention goes over as a batch: all but the rows and their width, and but the heads
// where several of a query share one of a key.
c10::SymIntArrayRef batch_dims(const at::Tensor &x, bool grouped)
{
    size_t kept = grouped ? 3 : 2;
    auto sizes = x.sym_sizes();
    return sizes.size() < kept ? c10::SymIntArrayRef() : sizes.slice(0, sizes.size() - kept);
}

// torch.vmap goes over a dim of it.
bool is_batched(const at::Tensor &x)
{
    return x.key_set().has(c10::DispatchKey::FuncTorchBatched);
}

// Whether the entry for devices takes operands of these sizes. Samples of torch.vmap join their
// batch there (batched_attention.py), if they have one; all others have four dims by now.
bool has_sizes(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
               bool grouped)
{
    if (!is_batched(query) && !is_batched(key) && !is_batched(value)) return query.dim() == 4;
    auto batch = batch_dims(query, grouped);
    int64_t rank = query.dim();
    return rank >= (grouped ? 3 : 2) && rank <= 4 && key.dim() == rank && value.dim() == rank &&
           batch == batch_dims(key, grouped) && batch == batch_dims(value, grouped);
}

// Which form scaled_dot_product_attention takes: the entry for devices keeps it one node. With
// gradients of what the card has no products of, or in a graph of others (Inductor's own), and with
// dropout, PyTorch's own composition stays.
int64_t choose_attention(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                         const std::optional<at::Tensor> &mask, double dropout, bool,
                         std::optional<double>, bool grouped)
{
    bool differentiable = at::GradMode::is_enabled() &&
                          (query.requires_grad() || key.requires_grad() ||
                           value.requires_grad() || (mask && mask->requires_grad()));
    bool half = query.scalar_type() == at::kHalf || query.scalar_type() == at::kBFloat16;
    bool is_traced = query.key_set().has(c10::DispatchKey::Python);
    bool has_elements = is_traced ? knows_gradient : query.numel() > 0 && key.numel() > 0;
    bool whole = dropout == 0.0 && has_sizes(query, key, value, grouped) &&
                 (!differentiable || (half && has_elements));
    return static_cast<int64_t>(whole ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

bool can_broadcast(c10::SymIntArrayRef a, c10::SymIntArrayRef b)
{
    for (size_t n = 1; n <= std::min(a.size(), b.size()); n++) {
        const auto &x = a[a.size() - n], &y = b[b.size() - n];
        if (x != y && x != 1 && y != 1) return false;
    }
    return true;
}

// [.., L, E] as [batch, 1, L, E]; `grouped`, [.., H, L, E] as [batch, H, L, E].
at::Tensor in_four_dims(const at::Tensor &x, c10::SymIntArrayRef batch, bool grouped)
{
    auto sizes = batch.vec();
    for (int64_t dim = grouped ? -3 : -2; dim < 0; dim++) sizes.push_back(x.sym_size(dim));
    at::Tensor one = x.expand_symint(sizes);
    one = batch.empty() ? one.unsqueeze(0) : one.flatten(0, static_cast<int64_t>(batch.size()) - 1);
    return grouped ? one : one.unsqueeze(1);
}

// PyTorch composes attention in float32 where its operands have other than four dims or are to be
// broadcast; here the dims before the rows are one batch.
at::Tensor attention(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                     const std::optional<at::Tensor> &mask, double dropout, bool causal,
                     std::optional<double> scale, bool grouped)
{
    auto of_query = batch_dims(query, grouped), of_key = batch_dims(key, grouped);
    bool plain = query.dim() == 4 && of_query == of_key && of_query == batch_dims(value, grouped);
    int64_t least = grouped ? 3 : 2;
    if (plain || std::min({query.dim(), key.dim(), value.dim()}) < least ||
        !can_broadcast(of_query, of_key))
        return at::native::scaled_dot_product_attention(query, key, value, mask, dropout, causal,
                                                        scale, grouped);
    auto batch = at::infer_size_symdimvector(of_query, of_key);
    batch = at::infer_size_symdimvector(batch, batch_dims(value, grouped));
    std::optional<at::Tensor> wide = mask;
    if (mask && mask->dim() > 2) {
        batch = at::infer_size_symdimvector(batch, batch_dims(*mask, grouped));
        wide = in_four_dims(*mask, batch, grouped);
    }
    at::Tensor result =
        attention(in_four_dims(query, batch, grouped), in_four_dims(key, batch, grouped),
                  in_four_dims(value, batch, grouped), wide, dropout, causal, scale, grouped);
    std::vector<c10::SymInt> sizes(batch.begin(), batch.end());
    for (int64_t dim = grouped ? 1 : 2; dim < 4; dim++) sizes.push_back(result.sym_size(dim));
    return result.reshape_symint(sizes);
}

// Whether autograd of some kind may want a gradient, or a dispatch mode sees the calls.
bool is_watched(const at::Tensor &x)
{
    return (at::GradMode::is_enabled() && x.requires_grad()) || x._fw_grad(0).defined() ||
           x.key_set().has(c10::DispatchKey::Python) || c10::impl::dispatch_mode_enabled();
}

bool is_plain(const at::Tensor &x, const std::optional<at::Tensor> &vector)
{
    return !vector || !vector->defined() ||
           (vector->scalar_type() == x.scalar_type() && !is_watched(*vector));
}

// native_layer_norm gives statistics besides, which only a gradient reads.
at::Tensor layer_norm(const at::Tensor &x, c10::SymIntArrayRef sizes,
                      const std::optional<at::Tensor> &weight,
                      const std::optional<at::Tensor> &bias, double eps, bool cudnn)
{
    bool computes = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ||
                    x.scalar_type() == at::kFloat;
    if (!computes || sizes.size() != 1 || is_watched(x) || !is_plain(x, weight) ||
        !is_plain(x, bias) || x.numel() == 0)
        return at::native::layer_norm_symint(x, sizes, weight, bias, eps, cudnn);
    at::AutoDispatchBelowAutograd below;
    return at::layer_norm_symint(x, sizes, weight, bias, eps, cudnn);
}

// PyTorch's composition would be six operators.
at::Tensor rms_norm(const at::Tensor &x, c10::SymIntArrayRef sizes,
                    const std::optional<at::Tensor> &weight, std::optional<double> eps)
{
    bool narrow = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
    if (!narrow || is_watched(x) || !is_plain(x, weight) || x.numel() == 0)
        return at::compositeimplicitautograd::rms_norm_symint(x, sizes, weight, eps);
    at::AutoDispatchBelowAutograd below;
    return at::rms_norm_symint(x, sizes, weight, eps);
}

bool pools_alone(const at::Tensor &x)
{
    bool computes = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ||
                    x.scalar_type() == at::kFloat;
    return computes && !is_watched(x) && x.numel() > 0;
}

// PyTorch's composition computes indices besides, which only a gradient reads.
at::Tensor largest_of_images(const at::Tensor &x, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil)
{
    if (!pools_alone(x)) return at::native::max_pool2d(x, kernel, stride, padding, dilation, ceil);
    at::AutoDispatchBelowAutograd below;
    return at::max_pool2d(x, kernel, stride, padding, dilation, ceil);
}

// Lines as images of one line.
at::Tensor largest_of_lines(const at::Tensor &x, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil)
{
    if (!pools_alone(x)) return at::native::max_pool1d(x, kernel, stride, padding, dilation, ceil);
    at::native::check_max_pool1d(x, kernel, stride, padding, dilation, ceil);
    int64_t step = stride.empty() ? kernel[0] : stride[0];
    return largest_of_images(x.unsqueeze(-2), {1, kernel[0]}, {1, step}, {0, padding[0]},
                      {1, dilation[0]}, ceil)
        .squeeze(-2);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library)
{
    library.impl("max_pool1d", largest_of_lines);
    library.impl("max_pool2d", largest_of_images);
    library.impl("scaled_dot_product_attention", attention);
    library.impl("layer_norm", layer_norm);
    library.impl("rms_norm", rms_norm);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("max_pool1d", largest_of_lines);
    library.impl("scaled_dot_product_attention", attention);
    library.impl("set_.source_Storage_storage_offset", set_storage);
    library.impl("set_.source_Storage", at::native::set_);
    library.impl("set_.source_Tensor", at::native::set_tensor_);
    library.impl("set_", set_empty);
    library.impl("is_set_to", at::native::is_set_to);
    library.impl("view_as_real", at::native::view_as_real);
    library.impl("view_as_complex", at::native::view_as_complex);
    library.impl("_has_compatible_shallow_copy_type", may_take_over);
    library.impl("record_stream", [](at::Tensor &, c10::Stream) {});
}

// ---- operators one by one

void describe(glue_call *call, size_t index, const c10::IValue &value)
{
    if (value.isTensor()) {
        if (value.toTensor().defined())
            eager_tensor(call, index, &value.toTensor());
        else
            eager_value(call, 'u', 0);
    } else if (value.isNone()) {
        eager_value(call, 'n', 0);
    } else if (value.isInt()) {
        eager_number(call, index, 'i', static_cast<uint64_t>(value.toInt()));
    } else if (value.isDouble()) {
        eager_number(call, index, 'd', c10::bit_cast<uint64_t>(value.toDouble()));
    } else if (value.isBool()) {
        eager_value(call, 'b', value.toBool());
    } else if (value.isDevice()) {
        auto device = value.toDevice();
        eager_value(call, 'v', static_cast<uint64_t>(device.type()) << 8 |
                                   static_cast<uint8_t>(device.index()));
    } else if (value.isString()) {
        const std::string &text = value.toStringRef();
        eager_text(call, text.data(), text.size());
    } else if (value.isList()) {
        auto items = value.toListRef();
        eager_value(call, 'l', items.size());
        for (const auto &item : items) describe(call, SIZE_MAX, item);
    } else {
        call->known = false;
    }
}

struct Entered {
    explicit Entered(glue_call *entered) : call(entered) { eager_enter(call); }
    ~Entered() { eager_leave(call); }
    Entered(const Entered &) = delete;
    Entered &operator=(const Entered &) = delete;
    glue_call *call;
};

// Runs the program of a call: the number of its results. Without one Python has been called: -1.
int run(const c10::OperatorHandle &op, torch::jit::Stack *stack, glue_call *call)
{
    size_t count = op.schema().arguments().size();
    int results = EAGER_MOVED;
    while (results == EAGER_MOVED) {
        size_t index = 0;
        eager_begin(call, &op.schema());
        for (const auto &value : torch::jit::last(*stack, count)) describe(call, index++, value);
        results = eager_run(call);
    }
    if (results >= 0) return results;
    Entered here(call);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse2), stack);
    return -1;
}

void eager(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack)
{
    glue_call call;
    size_t count = op.schema().arguments().size();
    int results = run(op, stack, &call);
    if (results < 0) return;
    if (call.written) {
        at::Tensor written = *static_cast<const at::Tensor *>(call.written);
        torch::jit::drop(*stack, count);
        torch::jit::push(*stack, std::move(written));
        return;
    }
    torch::jit::drop(*stack, count);
    for (int i = 0; i < results; i++) {
        std::unique_ptr<at::Tensor> result(static_cast<at::Tensor *>(call.results[i]));
        torch::jit::push(*stack, result ? std::move(*result) : at::Tensor());
    }
}

// The entry of attention that devices may override: without gradients, of its nine results the
// first is read, which is that of the program.
void attend(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack)
{
    glue_call call;
    if (run(op, stack, &call) < 0) return;
    torch::jit::drop(*stack, op.schema().arguments().size());
    std::unique_ptr<at::Tensor> result(static_cast<at::Tensor *>(call.results[0]));
    at::Tensor empty = at::empty({0}, result->options());
    torch::jit::push(*stack, std::move(*result), empty, empty, empty, int64_t{0}, int64_t{0}, empty,
                     empty, empty);
}

// A copy by an operator, which a note of the numbers in it goes with.
void widen(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    at::Tensor self = torch::jit::last(*stack, op.schema().arguments().size())[0].toTensor();
    eager(op, keys, stack);
    tensor_note_copy(&self, &stack->back().toTensor());
}

// A copy between devices is PyTorch's composition of empty and copy, without a look at programs.
void to_copy(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    const auto &device = arguments[3];  // self, dtype, layout, device
    if (device.isNone() || device.toDevice().type() == arguments[0].toTensor().device().type())
        widen(op, keys, stack);
    else
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CompositeExplicitAutograd), stack);
}

// Else PyTorch's composition: `_copy_from`.
void copy_to(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    const auto &to = arguments[0].toTensor(), &from = arguments[1].toTensor();
    if (to.scalar_type() != from.scalar_type() && copy_is_operator(&from, &to))
        eager(op, keys, stack);
    else
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CompositeExplicitAutograd), stack);
}

// A clone of a whole storage keeps its layout; any other is an operator.
void clone(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    const auto &self = arguments[0].toTensor();
    auto format = arguments[1].toOptional<at::MemoryFormat>();
    void *made = nullptr;
    if (!format || *format == at::MemoryFormat::Preserve) check(copy_whole(&self, &made));
    if (!made) return widen(op, keys, stack);
    std::unique_ptr<at::Tensor> result(static_cast<at::Tensor *>(made));
    tensor_note_copy(&self, result.get());
    torch::jit::drop(*stack, op.schema().arguments().size());
    torch::jit::push(*stack, std::move(*result));
}

// A few rows behind many: the many stay where they are, if they can.
void cat(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    auto tensors = arguments[0].toListRef();
    void *made = nullptr;
    if (tensors.size() == 2)
        check(extend_cat(&tensors[0].toTensor(), &tensors[1].toTensor(), arguments[1].toInt(),
                         &made));
    if (!made) return eager(op, keys, stack);
    std::unique_ptr<at::Tensor> result(static_cast<at::Tensor *>(made));
    torch::jit::drop(*stack, op.schema().arguments().size());
    torch::jit::push(*stack, std::move(*result));
}

}  // namespace

bool glue_trace_attention(bool knows)
{
    return std::exchange(knows_gradient, knows);
}

bool glue_register_operator(const char *name)
try {
    static torch::Library operators(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                    __FILE__, __LINE__);
    static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__,
                              __LINE__);
    if (std::string_view(name) == "_to_copy")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&to_copy>());
    else if (std::string_view(name) == "copy_")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&copy_to>());
    else if (std::string_view(name) == "clone")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&clone>());
    else if (std::string_view(name) == "cat")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&cat>());
    else if (std::string_view(name) == "_scaled_dot_product_fused_attention_overrideable")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&attend>());
    else if (*name)
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&eager>());
    else
        all.fallback(torch::CppFunction::makeFromBoxedFunction<&eager>());
    return true;
} catch (const std::exception &refused) {
    PyErr_SetString(PyExc_RuntimeError, refused.what());
    return false;
}

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)
}
