// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_job.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/hash.h>

#include <numeric>
#include <thread>

namespace spyreccl {

namespace {

constexpr auto kSpyre = c10::DeviceType::PrivateUse1;
thread_local bool ending;               // inside of a job's end

std::exception_ptr exception_of(spyre_status error)
{
    std::string message = std::string("[SpyreCCL]: ") + spyre_status_message(error);
    spyre_code code = spyre_status_code(error);
    try {
        TORCH_CHECK_VALUE(code != SPYRE_INVALID_ARGUMENT, message);
        TORCH_CHECK_WITH(NotImplementedError, code != SPYRE_UNSUPPORTED, message);
        TORCH_CHECK_WITH(DistBackendError, false, message);
    } catch (...) {
        return std::current_exception();
    }
}

bool set_key(void *context, const char *key, const void *bytes, size_t count, char why[256])
try {
    auto *begin = static_cast<const uint8_t *>(bytes);
    static_cast<c10d::Store *>(context)->set(key, std::vector<uint8_t>(begin, begin + count));
    return true;
} catch (const std::exception &refused) {
    std::snprintf(why, 256, "%s", refused.what());
    return false;
}

bool get_key(void *context, const char *key, int64_t timeout_ms, void *buffer, size_t capacity,
             size_t *out_count, char why[256])
try {
    auto *store = static_cast<c10d::Store *>(context);
    store->wait({key}, std::chrono::milliseconds(timeout_ms));
    auto value = store->get(key);
    TORCH_CHECK(value.size() <= capacity, "a value of ", value.size(), " bytes");
    std::memcpy(buffer, value.data(), value.size());
    *out_count = value.size();
    return true;
} catch (const std::exception &refused) {
    std::snprintf(why, 256, "%s", refused.what());
    return false;
}

// What the card computes with: such tensors take part as its bytes.
bool is_wide(const at::Tensor &tensor)
{
    auto dtype = tensor.scalar_type();
    return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat;
}

// The format of a staged tensor that is combined.
spyre_format format_of(const at::Tensor &staged)
{
    switch (staged.scalar_type()) {
    case at::kHalf:
    case at::kBFloat16: return staged.is_cpu() ? SPYRE_FORMAT_INVALID : SPYRE_FORMAT_SEN169_FP16;
    case at::kFloat: return SPYRE_FORMAT_IEEE_FP32;
    case at::kInt: return SPYRE_FORMAT_IEEE_INT32;
    case at::kLong: return SPYRE_FORMAT_IEEE_INT64;
    case at::kShort: return SPYRE_FORMAT_SENINT16;
    default: return SPYRE_FORMAT_INVALID;
    }
}

// The dtype in which the host combines elements of one that the card does not compute with.
at::ScalarType combined_dtype(at::ScalarType dtype)
{
    if (at::isFloat8Type(dtype)) return at::kFloat;
    if (dtype == at::kBool || dtype == at::kByte || dtype == at::kChar) return at::kLong;
    bool known = dtype == at::kInt || dtype == at::kLong || dtype == at::kShort ||
                 dtype == at::kComplexFloat;
    TORCH_CHECK_WITH(NotImplementedError, known, "[SpyreCCL]: reduction of ", dtype,
                     " between cards: of floating dtypes those of up to 32 bits");
    return dtype;
}

}  // namespace

void check(spyre_status error)
{
    if (!error) return;
    auto exception = exception_of(error);
    comm_fail(error);
    glue_throw_interruption();
    std::rethrow_exception(exception);
}

Comm::Comm(c10::intrusive_ptr<c10d::Store> its_store, uint32_t rank, uint32_t size,
           int64_t timeout_ms)
    : store(std::move(its_store))
{
    spyre_comm_store callbacks = {store.get(), set_key, get_key};
    spyre_comm_options options = {rank, size, "spyreccl", timeout_ms, core_interrupted};
    check(spyre_comm_create(&options, &callbacks, &handle));
}

// A communicator waits for its threads to end, which must not be this one.
Comm::~Comm()
{
    if (!ending) spyre_comm_destroy(handle);
    else
        std::thread([comm = handle, kept = std::move(store)] { spyre_comm_destroy(comm); })
            .detach();
}

Job::~Job()
{
    spyre_event_destroy(static_cast<spyre_event *>(modelled));
    spyre_event_destroy(static_cast<spyre_event *>(event));
}

void Job::use_card(int index)
{
    card = index;
    stream = stream_current(static_cast<uint32_t>(card));
}

at::Tensor Job::stage(const at::Tensor &tensor, Use use, bool reduces)
{
    bool reads = use != Use::Write, writes = use != Use::Read;
    TORCH_CHECK_VALUE(tensor.device().type() == kSpyre, "[SpyreCCL]: ",
                      spyre_comm_kind_name(call.kind), ": a tensor on ", tensor.device(),
                      ": all must be on spyre");
    TORCH_CHECK_VALUE(card < 0 || card == tensor.device().index(), "[SpyreCCL]: ",
                      spyre_comm_kind_name(call.kind), ": tensors on spyre:", card, " and ",
                      tensor.device(), ": all must be on one card");
    TORCH_CHECK_VALUE(!tensor.is_sparse() && tensor.layout() == at::kStrided, "[SpyreCCL]: ",
                      spyre_comm_kind_name(call.kind), ": a sparse tensor");
    TORCH_CHECK_VALUE(!writes || at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                      "[SpyreCCL]: ", spyre_comm_kind_name(call.kind),
                      ": elements of the output share memory");
    use_card(tensor.device().index());
    at::Tensor staged;
    if (is_wide(tensor)) {
        if (comm_is_direct(&tensor)) return tensor;
        staged = at::empty(tensor.sizes(), tensor.options());
        if (reads) staged.copy_(tensor);
    } else {
        auto dtype = reduces ? combined_dtype(tensor.scalar_type()) : tensor.scalar_type();
        auto options = tensor.options().device(at::kCPU);
        staged = reads ? tensor.to(at::kCPU).contiguous().to(dtype)
                       : at::empty(tensor.sizes(), options.dtype(dtype));
    }
    if (writes) afterwards.push_back([tensor, staged] { tensor.copy_(staged); });
    bool pairs = reduces && staged.scalar_type() == at::kComplexFloat;
    return pairs ? at::view_as_real(staged) : staged;
}

at::Tensor Job::fresh_flat(const at::Tensor &like, int64_t elements)
{
    auto options = like.options();
    return at::empty({elements}, is_wide(like) ? options : options.device(at::kCPU));
}

at::Tensor Job::stage_flat(const at::Tensor &tensor, Use use)
{
    if (tensor.dim() == 1) return stage(tensor, use);
    TORCH_CHECK_VALUE(use == Use::Read || tensor.is_contiguous(), "[SpyreCCL]: ",
                      spyre_comm_kind_name(call.kind), ": the output must be contiguous");
    return stage(tensor.reshape(-1), use);
}

void Job::add(const at::Tensor &staged, bool writes, bool block)
{
    void *pointer = nullptr;
    uint64_t bytes = 0;
    if (staged.is_cpu()) {
        pointer = staged.data_ptr();
        bytes = staged.nbytes();
    } else if (!comm_map(&staged, writes, &pointer, &bytes)) {
        glue_throw();
    }
    bool combines = call.kind == SPYRE_COMM_REDUCE || call.kind == SPYRE_COMM_ALL_REDUCE ||
                    call.kind == SPYRE_COMM_REDUCE_SCATTER;
    call.format = combines || is_wide(staged) ? format_of(staged) : SPYRE_FORMAT_SENINT8;
    call.count = bytes / std::max(spyre_format_bytes(call.format), 1u);
    kept.push_back(staged);
    static char nothing;                // a place for no bytes
    if (!pointer) pointer = &nothing;
    if (!block) (writes ? call.output : const_cast<void *&>(call.input)) = pointer;
    else if (writes) outputs.push_back(pointer);
    else inputs.push_back(pointer);
    if (block) (writes ? receive_counts : send_counts).push_back(call.count);
    call.inputs = inputs.empty() ? nullptr : inputs.data();
    call.outputs = outputs.empty() ? nullptr : outputs.data();
}

void Job::input(const at::Tensor &staged) { add(staged, false, false); }
void Job::output(const at::Tensor &staged) { add(staged, true, false); }
void Job::input_block(const at::Tensor &staged) { add(staged, false, true); }
void Job::output_block(const at::Tensor &staged) { add(staged, true, true); }

void Job::list_counts()
{
    call.send_counts = send_counts.data();
    call.receive_counts = receive_counts.data();
}

void Job::describe(const at::Tensor &tensor, bool sizes)
{
    detail = c10::getDtypeNames(tensor.scalar_type()).first;
    call.signature = static_cast<uint64_t>(tensor.scalar_type()) + 1;
    for (int64_t i = 0; sizes && i < tensor.dim(); i++) {
        detail += (i ? ", " : "[") + std::to_string(tensor.size(i));
        call.signature = c10::hash_combine(call.signature, static_cast<size_t>(tensor.size(i)));
    }
    if (sizes) detail += tensor.dim() ? "]" : "[]";
    call.detail = detail.c_str();
}

int64_t Job::bytes(uint32_t ranks) const
{
    uint64_t elements = call.count;
    if (call.send_counts) {
        elements = std::accumulate(send_counts.begin(), send_counts.end(), uint64_t{0});
        elements /= ranks;
    }
    return static_cast<int64_t>(elements * spyre_format_bytes(call.format));
}

void Job::finish()
{
    at::NoGradGuard no_gradients;
    for (auto &step : afterwards) step();
    afterwards.clear();
}

namespace {

// On the card's clock an asynchronous job has a stream of its own, behind what comes before it; who
// waits for it comes behind it.
constexpr uint32_t kExchangeStream = SPYRE_LOW_STREAMS;

uint32_t modelled_stream(const Job &job)
{
    return job.asynchronous ? kExchangeStream : job.stream;
}

// Also finds when this rank comes: behind its input, and what its stream has exchanged before.
spyre_status await_input(void *context)
{
    auto *job = static_cast<std::shared_ptr<Job> *>(context)->get();
    auto *event = static_cast<spyre_event *>(job->event);
    if (spyre_status error = event ? spyre_event_synchronize(event) : nullptr) return error;
    if (job->card < 0) return nullptr;
    auto card = static_cast<uint32_t>(job->card);
    double before_us = event ? spyre_event_clock_us(event) : job->clock_us;
    job->clock_us = std::max(before_us, comm_stream_clock_us(card, modelled_stream(*job)));
    return nullptr;
}

// Behind the last rank, so that it ends at one instant of all ranks' clocks.
void model(Job &job)
{
    if (job.card < 0) return;
    auto card = static_cast<uint32_t>(job.card);
    spyre_exchange_info info = {job.call.kind, job.ranks, job.root, job.bytes(job.ranks),
                                job.clock_us};
    bool ok = comm_model(card, modelled_stream(job), &info);
    if (!ok || (job.asynchronous && !event_record(&job.modelled, card, kExchangeStream)))
        glue_throw();
}

// Copies of an asynchronous job are made on another thread, so their stream is waited for.
void finish_elsewhere(Job &job)
{
    if (job.afterwards.empty()) return;
    c10::DeviceGuard guard(c10::Device(kSpyre, static_cast<c10::DeviceIndex>(job.card)));
    auto card = static_cast<uint32_t>(job.card);
    uint32_t before = stream_exchange(card, job.stream);
    job.finish();
    stream_exchange(card, before);
    if (!stream_synchronize(card, job.stream)) glue_throw();
}

void end(void *context, spyre_status error)
{
    std::unique_ptr<std::shared_ptr<Job>> job(static_cast<std::shared_ptr<Job> *>(context));
    Job &j = **job;
    if (error) j.failure = exception_of(error);
    if (!j.asynchronous) return;
    bool outer = ending;
    ending = true;
    try {
        if (!j.failure) model(j);
        if (!j.failure) finish_elsewhere(j);
    } catch (...) {
        j.failure = std::current_exception();
    }
    if (j.failure) j.future->setError(j.failure);
    else j.future->markCompleted(c10::IValue(j.results));
    job.reset();
    ending = outer;
}

c10::intrusive_ptr<c10::ivalue::Future> new_future()
{
    return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

struct OneWork final : c10d::Work {
    OneWork(c10d::OpType type, std::shared_ptr<Comm> its_comm, std::shared_ptr<Job> its_job,
            spyre_request *its_request)
        : Work(static_cast<int>(spyre_comm_rank(its_comm->handle)), type),
          comm(std::move(its_comm)), job(std::move(its_job)), request(its_request)
    {
    }
    ~OneWork() override { spyre_request_free(request); }

    // The future, whose callbacks may ask, completes just before the request.
    bool ended() const
    {
        return !request || spyre_request_test(request) || job->future->completed();
    }
    bool isCompleted() override { return ended(); }
    bool isSuccess() const override { return ended() && !job->failure; }
    std::exception_ptr exception() const override { return ended() ? job->failure : nullptr; }
    int sourceRank() const override
    {
        return static_cast<int>(request ? spyre_request_source(request) : job->call.root);
    }
    std::vector<at::Tensor> result() override { return job->results; }
    void synchronize() override { wait(kNoTimeout); }
    bool wait(std::chrono::milliseconds timeout) override
    {
        if (!request) return true;
        spyre_status error = spyre_request_wait(request, timeout.count());
        if (error && spyre_request_test(request) && job->failure) {
            spyre_status_free(error);
            std::rethrow_exception(job->failure);
        }
        check(error);
        if (job->failure) std::rethrow_exception(job->failure);
        auto card = static_cast<uint32_t>(job->card);
        if (job->modelled && !event_wait(job->modelled, card, stream_current(card))) glue_throw();
        return true;
    }
    void abort() override { spyre_comm_abort(comm->handle, "Work.abort() was called"); }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        if (!job->future) {
            job->future = new_future();
            job->future->markCompleted(c10::IValue(job->results));
        }
        return job->future;
    }

    std::shared_ptr<Comm> comm;
    std::shared_ptr<Job> job;
    spyre_request *request;
};

struct SeveralWorks final : c10d::Work {
    explicit SeveralWorks(std::vector<c10::intrusive_ptr<c10d::Work>> theirs)
        : works(std::move(theirs))
    {
    }
    bool isCompleted() override
    {
        return std::all_of(works.begin(), works.end(), [](auto &w) { return w->isCompleted(); });
    }
    bool isSuccess() const override
    {
        return std::all_of(works.begin(), works.end(), [](auto &w) { return w->isSuccess(); });
    }
    std::exception_ptr exception() const override
    {
        for (const auto &w : works)
            if (auto failure = w->exception()) return failure;
        return nullptr;
    }
    std::vector<at::Tensor> result() override
    {
        std::vector<at::Tensor> all;
        for (const auto &w : works)
            for (const auto &t : w->result()) all.push_back(t);
        return all;
    }
    void synchronize() override { wait(kNoTimeout); }
    bool wait(std::chrono::milliseconds timeout) override
    {
        for (const auto &w : works) w->wait(timeout);
        return true;
    }
    // Complete with the last: the operations of one group end in order.
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        auto all = new_future();
        auto collect = [all, mine = c10::intrusive_ptr<SeveralWorks>::reclaim_copy(this)](
                           c10::ivalue::Future &last) {
            if (last.hasError()) all->setError(last.exception_ptr());
            else all->markCompleted(c10::IValue(mine->result()));
        };
        works.back()->getFuture()->addCallback(collect);
        return all;
    }

    std::vector<c10::intrusive_ptr<c10d::Work>> works;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> launch(const std::shared_ptr<Comm> &comm,
                                      const std::shared_ptr<Job> &job, c10d::OpType type,
                                      bool asynchronous, std::chrono::milliseconds timeout)
{
    if (job->card >= 0) {
        auto card = static_cast<uint32_t>(job->card);
        if (!stream_is_idle(card, job->stream)) {
            if (!event_record(&job->event, card, job->stream)) glue_throw();
        } else {
            job->clock_us =
                std::max(comm_stream_clock_us(card, job->stream), comm_host_clock_us(card));
        }
    }
    job->call.timeout_ms = std::max<int64_t>(timeout.count(), 0);
    job->call.before = await_input;
    job->call.clock_us = &job->clock_us;
    job->ranks = spyre_comm_size(comm->handle);
    job->root = job->call.root == spyre_comm_rank(comm->handle);
    job->call.done = end;
    job->asynchronous = asynchronous;
    if (asynchronous) job->future = new_future();
    auto context = std::make_unique<std::shared_ptr<Job>>(job);
    job->call.context = context.get();
    spyre_request *request = nullptr;
    spyre_status error;
    bool ended = false;
    if (asynchronous) {
        error = spyre_comm_start(comm->handle, &job->call, &request);
        ended = !error;
    } else {
        error = spyre_comm_run(comm->handle, &job->call);
        ended = !error || job->failure;
    }
    if (ended) context.release();       // end() has it, or will
    check(error);
    if (!asynchronous) {
        model(*job);
        job->finish();
    }
    return c10::make_intrusive<OneWork>(type, comm, job, request);
}

c10::intrusive_ptr<c10d::Work> combine(std::vector<c10::intrusive_ptr<c10d::Work>> works)
{
    if (works.size() == 1) return works[0];
    return c10::make_intrusive<SeveralWorks>(std::move(works));
}

}  // namespace spyreccl
