// SPDX-License-Identifier: Apache-2.0
//
// Collectives between ranks: processes of one host or of several, usually one emulated card each.
// Within a host they share memory, between hosts they use TCP. Needs neither a card nor PyTorch;
// buffers are memory of this process, elements are in the card's formats.
//
// Every rank calls the same collectives of a communicator in the same order with equal arguments.
// Before data moves, all ranks publish what they call and compare: a difference is an error on
// every rank that names rank, operation, its number and both sides' arguments. Sends and receives
// have an order of their own, per pair of ranks and tag.
//
// A reduction combines element i as ((x0 op x1) op x2) .. in ascending rank: floating formats are
// widened to fp32, each step is an fp32 operation, and the result is rounded to the format once; an
// average divides the fp32 sum by the ranks before that. NaN wins in a maximum and in a minimum.
// 16, 32 and 64-bit integers wrap around and have no average. So a result depends on the inputs
// alone, not on sizes of messages, timing or algorithm.
//
// After an error of a wait (a rank that failed, left, differs or does not come in time) the
// communicator is broken: every call that is under way or comes later fails with the first reason,
// on every rank. Destroy it and create another one. Nothing outlives the last process.
//
// Thread rule: any thread may start operations, the order of starts is the order of the collective;
// create, split and destroy one communicator from one thread.
#ifndef SPYRE_COMM_H
#define SPYRE_COMM_H

#include <stdbool.h>
#include <stddef.h>

#include "spyre/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_COMM_MOST_RANKS = 64, SPYRE_COMM_DETAIL_BYTES = 96 };

typedef enum {
    SPYRE_REDUCE_SUM,
    SPYRE_REDUCE_AVG,
    SPYRE_REDUCE_MAX,
    SPYRE_REDUCE_MIN,
    SPYRE_REDUCE_PROD,
    SPYRE_REDUCE_COUNT
} spyre_reduction;

// `count` elements is what the table says; buffers that a rank does not use may be null. Input and
// output are apart, or the same; where one of them has a block a rank, the other one may be this
// rank's block of it. Those of an all-to-all are apart.
typedef enum {
    SPYRE_COMM_BARRIER,
    SPYRE_COMM_BROADCAST,       // input of the root: count; output of the others (and root): count
    SPYRE_COMM_GATHER,          // input: count; output of the root: ranks * count
    SPYRE_COMM_SCATTER,         // input of the root: ranks * count; output: count
    SPYRE_COMM_ALL_GATHER,      // input: count; output: ranks * count
    SPYRE_COMM_REDUCE,          // input: count; output of the root: count
    SPYRE_COMM_ALL_REDUCE,      // input: count; output: count
    SPYRE_COMM_REDUCE_SCATTER,  // input: ranks * count; output: count
    SPYRE_COMM_ALL_TO_ALL,      // input and output: ranks * count, or as the two lists say
    SPYRE_COMM_SEND,            // input: count, to rank `root`
    SPYRE_COMM_RECEIVE,         // output: count, from rank `root` or SPYRE_COMM_ANY
    SPYRE_COMM_KIND_COUNT
} spyre_comm_kind;

#define SPYRE_COMM_ANY UINT32_MAX

// "sum", "all_reduce"; "?" for a value outside the enumeration.
SPYRE_API const char *spyre_reduction_name(spyre_reduction reduction);
SPYRE_API const char *spyre_comm_kind_name(spyre_comm_kind kind);

typedef struct spyre_comm spyre_comm;
typedef struct spyre_request spyre_request;

// Where ranks find each other: a key-value store that all of them reach, as c10d's. Both return
// false on failure, with a reason in `out_error`, if there is one.
typedef struct {
    void *context;
    bool (*set)(void *context, const char *key, const void *bytes, size_t count,
                char out_error[256]);
    // Waits until the key is there. The value has at most `capacity` bytes.
    bool (*get)(void *context, const char *key, int64_t timeout_ms, void *buffer, size_t capacity,
                size_t *out_count, char out_error[256]);
} spyre_comm_store;

typedef struct {
    uint32_t rank, size;        // 0 .. size-1, 1 .. SPYRE_COMM_MOST_RANKS
    const char *name;           // begins the keys in the store, one communicator each; copied
    int64_t timeout_ms;         // most that a wait for other ranks takes, above 0
    bool (*interrupted)(void);  // null, or asked every 50 ms by threads of the caller that wait
} spyre_comm_options;

// Joins; returns when every rank has. `store` is used until the communicator is destroyed.
// INVALID_ARGUMENT: sizes, ranks or names that break a rule or that ranks disagree about;
// CANCELLED: interrupted; IO: a rank did not come in time (named) or cannot be reached.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_comm_create(const spyre_comm_options *options,
                                                          const spyre_comm_store *store,
                                                          spyre_comm **out_comm);

// Every rank of `comm` calls it. Ranks of equal `color` form a new communicator, in the order of
// (key, rank); null for ranks with color UINT32_MAX. It outlives `comm`, but not its store.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_comm_split(spyre_comm *comm, uint32_t color,
                                                         uint32_t key, spyre_comm **out_comm);

// Ends what is under way with an error and frees. Null is allowed.
SPYRE_API void spyre_comm_destroy(spyre_comm *comm);

SPYRE_API uint32_t spyre_comm_rank(const spyre_comm *comm);
SPYRE_API uint32_t spyre_comm_size(const spyre_comm *comm);

typedef struct {
    spyre_comm_kind kind;
    spyre_format format;        // with whole bytes an element; reductions: one they are defined for
    spyre_reduction reduction;
    uint32_t root;              // or the other rank of a send or receive
    uint32_t tag;               // of sends and receives
    uint64_t count;
    const void *input;
    void *output;
    // Instead of one buffer with a block a rank, null or the block of each rank: of gather's and
    // all-gather's output, scatter's and reduce-scatter's input, all-to-all's both. The lists
    // belong to the operation, as the buffers do.
    const void *const *inputs;
    void *const *outputs;
    // Of all-to-all: elements by rank, or null. Copied.
    const uint64_t *send_counts, *receive_counts;
    // Compared between ranks as they are, 0 and null where nothing more is to be equal: a number,
    // and words for messages ("float16[4, 64]"), copied.
    uint64_t signature;
    const char *detail;
    int64_t timeout_ms;         // 0: that of the communicator
    // Null, or when this rank comes, in microseconds of a clock that all ranks share: read behind
    // `before`; ahead of `done` it is when the last rank came (of a receive: the later of the two;
    // of a send: this one).
    double *clock_us;
    // Called by the thread that executes, null for nothing: before the input is read (an error is
    // the operation's), and when it has ended, with its error, which stays the library's.
    void *context;
    spyre_status (*before)(void *context);
    void (*done)(void *context, spyre_status error);
} spyre_comm_call;

// Executes the operation: where nothing is queued, on this thread.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_comm_run(spyre_comm *comm,
                                                       const spyre_comm_call *call);

// Starts it on a thread of the communicator; the buffers belong to it until it has ended. An error
// of the arguments is returned here, and other ranks then miss the operation.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_comm_start(spyre_comm *comm,
                                                         const spyre_comm_call *call,
                                                         spyre_request **out_request);

// Whether the operation has ended, well or not.
SPYRE_API bool spyre_request_test(spyre_request *request);

// Waits for its end and returns its error, each time anew. After `timeout_ms` (0: without limit)
// fails with CANCELLED, and the operation goes on.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_request_wait(spyre_request *request,
                                                           int64_t timeout_ms);

// Of a receive that has ended: the rank that it is from.
SPYRE_API uint32_t spyre_request_source(const spyre_request *request);

// Gives it up; an operation under way goes on. Before its communicator is destroyed.
SPYRE_API void spyre_request_free(spyre_request *request);

// Breaks the communicator for all ranks: what is under way or comes later fails with CANCELLED here
// and with an error that names this rank and `reason` elsewhere. From any thread.
SPYRE_API void spyre_comm_abort(spyre_comm *comm, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
