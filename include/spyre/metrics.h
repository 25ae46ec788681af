// SPDX-License-Identifier: Apache-2.0
//
// What a card is doing, for monitors of other processes: a file a card in use, which the runtime
// keeps up to date when SENLIB_DEVEL_CONFIG_FILE names a configuration (docs/profiling.md).
#ifndef SPYRE_METRICS_H
#define SPYRE_METRICS_H

#include <stdint.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where the files lie unless the configuration says otherwise; "%BUSID" stands for the card's.
#define SPYRE_METRICS_PATH "/tmp/metrics.%BUSID"

enum { SPYRE_METRICS_SEGMENTS = 7 };

// Counts since the card was opened. Modelled time is the card's own (docs/runtime.md), busy time
// that of the host, on which the emulator runs.
typedef struct {
    int64_t process;
    int64_t opened_ns;                  // host: when that process opened the card, CLOCK_MONOTONIC
    uint32_t card;
    char bus_id[20];                    // "0000:13:00.0"
    double clock_us;                    // place on the virtual clock
    double compute_us, pt_busy_us;      // modelled: of launches; of those, matrix units busy
    int64_t busy_ns;                    // host: of launches that have ended
    int64_t launch_begin_ns;            // host: of the one under way, by CLOCK_MONOTONIC; 0: none
    int64_t memory_read_bytes, memory_written_bytes;
    int64_t received_bytes, sent_bytes; // from and to the host
    int64_t launches, receipts, sendings;
    int64_t rdma_received_bytes, rdma_sent_bytes;       // from and to other cards
    int64_t rdma_receipts, rdma_sendings;
    int64_t reserved_bytes, allocated_bytes, peak_bytes;
    int64_t segment_bytes[SPYRE_METRICS_SEGMENTS];      // allocated
} spyre_metrics;

// Reads a file whole, between two updates. SPYRE_NOT_FOUND, SPYRE_IO, SPYRE_INVALID_FORMAT (not
// such a file, of another version, or damaged).
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_metrics_read(const char *path,
                                                           spyre_metrics *out_metrics);

#ifdef __cplusplus
}
#endif
#endif
