// SPDX-License-Identifier: Apache-2.0
//
// The device: emulated cards, their memory, streams, transfers and launches. All functions are
// thread safe. A card address is segment * 2^34 + offset; address 0 is never handed out.
#ifndef SPYRE_RUNTIME_H
#define SPYRE_RUNTIME_H

#include "spyre/comm.h"
#include "spyre/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_DEFAULT_STREAM = 0, SPYRE_LOW_STREAMS = 32, SPYRE_HIGH_STREAMS = 32 };

typedef struct spyre_context spyre_context;

// Opens `card_count` (1..8) emulated cards. One context a process is the rule; more are allowed.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_context_create(uint32_t card_count,
                                                             spyre_context **out_context);
SPYRE_API void spyre_context_destroy(spyre_context *context);

// Allocates card memory, rounded up to 128 bytes (0 bytes give a valid address of one stick), with
// any contents. `stream` is the one that will use it first: it may get memory that its own earlier
// work still uses; the first use on another stream then waits for that work.
// SPYRE_OUT_OF_MEMORY names bytes asked and free.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_memory_allocate(spyre_context *context, uint32_t card,
                                                              uint32_t stream, int64_t bytes,
                                                              uint64_t *out_address);

// Returns memory; work already enqueued on any stream still sees it.
SPYRE_API void spyre_memory_free(spyre_context *context, uint32_t card, uint64_t address);

// Of what spyre_memory_allocate() gave, in rounded bytes; `reserved` counts pages of 2 MiB that the
// host backs for a card: blocks of any kind (constants and the pool of launches too) and freed
// memory that is kept for reuse. Peaks and totals are since the start or the last reset.
typedef struct {
    int64_t allocated_bytes, peak_bytes, total_allocated_bytes, total_freed_bytes;
    int64_t allocation_count, peak_allocation_count, total_allocations, total_frees;
    int64_t reserved_bytes, peak_reserved_bytes, total_reserved_bytes, total_released_bytes;
    int64_t retries;                    // allocations that waited for memory to come free
    int64_t failures;                   // SPYRE_OUT_OF_MEMORY
    int64_t limit_bytes;                // of the card
    int64_t free_bytes;                 // of the limit, less blocks of any kind in use
    int64_t cache_limit_bytes;          // most freed memory that is kept
} spyre_memory_statistics;
SPYRE_API void spyre_memory_read_statistics(spyre_context *context, uint32_t card,
                                            spyre_memory_statistics *out_statistics);
// The bytes of a card that tensors may have, as SPYRE_MEMORY_LIMIT_GB says; opens none.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_memory_limit(int64_t *out_bytes);

// Lowers (or raises) that limit of one card; what is in use stays. SPYRE_OUT_OF_MEMORY names
// `limited_by`, which is not copied.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_memory_set_limit(spyre_context *context,
                                                               uint32_t card, int64_t bytes,
                                                               const char *limited_by);
SPYRE_API void spyre_memory_reset_peak(spyre_context *context, uint32_t card);
SPYRE_API void spyre_memory_reset_totals(spyre_context *context, uint32_t card);

// Gives the pages of freed memory back to the host.
SPYRE_API void spyre_memory_empty_cache(spyre_context *context, uint32_t card);

// A host tensor and its laid-out buffer on a card. `storage` is the dense host tensor that `layout`
// describes. At most one of the last two is given:
// `view`, when the host tensor is another one than the dense: it has the sizes of `storage` and any
// strides and offset (0 only when it is read). SPYRE_UNSUPPORTED when the layout cannot be walked
// in its order: make the tensor dense then.
// `part`, when elements outside of it need not move: a view of any sizes, strides and offset over
// `storage`. Some elements beside it may move; which is the same in both directions.
// `packed`: the host memory is that of spyre_transfer_pack().
// `out_wrapped`, of copies to the card, or null: true when an int64 did not fit the card's int32,
// which then has its low 32 bits.
typedef struct {
    uint32_t card, stream;
    uint64_t address;
    const spyre_layout *layout;
    const spyre_view *storage;
    spyre_dtype dtype;
    const spyre_view *view, *part;
    bool packed;
    bool *out_wrapped;
} spyre_transfer;

// Host memory for what moves with `part` and no more: *out_elements elements, `out_part` is where
// the part lies in them. SPYRE_UNSUPPORTED when the layout walks along several dims at once.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_transfer_pack(spyre_context *context,
                                                            const spyre_transfer *transfer,
                                                            spyre_view *out_part,
                                                            int64_t *out_elements);

// Moves with format conversion. `host` is where offsets count from and holds the whole storage, or
// all of the view. Returns when the host memory may be reused (to card) or is filled (to host).
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_copy_to_card(spyre_context *context,
                                                           const spyre_transfer *transfer,
                                                           const void *host);
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_copy_to_host(spyre_context *context,
                                                           const spyre_transfer *transfer,
                                                           void *host);

// The smallest and the largest of a storage's integers of 32 bits, and whether one of them is 0,
// once what is queued before has run. They are read where they lie. SPYRE_UNSUPPORTED for other
// formats, and for layouts that have other gaps than behind the last elements of a dim of sticks.
// `view`, `part` and `packed` are not looked at; the storage has at least one element.
typedef struct {
    int64_t least, most;
    bool has_zero;
} spyre_integer_range;
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_read_integer_range(spyre_context *context,
                                                                 const spyre_transfer *storage,
                                                                 spyre_integer_range *out_range);

// Raw bytes from one place of a card to another, which may overlap; source 0 fills with zero.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_copy_raw(spyre_context *context, uint32_t card,
                                                       uint32_t stream, uint64_t target,
                                                       uint64_t source, int64_t bytes);

// The same for many pieces of two storages at once, in order: one transfer. Offsets and sizes in
// bytes; the pieces may go when the call returns.
typedef struct {
    int64_t target, source, bytes;
} spyre_piece;

SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_copy_pieces(spyre_context *context, uint32_t card,
                                                          uint32_t stream, uint64_t target,
                                                          uint64_t source,
                                                          const spyre_piece *pieces,
                                                          uint32_t count);

// Elements from a view of one storage to those of a view of another, both of one format and with
// the same sizes: bits stay as they are, and only these elements are written. `address` is the
// storage's, `dense` the host tensor that its layout describes, `view` in that tensor's elements. A
// source may have strides of 0, a target has each element once; the views share no element.
// SPYRE_UNSUPPORTED, and nothing is done, for views that go along several dims of a layout at once.
typedef struct {
    uint64_t address;
    const spyre_layout *layout;
    const spyre_view *dense, *view;
} spyre_card_view;

SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_copy_views(spyre_context *context, uint32_t card,
                                                         uint32_t stream,
                                                         const spyre_card_view *target,
                                                         const spyre_card_view *source);

// The host's pointer to allocated card memory, for those who move bytes between cards: all of the
// `bytes` are read or, with `writes`, written. They wait first for the work of `stream`, which is
// the one whose order the access belongs to, and keep the memory allocated.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_memory_map(spyre_context *context, uint32_t card,
                                                         uint32_t stream, uint64_t address,
                                                         int64_t bytes, bool writes,
                                                         void **out_pointer);

// A collective or message with other ranks (spyre/comm.h).
typedef struct {
    spyre_comm_kind kind;
    uint32_t ranks;
    bool root;              // of a collective that has one
    int64_t bytes;          // of `count` elements as spyre_comm_kind counts them
    // When the last rank has come (spyre_comm_call.clock_us): ranks that give the same have it end
    // at the same instant of their clocks. Below 0: as soon as the stream is free.
    double begin_us;
} spyre_exchange_info;

// Puts it on the virtual clock of a stream, into profiles and metrics: how long it takes by
// EXCHANGE_BANDWIDTH and EXCHANGE_LATENCY of cost.def. Moves nothing.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_exchange(spyre_context *context, uint32_t card,
                                                       uint32_t stream,
                                                       const spyre_exchange_info *info);

// The microseconds that it takes with the link for itself.
SPYRE_API double spyre_exchange_us(const spyre_exchange_info *info);

// Places on the card's virtual clock, in microseconds: of the work that the stream has begun, of
// the host. 0 for a card or stream that does not exist.
SPYRE_API double spyre_stream_clock_us(spyre_context *context, uint32_t card, uint32_t stream);
SPYRE_API double spyre_host_clock_us(spyre_context *context, uint32_t card);

// Enqueues a card segment. inputs[i] is the address of the storage of the segment's input i,
// buffers[j] that of output buffer j. Asynchronous; an idle stream may run it at once. A fault
// becomes the stream's sticky error, which the next call on the stream returns.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_launch(spyre_context *context, uint32_t card,
                                                     uint32_t stream, spyre_executable *executable,
                                                     uint32_t segment, const uint64_t *inputs,
                                                     const uint64_t *buffers);

// The same of a segment that takes numbers: `scalars`, spyre_segment.scalar_count of them, are
// copied. Each launch has its own, in the order of its stream.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_launch_scalars(
    spyre_context *context, uint32_t card, uint32_t stream, spyre_executable *executable,
    uint32_t segment, const uint64_t *inputs, const uint64_t *buffers, const double *scalars);

// The same by definition: the interpreter of SuperDSC-Bundle executes the segment's steps on the
// bytes that lie at these addresses, element by element and without the back-end's program, to tell
// whose fault a number is. Waits for the stream and for the end.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_interpret(spyre_context *context, uint32_t card,
                                                        uint32_t stream,
                                                        spyre_executable *executable,
                                                        uint32_t segment, const uint64_t *inputs,
                                                        const uint64_t *buffers);

SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_interpret_scalars(
    spyre_context *context, uint32_t card, uint32_t stream, spyre_executable *executable,
    uint32_t segment, const uint64_t *inputs, const uint64_t *buffers, const double *scalars);

// Streams: 0 is the default, 1..32 low and 33..64 high priority, handed out round robin.
SPYRE_API uint32_t spyre_stream_from_pool(spyre_context *context, uint32_t card, bool high);
SPYRE_API bool spyre_stream_query(spyre_context *context, uint32_t card, uint32_t stream);

// Whether the stream has a sticky error: what is submitted to it is refused. Waits for nothing.
SPYRE_API bool spyre_stream_failed(spyre_context *context, uint32_t card, uint32_t stream);

// Waits; returns the sticky error of the stream (of any stream, for the card) and, on the default
// stream, clears it, as each call does that returns it: the device is usable again.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_stream_synchronize(spyre_context *context,
                                                                 uint32_t card, uint32_t stream);
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_card_synchronize(spyre_context *context,
                                                               uint32_t card);

// Drops what is queued on the card, stops a launch that is under way before its next step, and
// waits for that. Waits for dropped work fail with SPYRE_CANCELLED; so does what reads memory that
// dropped work would have written, until it is written as a whole. Streams do not fail by it.
SPYRE_API void spyre_card_cancel(spyre_context *context, uint32_t card);

// What long waits of any thread call every 50 ms, without a lock of the library (null: nothing).
// When it returns true, the wait cancels all work of its card, if it waits for one, and fails with
// SPYRE_CANCELLED. It may call the library.
typedef bool (*spyre_interrupt)(void);
SPYRE_API void spyre_set_interrupt(spyre_interrupt ask);

// A framework's threads. Calls body(context) on `threads` of them at once, the caller's included,
// and returns true when all calls have returned; false, without a call, when it has not so many.
typedef bool (*spyre_thread_team)(void (*body)(void *context), void *context, uint32_t threads);

// From now on the team does what this thread runs on cards and transfers, instead of threads of the
// library's own, which would wait for cores on which a framework's idle threads spin. Launches of
// some milliseconds then run before they return, as small ones always do. Null: no team.
SPYRE_API void spyre_use_thread_team(spyre_thread_team team);

// Where the caller's program is, for the errors of launches that are only known when they run: what
// launches of programs with gathers and scatters call, on the caller's thread and without a lock of
// the library (null: nothing). Writes a text of at most `size` bytes with its end, "" if unknown.
typedef void (*spyre_caller)(char *out_text, size_t size);
SPYRE_API void spyre_set_caller(spyre_caller ask);

// Events: a point in a stream's work. Recording makes the event when *event is null; waiting puts
// off what is submitted to a stream, of any card of the same context, until the last recorded
// point.
typedef struct spyre_event spyre_event;
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_event_record(spyre_context *context, uint32_t card,
                                                           uint32_t stream, spyre_event **event);
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_event_wait(spyre_context *context, uint32_t card,
                                                         uint32_t stream, spyre_event *event);
SPYRE_API bool spyre_event_query(const spyre_event *event);
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_event_synchronize(const spyre_event *event);
// Of a complete event, its place on the virtual clock in microseconds.
SPYRE_API double spyre_event_clock_us(const spyre_event *event);
SPYRE_API double spyre_event_elapsed_ms(const spyre_event *begin, const spyre_event *end);
SPYRE_API void spyre_event_destroy(spyre_event *event);

#ifdef __cplusplus
}
#endif
#endif
