// SPDX-License-Identifier: Apache-2.0
//
// What PyTorch offers as C++ alone, each method one call of a function in C (glue.h). First the
// classes: allocator, device guard, generator, hooks. Then operators: those with a Storage,
// attention's choice, and the kernel that sees any operator's arguments.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/strides.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>
#include <torch/library.h>

#include <utility>

#include "glue.h"
#include "spyre/host_memory.h"
#include "python_tensor.h"

namespace {

constexpr auto kSpyre = c10::DeviceType::PrivateUse1;
using Index = c10::DeviceIndex;

void check(bool ok)
{
    if (!ok) glue_throw();
}

c10::Device card(int64_t index)
{
    return {kSpyre, static_cast<Index>(index)};
}

struct Allocator final : c10::DeviceAllocator {
    static void set(c10::CachingAllocator::Stat &stat, int64_t current, int64_t peak,
                    int64_t allocated, int64_t freed)
    {
        stat.current = current;
        stat.peak = peak;
        stat.allocated = allocated;
        stat.freed = freed;
    }
    static void release(void *pointer) { storage_release(pointer, nullptr); }

    c10::DataPtr allocate(size_t bytes) override
    {
        int device = device_current();
        void *pointer = nullptr;
        check(storage_create_raw(device, bytes, &pointer) != nullptr);
        return {pointer, pointer, &release, card(device)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void *target, const void *source, std::size_t bytes) const override
    {
        check(storage_copy_bytes(target, source, bytes));
    }
    bool initialized() override { return device_started(); }
    void emptyCache(c10::MempoolId_t) override { memory_empty_caches(); }
    void recordStream(const c10::DataPtr &, c10::Stream) override {}  // frees are stream-ordered

    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(Index device) override
    {
        check(device_check(device));
        c10::CachingDeviceAllocator::DeviceStats stats;
        spyre_memory_statistics now = memory_statistics(device);
        for (auto *bytes : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes})
            set((*bytes)[0], now.allocated_bytes, now.peak_bytes, now.total_allocated_bytes,
                now.total_freed_bytes);
        for (auto *blocks : {&stats.allocation, &stats.active})
            set((*blocks)[0], now.allocation_count, now.peak_allocation_count,
                now.total_allocations, now.total_frees);
        set(stats.reserved_bytes[0], now.reserved_bytes, now.peak_reserved_bytes,
            now.total_reserved_bytes, now.total_released_bytes);
        stats.num_alloc_retries = now.retries;
        stats.num_ooms = now.failures;
        return stats;
    }
    void resetAccumulatedStats(Index device) override
    {
        check(device_check(device));
        memory_reset_totals(device);
    }
    void resetPeakStats(Index device) override
    {
        check(device_check(device));
        memory_reset_peak(device);
    }
    std::pair<size_t, size_t> getMemoryInfo(Index device) override
    {
        check(device_check(device));
        spyre_memory_statistics now = memory_statistics(device);
        return {now.limit_bytes - now.allocated_bytes, now.limit_bytes};
    }
};

// Pinned memory of the host (spyre/host_memory.h).
struct PinnedAllocator final : at::HostAllocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        void *block = bytes ? spyre_host_allocate(bytes) : nullptr;
        TORCH_CHECK_WITH(OutOfMemoryError, block || !bytes, "no host memory for ", bytes,
                         " pinned bytes");
        return {block, block, &spyre_host_free, c10::DeviceType::CPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &spyre_host_free; }
    void copy_data(void *target, const void *source, std::size_t bytes) const override
    {
        default_copy_data(target, source, bytes);
    }
    bool record_event(void *, void *, c10::Stream) override { return true; }
    void empty_cache() override { spyre_host_empty_cache(); }
    at::HostStats get_stats() override
    {
        at::HostStats stats;
        spyre_host_statistics now = spyre_host_read_statistics();
        stats.active_bytes.current = now.bytes;
        stats.allocated_bytes.current = now.bytes + now.kept_bytes;
        stats.active_requests.current = now.blocks;
        stats.allocations.current = now.blocks + now.kept_blocks;
        return stats;
    }
    void reset_accumulated_stats() override {}
    void reset_peak_stats() override {}
};

PinnedAllocator &pinned_allocator()
{
    static PinnedAllocator allocator;
    return allocator;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    static c10::Stream stream(c10::Device device, int64_t id)
    {
        return c10::Stream(c10::Stream::UNSAFE, device, id);
    }
    static uint32_t number(const c10::Stream &stream)
    {
        check(stream_check(stream.id()));
        return static_cast<uint32_t>(stream.id());
    }
    // The device meant by one that may have no index.
    c10::Device meant(c10::Device device) const
    {
        if (!device.has_index()) return getDevice();
        check(device_check(device.index()));
        return device;
    }

    c10::DeviceType type() const override { return kSpyre; }
    c10::Device getDevice() const override { return card(device_current()); }
    void setDevice(c10::Device device) const override { check(device_set_current(device.index())); }
    void uncheckedSetDevice(c10::Device device) const noexcept override
    {
        device_set_current(device.index());
    }
    c10::Device exchangeDevice(c10::Device device) const override
    {
        c10::Device before = getDevice();
        if (device != before) setDevice(device);
        return before;
    }
    Index deviceCount() const noexcept override { return device_count(); }
    c10::DeviceCapability getDeviceCapability(c10::Device device) const override
    {
        meant(device);
        c10::DeviceCapability stored;  // any dtype
        auto &types = stored.capability_data.supported_scalar_types;
        types.has_QInt8 = types.has_QUInt8 = types.has_QInt32 = 0;
        types.has_QUInt4x2 = types.has_QUInt2x4 = 0;
        return stored;
    }
    c10::Stream getStream(c10::Device device) const override
    {
        device = meant(device);
        return stream(device, stream_current(device.index()));
    }
    c10::Stream getDefaultStream(c10::Device device) const override
    {
        return stream(meant(device), SPYRE_DEFAULT_STREAM);
    }
    c10::Stream getNewStream(c10::Device device, int priority) const override
    {
        device = meant(device);
        return stream(device, stream_from_pool(device.index(), priority != 0));
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool high) const override
    {
        return getNewStream(device, high);
    }
    c10::Stream exchangeStream(c10::Stream to) const override
    {
        c10::Device device = meant(to.device());
        return stream(device, stream_exchange(device.index(), number(to)));
    }
    bool queryStream(const c10::Stream &s) const override
    {
        return stream_is_idle(s.device_index(), number(s));
    }
    void synchronizeStream(const c10::Stream &s) const override
    {
        check(stream_synchronize(s.device_index(), number(s)));
    }
    void synchronizeDevice(const Index device) const override { check(device_synchronize(device)); }
    void record(void **event, const c10::Stream &s, const Index,
                const c10::EventFlag) const override
    {
        check(event_record(event, s.device_index(), number(s)));
    }
    void block(void *event, const c10::Stream &s) const override
    {
        check(event_wait(event, s.device_index(), number(s)));
    }
    bool queryEvent(void *event) const override { return event_is_done(event); }
    void synchronizeEvent(void *event) const override { check(event_synchronize(event)); }
    void destroyEvent(void *event, const Index) const noexcept override
    {
        spyre_event_destroy(static_cast<spyre_event *>(event));
    }
    double elapsedTime(void *begin, void *end, const Index) const override
    {
        return spyre_event_elapsed_ms(static_cast<spyre_event *>(begin),
                                      static_cast<spyre_event *>(end));
    }
};

// PyTorch's own MT19937, labelled with the device; random ops draw from it on the host.
struct Generator final : at::CPUGeneratorImpl {
    explicit Generator(Index device)
    {
        device_ = card(device);
        key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
    }
};

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(Index) const override { return device_started(); }
    Index deviceCount() const override { return device_count(); }
    Index getCurrentDevice() const override { return device_current(); }
    void setCurrentDevice(Index device) const override { check(device_set_current(device)); }
    Index exchangeDevice(Index device) const override
    {
        Index before = getCurrentDevice();
        setCurrentDevice(device);
        return before;
    }
    Index maybeExchangeDevice(Index device) const override
    {
        return device < 0 ? getCurrentDevice() : exchangeDevice(device);
    }
    at::Device getDeviceFromPtr(void *pointer) const override
    {
        return card(storage_card(pointer));
    }
    const at::Generator &getDefaultGenerator(Index device) const override
    {
        static std::array<at::Generator, CORE_MAX_CARDS> generators;
        static std::array<std::once_flag, CORE_MAX_CARDS> made;
        if (device < 0) device = getCurrentDevice();
        check(device_check(device));
        std::call_once(made[device], [&] {
            generators[device] = at::make_generator<Generator>(device);
            generators[device].seed();
        });
        return generators[device];
    }
    at::Generator getNewGenerator(Index device) const override
    {
        return at::make_generator<Generator>(device < 0 ? getCurrentDevice() : device);
    }
    at::Allocator *getPinnedMemoryAllocator() const override
    {
        return &pinned_allocator();
    }
    bool isPinnedPtr(const void *pointer) const override { return spyre_host_is_pinned(pointer); }
    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override
    {
        c10::DeviceGuard guard(storage.device());
        auto fresh = c10::GetAllocator(kSpyre)->allocate(bytes);
        size_t kept = std::min(bytes, storage.nbytes());
        if (kept) check(storage_copy_bytes(fresh.get(), storage.data(), kept));
        storage.set_data_ptr_noswap(std::move(fresh));
        storage.set_nbytes(bytes);
    }
};

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

// The layout of a tensor's storage goes into files and pickles as a key of the tensor's metadata,
// which PyTorch writes as text; without this package it is ignored.
void write_layout(const at::Tensor &tensor, std::unordered_map<std::string, bool> &metadata)
{
    char text[LAYOUT_TEXT_BYTES];
    if (layout_write_text(&tensor, text)) metadata[text] = true;
}

void read_layout(const at::Tensor &tensor, std::unordered_map<std::string, bool> &metadata)
{
    for (const auto &entry : metadata) check(layout_read_text(&tensor, entry.first.c_str()));
}

// Whether who traces on this thread takes the gradient of the entry for devices apart.
thread_local bool knows_gradient = false;

// Which form scaled_dot_product_attention takes: the entry for devices keeps it one node. With
// gradients of what the card has no products of, or in a graph of others (Inductor's own), and with
// dropout, PyTorch's own composition stays.
int64_t choose_attention(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                         const std::optional<at::Tensor> &mask, double dropout, bool,
                         std::optional<double>, bool)
{
    bool differentiable = at::GradMode::is_enabled() &&
                          (query.requires_grad() || key.requires_grad() ||
                           value.requires_grad() || (mask && mask->requires_grad()));
    bool half = query.scalar_type() == at::kHalf || query.scalar_type() == at::kBFloat16;
    bool is_traced = query.key_set().has(c10::DispatchKey::Python);
    bool has_elements = is_traced ? knows_gradient : query.numel() > 0 && key.numel() > 0;
    bool whole =
        dropout == 0.0 && query.dim() == 4 && (!differentiable || (half && has_elements));
    return static_cast<int64_t>(whole ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

// PyTorch composes attention of fewer dims than four, in float32: they are heads of one batch.
at::Tensor attention(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                     const std::optional<at::Tensor> &mask, double dropout, bool causal,
                     std::optional<double> scale, bool grouped)
{
    int64_t rank = query.dim();
    if (rank < 2 || rank > 3 || key.dim() != rank || value.dim() != rank)
        return at::native::scaled_dot_product_attention(query, key, value, mask, dropout, causal,
                                                        scale, grouped);
    return attention(query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), mask, dropout,
                     causal, scale, grouped)
        .squeeze(0);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library)
{
    library.impl("scaled_dot_product_attention", attention);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("scaled_dot_product_attention", attention);
    library.impl("set_.source_Storage_storage_offset", set_storage);
    library.impl("set_.source_Storage", at::native::set_);
    library.impl("set_.source_Tensor", at::native::set_tensor_);
    library.impl("set_", set_empty);
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

void eager(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack)
{
    glue_call call;
    size_t count = op.schema().arguments().size();
    eager_begin(&call, &op.schema());
    size_t index = 0;
    for (const auto &value : torch::jit::last(*stack, count)) describe(&call, index++, value);
    int results = eager_run(&call);
    if (results < 0) {
        Entered here(&call);
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse2), stack);
        return;
    }
    if (call.written) {
        at::Tensor written = *static_cast<const at::Tensor *>(call.written);
        torch::jit::drop(*stack, count);
        torch::jit::push(*stack, std::move(written));
        return;
    }
    torch::jit::drop(*stack, count);
    for (int i = 0; i < results; i++) {
        std::unique_ptr<at::Tensor> result(static_cast<at::Tensor *>(call.results[i]));
        torch::jit::push(*stack, std::move(*result));
    }
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

void glue_settle_new(void *tensor)
{
    const auto &context = at::globalContext();
    const auto &made = *static_cast<at::Tensor *>(tensor);
    if (!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory() ||
        made.numel() == 0)
        return;
    // PyTorch fills the CPU's. fill_() would need Python, which is shut out of torch.tensor().
    made.copy_(at::empty(made.sizes(), made.options().device(at::kCPU)));
}

bool glue_trace_attention(bool knows)
{
    return std::exchange(knows_gradient, knows);
}

const void *glue_identity(const void *tensor)
{
    return static_cast<const at::Tensor *>(tensor)->unsafeGetTensorImpl();
}

bool glue_register_operator(const char *name)
try {
    static torch::Library operators(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                    __FILE__, __LINE__);
    static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__,
                              __LINE__);
    if (std::string_view(name) == "_to_copy")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&to_copy>());
    else if (std::string_view(name) == "clone")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&clone>());
    else if (std::string_view(name) == "cat")
        operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&cat>());
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

void glue_register(void)
{
    static Allocator allocator;
    static Guard guard;
    static Hooks hooks;
    c10::SetAllocator(kSpyre, &allocator, 0);
    at::RegisterPrivateUse1HooksInterface(&hooks);
    at::setHostAllocator(kSpyre, &pinned_allocator());
    torch::jit::TensorBackendMetaRegistry(kSpyre, write_layout, read_layout);
    c10::impl::registerDeviceGuard(kSpyre, &guard);
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

void glue_throw(void)
{
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

void *glue_default_generator(int device)
{
    return THPGenerator_Wrap(at::globalContext().defaultGenerator(card(device)));
}
