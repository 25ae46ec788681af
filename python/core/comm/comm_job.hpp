// SPDX-License-Identifier: Apache-2.0
//
// One operation of a communicator with the tensors around it, and PyTorch's Work for it.
//
// Tensors of float16, bfloat16 and float32 take part as the bytes of the card: every rank gives them
// the same form, a tensor in another one by a copy on the card. Other dtypes take part as the host
// has them. What has to be copied back is copied when the operation has ended.
#ifndef CORE_COMM_JOB_HPP
#define CORE_COMM_JOB_HPP

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>

#include "glue.h"
#include "spyre/comm.h"

namespace spyreccl {

// Throws the error, and frees it.
void check(spyre_status error);

// A communicator and the store that its ranks met by.
struct Comm {
    Comm(c10::intrusive_ptr<c10d::Store> store, uint32_t rank, uint32_t size, int64_t timeout_ms);
    ~Comm();
    Comm(const Comm &) = delete;
    Comm &operator=(const Comm &) = delete;
    c10::intrusive_ptr<c10d::Store> store;
    spyre_comm *handle = nullptr;
};

enum class Use { Read, Write, Both };

struct Job {
    explicit Job(spyre_comm_kind kind) { call.kind = kind; }
    ~Job();
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

    void use_card(int index);
    // The tensor as it takes part: itself or another one. `reduces`: in a dtype that is combined.
    at::Tensor stage(const at::Tensor &tensor, Use use, bool reduces = false);
    // The same as one dim, which is as bytes whatever the sizes were.
    at::Tensor stage_flat(const at::Tensor &tensor, Use use);
    // A fresh tensor like `like`, of one dim, that takes part.
    at::Tensor fresh_flat(const at::Tensor &like, int64_t elements);

    // Buffers of the call, of staged tensors. A block is one rank's.
    void input(const at::Tensor &staged);
    void output(const at::Tensor &staged);
    void input_block(const at::Tensor &staged);
    void output_block(const at::Tensor &staged);
    // Elements of the staged tensors, for an operation whose blocks differ.
    void list_counts();

    // What all ranks must agree about beside the count, and messages say.
    void describe(const at::Tensor &tensor, bool sizes);

    int64_t bytes(uint32_t ranks) const;  // that spyre_exchange() counts
    void finish();                      // copies back, on the streams of the caller

    spyre_comm_call call{};
    std::vector<at::Tensor> results;
    std::vector<std::function<void()>> afterwards;
    int card = -1;
    uint32_t stream = 0;
    void *event = nullptr;              // of what comes before
    void *modelled = nullptr;           // of an asynchronous one's end on the virtual clock
    uint32_t ranks = 1;
    bool root = false;                  // of a collective that has one
    double clock_us = 0;                // when this rank comes, then the last one (spyre/comm.h)
    std::exception_ptr failure;
    bool asynchronous = false;
    c10::intrusive_ptr<c10::ivalue::Future> future;

private:
    void add(const at::Tensor &staged, bool writes, bool block);
    std::vector<at::Tensor> kept;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    std::vector<uint64_t> send_counts, receive_counts;
    std::string detail;
};

// Runs the job here, or starts it.
c10::intrusive_ptr<c10d::Work> launch(const std::shared_ptr<Comm> &comm,
                                      const std::shared_ptr<Job> &job, c10d::OpType type,
                                      bool asynchronous, std::chrono::milliseconds timeout);

// A functional collective of one tensor, as a graph has it: `root` of a broadcast; rows by rank of an
// all-to-all, none for equal parts.
struct Exchange {
    spyre_comm_kind kind = SPYRE_COMM_BARRIER;
    spyre_reduction reduction = SPYRE_REDUCE_SUM;
    int64_t root = 0;
    std::vector<int64_t> receive_rows, send_rows;
    std::string group;
};

// What a backend offers to graphs beside c10d's interface.
struct GraphBackend {
    virtual ~GraphBackend() = default;
    // Starts it on contiguous `output`, of the sizes that the kind gives.
    virtual c10::intrusive_ptr<c10d::Work> exchange(const Exchange &e, at::Tensor &output,
                                                    at::Tensor &input) = 0;
};

// Several as one.
c10::intrusive_ptr<c10d::Work> combine(std::vector<c10::intrusive_ptr<c10d::Work>> works);

}  // namespace spyreccl

#endif
