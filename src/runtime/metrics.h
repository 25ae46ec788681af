// SPDX-License-Identifier: Apache-2.0
//
// Writing the files of include/spyre/metrics.h. Internal to src/runtime.
#ifndef RUNTIME_METRICS_H
#define RUNTIME_METRICS_H

#include "runtime/device.h"

// What goes to the file of a card, whose context knows the cards before it; null when none was
// asked for. Errors name the variable and the file.
SPYRE_MUST_CHECK spyre_status metrics_open(const device *d, metrics_file **out_file);

// Makes the file, at the first call. Before memory is used: a program that opens all cards to use
// one leaves the files of the others to those who use them. A file that cannot be made (another
// user's file has its name, the disk is full) is one warning, and the card works without it.
void metrics_create(metrics_file *file);
void metrics_close(metrics_file *file);     // the file stays, for the last sample; null is allowed

// Around a task. Both take only the file's own lock.
void metrics_begin(metrics_file *file, const task *t);
void metrics_end(metrics_file *file, const task *t);

// An exchange with other cards has moved that many bytes.
void metrics_exchange(metrics_file *file, double sent_bytes, double received_bytes);

// The device's statistics have changed: `bytes` more (or fewer) are allocated at `address`, 0 when
// it is the others. The device's lock is held.
void metrics_memory(const device *d, uint64_t address, int64_t bytes);

#endif
