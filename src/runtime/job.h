// SPDX-License-Identifier: Apache-2.0
//
// A job: a program of the card and where its arguments come from. What a compiled segment becomes
// when it is launched.
#ifndef RUNTIME_JOB_H
#define RUNTIME_JOB_H

#include "card/card.h"
#include "spyre/runtime.h"

typedef enum {
    JOB_INPUT,          // the caller's inputs[index]
    JOB_BUFFER,         // the caller's buffers[index]
    JOB_POOL,           // `bytes` of scratch that all launches on a card share, contents undefined;
                        // one a job
    JOB_CONSTANTS,      // `data`, put on a card once
} job_argument_kind;

typedef struct {
    job_argument_kind kind;
    uint32_t index;
    int64_t bytes;              // least size; for inputs and buffers 0 means any
    const void *data;
} job_argument;

// A stick of a JOB_CONSTANTS argument that every launch fills, from scalar `index`.
typedef struct {
    uint32_t argument, index;
    spyre_scalar_form form;
    spyre_format format;
    int64_t offset;             // bytes
} job_scalar;

// The constants must live until job_destroy; the program's arena is kept as long as the job, the
// rest is copied.
typedef struct {
    const isa_program *program;
    uint32_t argument_count;    // program->arg_count
    const job_argument *arguments;
    uint32_t scalar_count;
    const job_scalar *scalars;  // as long as the program
    const char *name;           // in activity records
    bool forgets_lx;            // LX has no reader after a launch: see card_program_forget_lx()
} job_plan;

typedef struct job job;

// Verifies the program. Touches no card: the same job may run on several cards and contexts.
SPYRE_MUST_CHECK spyre_status job_create(const job_plan *plan, job **out_job);

// Launches that are under way still finish; their card memory is freed after them. Null is allowed.
void job_destroy(job *j);

// In records of launches from now on: instead of the plan's name.
void job_set_name(job *j, const char *name);

// Bytes of the host that the job takes, with what it has put on cards.
int64_t job_bytes(job *j);

// Counters of one launch, and (when asked for) of each kernel of the program. Live as long as the
// job.
const card_counters *job_counters(const job *j, const card_counters **out_kernels);

// Which of `inputs`, addresses on the card or CARD_HALVES + an address of the host, a launch could
// take: out_taken[index] is false of halves that would have to lie on the card. None is when a
// profiler or a record of launches is to see the transfers, or where the launch would not go as
// planned (card/card.h).
SPYRE_MUST_CHECK spyre_status job_takes_halves(spyre_context *context, uint32_t card_id,
                                               uint32_t stream_id, job *j, const uint64_t *inputs,
                                               bool *out_taken);

// Enqueues one run. The addresses are card addresses inside allocations, or halves; their windows
// are checked here, accesses when it runs. `scalars` are the numbers that the plan's scalars name,
// copied; null where it has none. A fault becomes the stream's sticky error. A small job on an idle
// stream and card runs before this returns.
SPYRE_MUST_CHECK spyre_status job_launch(spyre_context *context, uint32_t card_id,
                                         uint32_t stream_id, job *j, const uint64_t *inputs,
                                         const uint64_t *buffers, const double *scalars);

#endif
