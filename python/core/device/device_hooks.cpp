// SPDX-License-Identifier: Apache-2.0
//
// The device as PyTorch's classes: device guard, generator, hooks; each method one call of a
// function in C (device.c, stream.c).
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include "glue.hpp"
#include "python_tensor.h"
#include "spyre/host_memory.h"

namespace {

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

private:
    Generator *clone_impl() const override
    {
        auto copy = std::make_unique<Generator>(device_.index());
        copy->set_state(*get_state());
        return copy.release();
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

}  // namespace

void glue_register(void)
{
    static Guard guard;
    static Hooks hooks;
    allocators_register();
    at::RegisterPrivateUse1HooksInterface(&hooks);
    torch::jit::TensorBackendMetaRegistry(kSpyre, write_layout, read_layout);
    c10::impl::registerDeviceGuard(kSpyre, &guard);
}

void *glue_default_generator(int device)
{
    return THPGenerator_Wrap(at::globalContext().defaultGenerator(card(device)));
}
