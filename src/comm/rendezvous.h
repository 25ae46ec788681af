// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a communicator get their shared memory. Rank 0 makes it and listens on a socket
// whose name is in the abstract namespace, which has no file; the name goes into the store. The
// others connect and receive the file. Both sides check that the other belongs to the same user.
#ifndef COMM_RENDEZVOUS_H
#define COMM_RENDEZVOUS_H

#include "comm/segment.h"

enum { MEETING_NAME_BYTES = 40, MEETING_HOST_BYTES = 80, MEETING_TEXT_BYTES = 256 };

// What rank 0 puts into the store.
typedef struct {
    uint32_t size;
    char socket[MEETING_NAME_BYTES], host[MEETING_HOST_BYTES];
} meeting;

// As text, and back: INVALID_FORMAT for anything else.
void meeting_write(const meeting *m, char out_text[MEETING_TEXT_BYTES]);
SPYRE_MUST_CHECK spyre_status meeting_read(const char *value, size_t length, meeting *out);

// The shared memory of this rank; `options` have been checked. IO: a rank did not come in time
// (named) or is on another machine; INVALID_ARGUMENT: ranks disagree.
SPYRE_MUST_CHECK spyre_status rendezvous(const spyre_comm_options *options,
                                         const spyre_comm_store *store, segment *out_segment);

#endif
