// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's profiler interfaces, which are C++ classes alone: the activity profiler that Kineto
// asks for device events, the stubs that time operators without Kineto, ranges of the host, and
// reports of memory. What is recorded, and when it happened, is C (profile.c,
// src/runtime/profile.c).
#define USE_KINETO        // as PyTorch was built
#define FMT_HEADER_ONLY   // its copy of fmt keeps its functions to itself
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ApproximateClock.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "glue.h"

namespace {

using libkineto::ActivityType;
using Linked = const libkineto::ITraceActivity *;

// ---- which of PyTorch's events a submission belongs to

// Correlations of the operators, and of the user's ranges, that are open on a thread; a tag has the
// innermost of both. What an earlier profile left open is forgotten.
struct Open {
    uint64_t session = 0;
    std::vector<uint64_t> operators, ranges;

    static uint64_t top(const std::vector<uint64_t> &ids) { return ids.empty() ? 0 : ids.back(); }
    void tag() const { spyre_profile_tag(top(operators) << 32 | (top(ranges) & UINT32_MAX)); }
};

std::atomic<uint64_t> session_count;
thread_local Open open_here;

void push(std::vector<uint64_t> Open::*ids, uint64_t id)
{
    if (open_here.session != session_count) open_here = {session_count};
    (open_here.*ids).push_back(id);
    open_here.tag();
}

void pop(std::vector<uint64_t> Open::*ids)
{
    if (open_here.session != session_count || (open_here.*ids).empty()) return;
    (open_here.*ids).pop_back();
    open_here.tag();
}

// ---- records as activities of Kineto

ActivityType type_of(const spyre_activity &record)
{
    if (record.submission) return ActivityType::PRIVATEUSE1_RUNTIME;
    if (record.kind == SPYRE_ACTIVITY_KERNEL) return ActivityType::CONCURRENT_KERNEL;
    return record.kind == SPYRE_ACTIVITY_FILL ? ActivityType::GPU_MEMSET : ActivityType::GPU_MEMCPY;
}

// On a thread of the host events nest: what PyTorch's clock read differently by some nanoseconds is
// cut to the operator around it.
void stay_within(libkineto::GenericTraceActivity &activity, Linked outer)
{
    if (!outer || outer->duration() < 0) return;    // still open when the profile ended
    int64_t begin = outer->timestamp(), end = begin + outer->duration();
    activity.startTime = std::clamp(activity.startTime, begin, end);
    activity.endTime = std::clamp(activity.endTime, begin, end);
}

void describe(libkineto::GenericTraceActivity &activity, const spyre_activity &record)
{
    activity.addMetadata("correlation", record.correlation);
    activity.addMetadata("device", record.card);
    activity.addMetadata("stream", record.stream);
    activity.addMetadata("bytes", record.bytes);
    if (record.submission) return;
    double us = record.card_end_us - record.card_begin_us;
    activity.addMetadata("virtual begin (us)", record.card_begin_us);
    activity.addMetadata("virtual end (us)", record.card_end_us);
    if (us > 0)
        activity.addMetadata("memory bandwidth (GB/s)",
                             static_cast<double>(record.bytes) / us / 1e3);
    if (record.kind != SPYRE_ACTIVITY_KERNEL) return;
    activity.addMetadata("runs", record.runs);
    if (us > 0)     // below its busy time where it overlaps kernels before it
        activity.addMetadata("PT utilization (%)", std::min(100.0, 100 * record.pt_busy_us / us));
    if (*record.source) activity.addMetadataQuoted("source", record.source);
}

struct Session final : libkineto::IActivityProfilerSession {
    explicit Session(const std::set<ActivityType> &asked) : types(asked) {}
    ~Session() override
    {
        if (status_ == libkineto::TraceStatus::RECORDING) stop();   // Kineto gave the profile up
        free(records);
    }

    void start() override
    {
        session_count++;
        profile_start();
        status_ = libkineto::TraceStatus::RECORDING;
    }
    void stop() override
    {
        count = profile_stop(&records, &offset_ns, &lost);
        status_ = libkineto::TraceStatus::PROCESSING;
    }
    std::vector<std::string> errors() override
    {
        if (!lost) return {};
        return {"spyre: " + std::to_string(lost) + " records of the card had no room"};
    }

    void processTrace(libkineto::ActivityLogger &logger) override
    {
        processTrace(logger, [](int32_t) -> Linked { return nullptr; }, 0, 0);
    }
    void processTrace(libkineto::ActivityLogger &logger,
                      libkineto::getLinkedActivityCallback find, int64_t, int64_t) override
    {
        for (uint32_t n = 0; n < count; n++) {
            const spyre_activity &record = records[n];
            bool whole_launch = record.kind == SPYRE_ACTIVITY_LAUNCH && !record.submission;
            if (!whole_launch && types.count(type_of(record))) log(logger, find, record);
        }
        std::set<uint32_t> cards;
        for (auto [card, stream] : streams)
            if (cards.insert(card).second && cards.size() > 1)
                logger.handleDeviceInfo(info_of(card), 0);
    }
    // Kineto asks for one card only; processTrace() tells of the others.
    std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override
    {
        if (streams.empty()) return nullptr;
        return std::make_unique<libkineto::DeviceInfo>(info_of(streams.begin()->first));
    }
    std::vector<libkineto::ResourceInfo> getResourceInfos() override
    {
        std::vector<libkineto::ResourceInfo> infos;
        for (auto [card, stream] : streams)
            infos.push_back({stream, stream, card, "stream " + std::to_string(stream)});
        return infos;
    }
    std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override
    {
        return std::move(buffer);
    }
    void pushCorrelationId(uint64_t id) override { push(&Open::operators, id); }
    void popCorrelationId() override { pop(&Open::operators); }
    void pushUserCorrelationId(uint64_t id) override { push(&Open::ranges, id); }
    void popUserCorrelationId() override { pop(&Open::ranges); }

 private:
    static libkineto::DeviceInfo info_of(int64_t card)
    {
        return {card, libkineto::kExceedMaxPid + card, "card", "SPYRE " + std::to_string(card)};
    }
    void log(libkineto::ActivityLogger &logger, libkineto::getLinkedActivityCallback &find,
             const spyre_activity &record)
    {
        buffer->emplace_activity(buffer->span, type_of(record), profile_name(&record));
        auto &activity = *buffer->activities.back();
        activity.startTime = unix_ns(record.placed_begin_us);
        activity.endTime = unix_ns(record.placed_end_us);
        activity.id = static_cast<int32_t>(record.correlation);
        auto operator_id = static_cast<int32_t>(record.tag >> 32);
        auto range_id = static_cast<int32_t>(record.tag & UINT32_MAX);
        Linked op = operator_id ? find(operator_id) : nullptr;
        Linked range = range_id ? find(range_id) : nullptr;
        activity.linked = op ? op : range;
        activity.flow.id = static_cast<uint32_t>(record.correlation);
        activity.flow.type = libkineto::kLinkAsyncCpuGpu;
        activity.flow.start = record.submission;
        if (record.submission) {
            activity.device = libkineto::processId();
            activity.resource = activity.threadId = record.thread;
            stay_within(activity, op);
            stay_within(activity, range);
        } else {
            activity.device = static_cast<int32_t>(record.card);
            activity.resource = static_cast<int32_t>(record.stream);
            streams.insert({record.card, record.stream});
            buffer->gpuOpCount++;
        }
        describe(activity, record);
        activity.log(logger);
    }
    int64_t unix_ns(double us) const { return std::llround(us * 1e3) + offset_ns; }

    std::set<ActivityType> types;
    spyre_activity *records = nullptr;
    uint32_t count = 0;
    int64_t offset_ns = 0;
    uint64_t lost = 0;
    std::set<std::pair<uint32_t, uint32_t>> streams;
    std::unique_ptr<libkineto::CpuTraceBuffer> buffer =
        std::make_unique<libkineto::CpuTraceBuffer>();
};

struct Profiler final : libkineto::IActivityProfiler {
    const std::string &name() const override
    {
        static const std::string name = "spyre";
        return name;
    }
    const std::set<ActivityType> &availableActivities() const override
    {
        static const std::set<ActivityType> types = {
            ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET,
            ActivityType::PRIVATEUSE1_RUNTIME};
        return types;
    }
    // Profiles of the host alone get ranges, but no session: nothing is recorded for them.
    std::unique_ptr<libkineto::IActivityProfilerSession>
    configure(const std::set<ActivityType> &types, const libkineto::Config &) override
    {
        if (!types.count(ActivityType::CONCURRENT_KERNEL)) return nullptr;
        return std::make_unique<Session>(types);
    }
    std::unique_ptr<libkineto::IActivityProfilerSession>
    configure(int64_t, int64_t, const std::set<ActivityType> &types,
              const libkineto::Config &config) override
    {
        return configure(types, config);
    }
};

// ---- times of operators without Kineto: by events, on the virtual clock

struct Stubs final : torch::profiler::impl::ProfilerStubs {
    using Event = torch::profiler::impl::ProfilerVoidEventStub;

    void record(c10::DeviceIndex *device, Event *event, int64_t *cpu_ns) const override
    {
        int card = device_current();
        void *made = nullptr;
        if (!event_record(&made, card, stream_current(card))) glue_throw();
        if (device) *device = static_cast<c10::DeviceIndex>(card);
        if (cpu_ns) *cpu_ns = c10::getTime();
        *event = Event(made, [](void *e) { spyre_event_destroy(static_cast<spyre_event *>(e)); });
    }
    float elapsed(const Event *begin, const Event *end) const override
    {
        if (!event_synchronize(begin->get()) || !event_synchronize(end->get())) glue_throw();
        return static_cast<float>(
            1e3 * spyre_event_elapsed_ms(static_cast<spyre_event *>(begin->get()),
                                         static_cast<spyre_event *>(end->get())));
    }
    void mark(const char *) const override {}       // the card has no marks
    void rangePush(const char *) const override {}
    void rangePop() const override {}
    bool enabled() const override { return true; }
    void onEachDevice(std::function<void(int)> op) const override
    {
        for (uint32_t card = 0; card < device_count(); card++) op(static_cast<int>(card));
    }
    void synchronize() const override
    {
        if (!device_synchronize(-1)) glue_throw();
    }
};

}  // namespace

void profiler_register(void)
{
    static Stubs stubs;
    torch::profiler::impl::registerPrivateUse1Methods(&stubs);
    torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
        [] { return std::make_unique<Profiler>(); });
}

void *profiler_begin_launch(const char *name)
try {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks) return nullptr;
    auto range = std::make_unique<at::RecordFunction>(std::move(*callbacks));
    std::string text = std::string("launch_kernel:") + name;
    range->before(std::string_view(text));
    return range.release();
} catch (...) {
    return nullptr;
}

void profiler_end_launch(void *range)
{
    delete static_cast<at::RecordFunction *>(range);
}

void profiler_report_memory(void *pointer, int64_t bytes, uint32_t card)
try {
    if (!c10::memoryProfilingEnabled()) return;
    spyre_memory_statistics now = memory_statistics(card);
    c10::reportMemoryUsageToProfiler(
        pointer, bytes, now.allocated_bytes, now.reserved_bytes,
        {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(card)});
} catch (...) {     // a storage is freed where nothing may be thrown
}
