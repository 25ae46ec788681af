// SPDX-License-Identifier: Apache-2.0
//
// Memory of the card and pinned memory of the host as PyTorch's allocators: each method one call of
// a function in C (memory.c, storage.c).
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "glue.hpp"
#include "spyre/host_memory.h"

namespace {

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
        check(device_check(device) && device_open());
        spyre_memory_statistics now = memory_statistics(device);
        return {now.free_bytes, now.limit_bytes};
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

}  // namespace

at::HostAllocator &pinned_allocator()
{
    static PinnedAllocator allocator;
    return allocator;
}

void allocators_register()
{
    static Allocator allocator;
    c10::SetAllocator(kSpyre, &allocator, 0);
    at::setHostAllocator(kSpyre, &pinned_allocator());
}
