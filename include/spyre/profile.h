// SPDX-License-Identifier: Apache-2.0
//
// What a context's cards do, as records for profilers (docs/profiling.md). Without a
// profiler a launch costs one flag check. All functions are thread safe.
#ifndef SPYRE_PROFILE_H
#define SPYRE_PROFILE_H

#include "spyre/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SPYRE_ACTIVITY_LAUNCH,          // a program; records of its kernels follow
    SPYRE_ACTIVITY_KERNEL,          // a kernel, or an outermost loop of kernels with all its runs
    SPYRE_ACTIVITY_COPY_TO_CARD,
    SPYRE_ACTIVITY_COPY_TO_HOST,
    SPYRE_ACTIVITY_COPY_ON_CARD,
    SPYRE_ACTIVITY_FILL,
    SPYRE_ACTIVITY_EXCHANGE,        // with other ranks: spyre_exchange()
} spyre_activity_kind;

enum { SPYRE_PROFILE_NAME = 160, SPYRE_PROFILE_SOURCE = 64, SPYRE_PROFILE_MOST = 1 << 20 };

// Times are microseconds: of the host by CLOCK_MONOTONIC, of the card by its virtual clock
// (docs/runtime.md). A submission is the host's side of a launch or transfer: the call on the
// submitting thread; it has no time on the card.
typedef struct {
    spyre_activity_kind kind;
    bool submission;
    uint32_t card, stream;
    int32_t thread;                 // of the submitter, as gettid() has it
    uint64_t correlation;           // one for a submission, what it ran, and the kernels of that
    uint64_t tag;                   // of the submitting thread: spyre_profile_tag()
    double submitted_us;            // the host handed it over
    double host_begin_us, host_end_us;          // the emulator, or the submitting call
    double card_begin_us, card_end_us;
    double placed_begin_us, placed_end_us;      // those by the host's clock: spyre_profile_place()
    int64_t bytes;                  // moved; of kernels, read and written in the card's memory
    int64_t runs;                   // of a kernel in the launch, else 1
    double pt_busy_us;              // of kernels: with the matrix units busy
    char name[SPYRE_PROFILE_NAME];  // "sdsc_fused_mul_add_0_1a2b3c4d"; of kernels then "#1_add"
    char source[SPYRE_PROFILE_SOURCE];          // of kernels: the user's source line, or ""
} spyre_activity;

// Records what is submitted from now on, or stops. What was recorded stays until it is taken.
SPYRE_API void spyre_profile_enable(spyre_context *context, bool enabled);

// Takes up to `capacity` records in the order in which they ended on the host; the number taken.
// Of more than SPYRE_PROFILE_MOST at a time the latest are lost.
SPYRE_API uint32_t spyre_profile_take(spyre_context *context, spyre_activity *out_records,
                                      uint32_t capacity);
SPYRE_API uint64_t spyre_profile_lost(spyre_context *context);      // since the last call

// What the calling thread submits from now on carries `tag`.
SPYRE_API void spyre_profile_tag(uint64_t tag);

// Sets the placed times: those on the card moved onto the host's clock, where no work begins before
// the host handed it over and nothing is shorter than a nanosecond. Other durations stay, and so
// does every order that the virtual clock has on a card; the gaps are the host's. A submission is
// placed where it was. For all records of a profile together, in any order. SPYRE_OUT_OF_MEMORY
// changes nothing.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_profile_place(spyre_activity *records,
                                                            uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
