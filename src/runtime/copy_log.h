// SPDX-License-Identifier: Apache-2.0
//
// TORCH_SPYRE_DEBUG=1: a line on stderr for every transfer between host and card, with shape,
// dtype, layout, the copies it is made of as JSON, and what became of it.
#ifndef RUNTIME_COPY_LOG_H
#define RUNTIME_COPY_LOG_H

#include "spyre/runtime.h"
#include "tensor/dci.h"

// Read once a process.
bool copy_log_enabled(void);

// `direction`: "to card" or "to host"; `status` stays the caller's.
void copy_log_write(const char *direction, const spyre_transfer *transfer, const dci *descriptor,
                    spyre_status status);

#endif
