// SPDX-License-Identifier: Apache-2.0
#ifndef COMM_REQUEST_H
#define COMM_REQUEST_H

#include "comm/comm.h"

// Ends what is under way, and the threads.
void request_end_all(spyre_comm *c);

#endif
