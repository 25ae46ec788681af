// SPDX-License-Identifier: Apache-2.0
//
// `spyreccl`: c10d's interface to the collectives of spyre/comm.h. Each method stages its tensors
// (comm_job.hpp) and launches one operation.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "comm/comm_job.hpp"

namespace {

using namespace c10d;
using spyreccl::Comm;
using spyreccl::Job;
using spyreccl::Use;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<Work>;

constexpr auto kName = "SpyreCCL";

struct SpyreCCLNotSupportedException final : std::runtime_error {
    explicit SpyreCCLNotSupportedException(const std::string &operation)
        : std::runtime_error(std::string("[") + kName + "]: The \"" + operation +
                             "\" operation is not supported.")
    {
    }
};

spyre_reduction reduction_of(const ReduceOp &op, const char *operation)
{
    switch (static_cast<ReduceOp::RedOpType>(op)) {
    case ReduceOp::SUM: return SPYRE_REDUCE_SUM;
    case ReduceOp::AVG: return SPYRE_REDUCE_AVG;
    case ReduceOp::PRODUCT: return SPYRE_REDUCE_PROD;
    case ReduceOp::MIN: return SPYRE_REDUCE_MIN;
    case ReduceOp::MAX: return SPYRE_REDUCE_MAX;
    case ReduceOp::BAND: throw SpyreCCLNotSupportedException(std::string(operation) + " BAND");
    case ReduceOp::BOR: throw SpyreCCLNotSupportedException(std::string(operation) + " BOR");
    case ReduceOp::BXOR: throw SpyreCCLNotSupportedException(std::string(operation) + " BXOR");
    case ReduceOp::PREMUL_SUM:
    case ReduceOp::UNUSED: break;
    }
    throw SpyreCCLNotSupportedException(std::string(operation) + " PREMUL_SUM");
}

ReduceOp c10d_op(spyre_reduction reduction)
{
    switch (reduction) {
    case SPYRE_REDUCE_AVG: return ReduceOp::AVG;
    case SPYRE_REDUCE_MAX: return ReduceOp::MAX;
    case SPYRE_REDUCE_MIN: return ReduceOp::MIN;
    case SPYRE_REDUCE_PROD: return ReduceOp::PRODUCT;
    case SPYRE_REDUCE_SUM:
    case SPYRE_REDUCE_COUNT: break;
    }
    return ReduceOp::SUM;
}

const at::Tensor &only(const Tensors &tensors, const char *operation)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "[", kName, "]: ", operation,
                      ": takes one tensor, got ", tensors.size());
    return tensors[0];
}

void check_alike(const Tensors &tensors, const at::Tensor &like, size_t count, const char *where)
{
    TORCH_CHECK_VALUE(tensors.size() == count, "[", kName, "]: ", where, ": a list of ",
                      tensors.size(), " tensors: expected ", count);
    for (const auto &t : tensors)
        TORCH_CHECK_VALUE(t.sizes() == like.sizes() && t.scalar_type() == like.scalar_type(), "[",
                          kName, "]: ", where, ": a tensor ", t.scalar_type(), t.sizes(),
                          " in the list: expected ", like.scalar_type(), like.sizes());
}

struct SpyreCCL final : Backend, spyreccl::GraphBackend {
    SpyreCCL(c10::intrusive_ptr<Store> store, int rank, int size, int64_t timeout_ms)
        : Backend(rank, size),
          comm(std::make_shared<Comm>(std::move(store), rank, size, timeout_ms))
    {
    }

    const std::string getBackendName() const override { return kName; }
    bool supportsCoalescing() const override { return true; }
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence; }
    ErrorType getError() override { return ErrorType::SUCCESS; }
    void abort() override { spyre_comm_abort(live()->handle, "abort() was called"); }
    void shutdown() override { comm.reset(); }

    const std::shared_ptr<Comm> &live() const
    {
        TORCH_CHECK_WITH(DistBackendError, comm, "[", kName, "]: rank ", getRank(),
                         ": the process group was destroyed");
        return comm;
    }

    static std::shared_ptr<Job> job(spyre_comm_kind kind) { return std::make_shared<Job>(kind); }

    uint32_t checked_rank(int64_t rank) const
    {
        TORCH_CHECK_VALUE(rank >= 0 && rank < getSize(), "[", kName, "]: rank ", rank,
                          ": must be below the size, ", getSize());
        return static_cast<uint32_t>(rank);
    }

    template <typename Options>
    WorkPtr launch(const std::shared_ptr<Job> &j, OpType type, const Options &options)
    {
        bool asynchronous = options.asyncOp || coalescing;
        auto work = spyreccl::launch(live(), j, type, asynchronous, options.timeout);
        sequence++;
        if (coalescing) pending.push_back(work);
        return work;
    }

    void startCoalescing() override
    {
        coalescing = true;
        pending.clear();
    }
    WorkPtr endCoalescing() override
    {
        coalescing = false;
        TORCH_CHECK(!pending.empty(), "[", kName, "]: no operation was coalesced");
        return spyreccl::combine(std::move(pending));
    }

    // ---- one tensor

    WorkPtr broadcast(Tensors &tensors, const BroadcastOptions &options) override
    {
        auto j = job(SPYRE_COMM_BROADCAST);
        const auto &t = only(tensors, "broadcast");
        j->call.root = checked_rank(options.rootRank);
        auto staged = j->stage(t, options.rootRank == getRank() ? Use::Read : Use::Write);
        j->describe(t, true);
        j->input(staged);
        if (options.rootRank != getRank()) j->output(staged);
        j->results = {t};
        return launch(j, OpType::BROADCAST, options);
    }

    template <typename Options>
    WorkPtr reduce_all(const at::Tensor &t, const Options &options)
    {
        auto j = job(SPYRE_COMM_ALL_REDUCE);
        j->call.reduction = reduction_of(options.reduceOp, "allreduce");
        auto staged = j->stage(t, Use::Both, true);
        j->describe(t, true);
        j->input(staged);
        j->output(staged);
        j->results = {t};
        return launch(j, OpType::ALLREDUCE, options);
    }
    WorkPtr allreduce(Tensors &tensors, const AllreduceOptions &options) override
    {
        return reduce_all(only(tensors, "allreduce"), options);
    }
    WorkPtr allreduce_coalesced(Tensors &tensors, const AllreduceCoalescedOptions &options) override
    {
        std::vector<WorkPtr> works;
        for (const auto &t : tensors) works.push_back(reduce_all(t, options));
        return spyreccl::combine(std::move(works));
    }

    WorkPtr reduce(Tensors &tensors, const ReduceOptions &options) override
    {
        auto j = job(SPYRE_COMM_REDUCE);
        const auto &t = only(tensors, "reduce");
        j->call.reduction = reduction_of(options.reduceOp, "reduce");
        j->call.root = checked_rank(options.rootRank);
        bool root = options.rootRank == getRank();
        auto staged = j->stage(t, root ? Use::Both : Use::Read, true);
        j->describe(t, true);
        j->input(staged);
        if (root) j->output(staged);
        j->results = {t};
        return launch(j, OpType::REDUCE, options);
    }

    // ---- a list of tensors, one a rank

    static bool differ(const Tensors &tensors)
    {
        return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor &t) {
            return t.sizes() != tensors[0].sizes();
        });
    }

    // An all-gather of tensors of different sizes: everyone sends its own to everyone.
    WorkPtr gather_different(const Tensors &outputs, const at::Tensor &input,
                             const AllgatherOptions &options)
    {
        auto j = job(SPYRE_COMM_ALL_TO_ALL);
        auto size = static_cast<size_t>(getSize());
        auto rank = static_cast<size_t>(getRank());
        TORCH_CHECK_VALUE(outputs.size() == size && outputs[rank].sizes() == input.sizes(), "[",
                          kName, "]: allgather: tensor ", rank, " of the list must have the sizes ",
                          input.sizes(), " of the input");
        j->describe(input, false);
        auto staged = j->stage_flat(input, Use::Read);
        for (size_t r = 0; r < size; r++) j->input_block(staged);
        for (const auto &t : outputs) j->output_block(j->stage_flat(t, Use::Write));
        j->list_counts();
        j->results = outputs;
        return launch(j, OpType::ALLGATHER, options);
    }

    WorkPtr gather_all(const Tensors &outputs, const at::Tensor &input,
                       const AllgatherOptions &options)
    {
        auto j = job(SPYRE_COMM_ALL_GATHER);
        if (differ(outputs)) return gather_different(outputs, input, options);
        check_alike(outputs, input, static_cast<size_t>(getSize()), "allgather");
        j->describe(input, true);
        j->input(j->stage(input, Use::Read));
        for (const auto &t : outputs) j->output_block(j->stage(t, Use::Write));
        j->results = outputs;
        return launch(j, OpType::ALLGATHER, options);
    }
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const AllgatherOptions &options) override
    {
        const auto &input = only(inputs, "allgather");
        TORCH_CHECK_VALUE(outputs.size() == 1, "[", kName, "]: allgather: takes one output list");
        return gather_all(outputs[0], input, options);
    }
    // `outputs` by rank, then by input.
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const AllgatherOptions &options) override
    {
        std::vector<WorkPtr> works;
        for (const auto &list : outputs)
            TORCH_CHECK_VALUE(list.size() == inputs.size(), "[", kName,
                              "]: allgather_coalesced: a list of ", list.size(),
                              " outputs for ", inputs.size(), " inputs");
        for (size_t i = 0; i < inputs.size(); i++) {
            Tensors of_ranks;
            for (const auto &list : outputs) of_ranks.push_back(list[i]);
            works.push_back(gather_all(of_ranks, inputs[i], options));
        }
        return spyreccl::combine(std::move(works));
    }

    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
                   const GatherOptions &options) override
    {
        auto j = job(SPYRE_COMM_GATHER);
        const auto &input = only(inputs, "gather");
        bool root = options.rootRank == getRank();
        j->call.root = checked_rank(options.rootRank);
        j->describe(input, true);
        j->input(j->stage(input, Use::Read));
        if (root) {
            TORCH_CHECK_VALUE(outputs.size() == 1, "[", kName, "]: gather: takes one output list");
            check_alike(outputs[0], input, static_cast<size_t>(getSize()), "gather");
            for (const auto &t : outputs[0]) j->output_block(j->stage(t, Use::Write));
            j->results = outputs[0];
        }
        return launch(j, OpType::GATHER, options);
    }

    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                    const ScatterOptions &options) override
    {
        auto j = job(SPYRE_COMM_SCATTER);
        const auto &output = only(outputs, "scatter");
        j->call.root = checked_rank(options.rootRank);
        j->describe(output, true);
        if (options.rootRank == getRank()) {
            TORCH_CHECK_VALUE(inputs.size() == 1, "[", kName, "]: scatter: takes one input list");
            check_alike(inputs[0], output, static_cast<size_t>(getSize()), "scatter");
            for (const auto &t : inputs[0]) j->input_block(j->stage(t, Use::Read));
        }
        j->output(j->stage(output, Use::Write));
        j->results = {output};
        return launch(j, OpType::SCATTER, options);
    }

    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const ReduceScatterOptions &options) override
    {
        auto j = job(SPYRE_COMM_REDUCE_SCATTER);
        const auto &output = only(outputs, "reduce_scatter");
        TORCH_CHECK_VALUE(inputs.size() == 1, "[", kName,
                          "]: reduce_scatter: takes one input list");
        check_alike(inputs[0], output, static_cast<size_t>(getSize()), "reduce_scatter");
        j->call.reduction = reduction_of(options.reduceOp, "reduce_scatter");
        j->describe(output, true);
        for (const auto &t : inputs[0]) j->input_block(j->stage(t, Use::Read, true));
        j->output(j->stage(output, Use::Write, true));
        j->results = {output};
        return launch(j, OpType::REDUCE_SCATTER, options);
    }

    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const AllToAllOptions &options) override
    {
        auto j = job(SPYRE_COMM_ALL_TO_ALL);
        auto size = static_cast<size_t>(getSize());
        TORCH_CHECK_VALUE(outputs.size() == size && inputs.size() == size, "[", kName,
                          "]: alltoall: lists of ", outputs.size(), " and ", inputs.size(),
                          " tensors: expected ", size);
        j->describe(inputs[0], false);
        for (const auto &t : inputs) j->input_block(j->stage_flat(t, Use::Read));
        for (const auto &t : outputs) j->output_block(j->stage_flat(t, Use::Write));
        j->list_counts();
        j->results = outputs;
        return launch(j, OpType::ALLTOALL, options);
    }

    // ---- one tensor with a part for each rank

    // The parts of a tensor, each of as many elements, as tensors of their own.
    static Tensors parts_of(const at::Tensor &tensor, const std::vector<int64_t> &elements)
    {
        Tensors parts;
        auto flat = tensor.reshape(-1);
        int64_t at = 0;
        for (int64_t count : elements) {
            parts.push_back(flat.narrow(0, at, count));
            at += count;
        }
        return parts;
    }
    std::vector<int64_t> equal_parts(const at::Tensor &whole, int64_t elements,
                                     const char *operation) const
    {
        TORCH_CHECK_VALUE(whole.numel() == elements * getSize(), "[", kName, "]: ", operation,
                          ": ", whole.numel(), " elements for ", getSize(), " ranks of ", elements,
                          " each");
        return std::vector<int64_t>(static_cast<size_t>(getSize()), elements);
    }
    static void check_output(const at::Tensor &tensor, const char *operation)
    {
        TORCH_CHECK_VALUE(tensor.is_contiguous(), "[", kName, "]: ", operation,
                          ": the output must be contiguous");
    }

    WorkPtr gather_into(at::Tensor &output, at::Tensor &input, const AllgatherOptions &options)
    {
        auto j = job(SPYRE_COMM_ALL_GATHER);
        check_output(output, "_allgather_base");
        j->describe(input, false);
        j->input(j->stage_flat(input, Use::Read));
        auto elements = equal_parts(output, input.numel(), "_allgather_base");
        for (const auto &t : parts_of(output, elements))
            j->output_block(j->stage(t, Use::Write));
        j->results = {output};
        return launch(j, OpType::_ALLGATHER_BASE, options);
    }
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const AllgatherOptions &options) override
    {
        return gather_into(output, input, options);
    }
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const AllgatherOptions &options) override
    {
        std::vector<WorkPtr> works;
        for (size_t i = 0; i < outputs.size(); i++)
            works.push_back(gather_into(outputs[i], inputs[i], options));
        return spyreccl::combine(std::move(works));
    }

    WorkPtr reduce_scatter_from(at::Tensor &output, at::Tensor &input,
                                const ReduceScatterOptions &options)
    {
        auto j = job(SPYRE_COMM_REDUCE_SCATTER);
        check_output(output, "_reduce_scatter_base");
        j->call.reduction = reduction_of(options.reduceOp, "_reduce_scatter_base");
        j->describe(output, false);
        for (const auto &t :
             parts_of(input, equal_parts(input, output.numel(), "_reduce_scatter_base")))
            j->input_block(j->stage(t, Use::Read, true));
        j->output(j->stage(output.view(-1), Use::Write, true));
        j->results = {output};
        return launch(j, OpType::_REDUCE_SCATTER_BASE, options);
    }
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const ReduceScatterOptions &options) override
    {
        return reduce_scatter_from(output, input, options);
    }
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const ReduceScatterOptions &options) override
    {
        std::vector<WorkPtr> works;
        for (size_t i = 0; i < outputs.size(); i++)
            works.push_back(reduce_scatter_from(outputs[i], inputs[i], options));
        return spyreccl::combine(std::move(works));
    }

    // Elements a rank of a tensor that is split along dim 0.
    std::vector<int64_t> split(const at::Tensor &tensor, const std::vector<int64_t> &rows,
                               const char *which) const
    {
        int64_t all = tensor.dim() ? tensor.size(0) : 1, row = all ? tensor.numel() / all : 0;
        int64_t sum = 0;
        std::vector<int64_t> elements;
        TORCH_CHECK_VALUE(!rows.empty() || all % getSize() == 0, "[", kName, "]: alltoall_base: ",
                          all, " rows of the ", which, " for ", getSize(), " ranks");
        for (int r = 0; r < getSize(); r++) {
            int64_t count = rows.empty() ? all / getSize() : rows.at(static_cast<size_t>(r));
            TORCH_CHECK_VALUE(count >= 0, "[", kName, "]: alltoall_base: a split of ", count);
            elements.push_back(count * row);
            sum += count;
        }
        TORCH_CHECK_VALUE(sum == all, "[", kName, "]: alltoall_base: the splits of the ", which,
                          " are ", sum, " rows in all: it has ", all);
        return elements;
    }
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_rows,
                          std::vector<int64_t> &input_rows, const AllToAllOptions &options) override
    {
        auto j = job(SPYRE_COMM_ALL_TO_ALL);
        check_output(output, "alltoall_base");
        j->describe(input, false);
        for (const auto &t : parts_of(input, split(input, input_rows, "input")))
            j->input_block(j->stage(t, Use::Read));
        for (const auto &t : parts_of(output, split(output, output_rows, "output")))
            j->output_block(j->stage(t, Use::Write));
        j->list_counts();
        j->results = {output};
        return launch(j, OpType::ALLTOALL_BASE, options);
    }

    // ---- functional collectives of graphs

    // Of a broadcast or an all-reduce: into another tensor.
    WorkPtr make(const spyreccl::Exchange &e, const at::Tensor &output, const at::Tensor &input)
    {
        auto j = job(e.kind);
        bool reduces = e.kind == SPYRE_COMM_ALL_REDUCE;
        bool reads = reduces || e.root == getRank();
        j->call.reduction = e.reduction;
        j->call.root = reduces ? 0 : checked_rank(e.root);
        j->describe(input, true);
        if (reads) j->input(j->stage(input, Use::Read, reduces));
        j->output(j->stage(output, Use::Write, reduces));
        j->results = {output};
        AllreduceOptions options;
        options.asyncOp = true;
        return launch(j, reduces ? OpType::ALLREDUCE : OpType::BROADCAST, options);
    }
    WorkPtr exchange(const spyreccl::Exchange &e, at::Tensor &output, at::Tensor &input) override
    {
        AllgatherOptions gathers;
        ReduceScatterOptions reduces;
        AllToAllOptions exchanges;
        gathers.asyncOp = reduces.asyncOp = exchanges.asyncOp = true;
        reduces.reduceOp = c10d_op(e.reduction);
        auto receives = e.receive_rows, sends = e.send_rows;
        if (e.kind == SPYRE_COMM_ALL_GATHER) return gather_into(output, input, gathers);
        if (e.kind == SPYRE_COMM_REDUCE_SCATTER) return reduce_scatter_from(output, input, reduces);
        if (e.kind == SPYRE_COMM_ALL_TO_ALL)
            return alltoall_base(output, input, receives, sends, exchanges);
        return make(e, output, input);
    }

    // ---- messages and the rest

    struct MessageOptions {
        std::chrono::milliseconds timeout = kUnsetTimeout;
        bool asyncOp = true;
    };
    WorkPtr message(Tensors &tensors, bool sends, uint32_t other, int tag)
    {
        auto j = job(sends ? SPYRE_COMM_SEND : SPYRE_COMM_RECEIVE);
        const auto &t = only(tensors, sends ? "send" : "recv");
        j->call.root = other;
        j->call.tag = static_cast<uint32_t>(tag);
        j->describe(t, true);
        auto staged = j->stage(t, sends ? Use::Read : Use::Write);
        if (sends) j->input(staged);
        else j->output(staged);
        j->results = {t};
        return launch(j, sends ? OpType::SEND : OpType::RECV, MessageOptions{});
    }
    WorkPtr send(Tensors &tensors, int rank, int tag) override
    {
        return message(tensors, true, checked_rank(rank), tag);
    }
    WorkPtr recv(Tensors &tensors, int rank, int tag) override
    {
        return message(tensors, false, checked_rank(rank), tag);
    }
    WorkPtr recvAnysource(Tensors &tensors, int tag) override
    {
        return message(tensors, false, SPYRE_COMM_ANY, tag);
    }

    // Of what the streams of the current card have, too.
    WorkPtr barrier(const BarrierOptions &options) override
    {
        if (!device_synchronize(-1)) glue_throw();
        auto j = job(SPYRE_COMM_BARRIER);
        if (device_started()) j->use_card(device_current());
        auto work = launch(j, OpType::BARRIER, options);
        // The host has waited, so what it launches comes behind it on the card's clock, too.
        if (!options.asyncOp && !device_synchronize(-1)) glue_throw();
        return work;
    }
    void monitoredBarrier(const BarrierOptions &options, bool) override
    {
        auto waiting = options;
        waiting.asyncOp = false;
        barrier(waiting);
    }

    std::shared_ptr<Comm> comm;
    std::vector<WorkPtr> pending;
    bool coalescing = false;
    uint64_t sequence = 0;
};

// Gives the group this backend for the card, from which Python gets it as an object.
void attach(const c10::intrusive_ptr<ProcessGroup> &group, int64_t timeout_ms)
{
    auto backend = c10::make_intrusive<SpyreCCL>(group->getStore(), group->getRank(),
                                                 group->getSize(), timeout_ms);
    group->setBackend(c10::DeviceType::PrivateUse1, ProcessGroup::BackendType::CUSTOM, backend);
}

TORCH_LIBRARY(spyreccl, library)
{
    library.def("attach(__torch__.torch.classes.c10d.ProcessGroup group, int timeout_ms) -> ()",
                attach);
}

}  // namespace
