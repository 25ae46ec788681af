// SPDX-License-Identifier: Apache-2.0
//
// Writing the records of include/spyre/profile.h. Internal to src/runtime.
#ifndef RUNTIME_ACTIVITY_H
#define RUNTIME_ACTIVITY_H

#include "isa/isa.h"
#include "runtime/device.h"

typedef struct activity_outline activity_outline;

double activity_now_us(void);
SPYRE_MUST_CHECK spyre_status activity_list_create(activity_list **out_records);
void activity_list_destroy(activity_list *records);
void activity_append(activity_list *records, const spyre_activity *record);

bool activity_is_on(const device *d);

// When a task is submitted: gives it a correlation and begins the record of its submission, if
// a profiler runs. activity_submitted() writes that record; the task may be gone by then.
bool activity_begin(const device *d, task *t, spyre_activity *out_submission);
void activity_submitted(const device *d, spyre_activity *submission);

// When a task with a correlation has run.
void activity_of_task(const device *d, const task *t, double host_begin_us);

// What profiles show of launches of a program (activity_kernels.c), by the counters of its kernels.
// Copied: the program may be gone before its last launch has ended.
SPYRE_MUST_CHECK spyre_status activity_outline_create(const isa_program *program,
                                                      const card_counters *kernels,
                                                      activity_outline **out_outline);
void activity_outline_destroy(activity_outline *outline);   // null is allowed

// The records of the kernels of `launch`.
void activity_kernels(const activity_outline *outline, const spyre_activity *launch,
                      activity_list *records);

#endif
