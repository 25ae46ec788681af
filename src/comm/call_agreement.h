// SPDX-License-Identifier: Apache-2.0
//
// Whether ranks call the same: the header that each publishes of an operation before data moves,
// its rules, and how those of all ranks are compared. Headers of other ranks lie in shared memory,
// so they are copied, checked like any input, and only then used.
#ifndef COMM_CALL_AGREEMENT_H
#define COMM_CALL_AGREEMENT_H

#include "spyre/comm.h"

typedef struct {
    uint64_t number;            // of the collective or message, from 1 on
    uint32_t kind;              // spyre_comm_kind
    uint32_t format, reduction; // spyre_format, spyre_reduction
    uint32_t root, tag;
    uint32_t listed;            // 1: an all-to-all whose lists are the caller's
    uint64_t count, signature;
    double clock_us;            // when the rank comes; not compared
    char detail[SPYRE_COMM_DETAIL_BYTES];
} comm_header;

// Of an all-to-all: elements by rank.
typedef struct {
    uint64_t send[SPYRE_COMM_MOST_RANKS], receive[SPYRE_COMM_MOST_RANKS];
} comm_lists;

enum { HEADER_TEXT_BYTES = 256 };

// Fills all but the number, and the lists of an all-to-all, which may have none in the call.
void header_of_call(const spyre_comm_call *call, uint32_t size, comm_header *h, comm_lists *lists);
// When the rank comes to the operation; fails for what is no time.
SPYRE_MUST_CHECK spyre_status header_set_clock(comm_header *h, double us);

// The rules of a call of rank `rank` of `size`: INVALID_ARGUMENT or UNSUPPORTED names argument,
// value and rule.
SPYRE_MUST_CHECK spyre_status header_check_call(const spyre_comm_call *call, uint32_t rank,
                                                uint32_t size);

// The same rules for what rank `rank` has published; INVALID_FORMAT. `lists` may be null.
SPYRE_MUST_CHECK spyre_status header_check(const comm_header *h, const comm_lists *lists,
                                           uint32_t rank, uint32_t size);

// INVALID_ARGUMENT with both sides' arguments unless the ranks call the same: headers[r] of rank r,
// and of an all-to-all lists[r].
SPYRE_MUST_CHECK spyre_status header_compare(const comm_header *headers, const comm_lists *lists,
                                             uint32_t size);

// "all_reduce(float16[4, 64], 256 SEN169_FP16, sum)".
void header_write(const comm_header *h, char out_text[HEADER_TEXT_BYTES]);

#endif
