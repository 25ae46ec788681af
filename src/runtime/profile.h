// SPDX-License-Identifier: Apache-2.0
//
// Writing the records of include/spyre/profile.h. Internal to src/runtime.
#ifndef RUNTIME_PROFILE_H
#define RUNTIME_PROFILE_H

#include "isa/isa.h"
#include "runtime/device.h"

typedef struct profile_outline profile_outline;

double profile_now_us(void);
SPYRE_MUST_CHECK spyre_status profile_list_create(profile_list **out_records);
void profile_list_destroy(profile_list *records);
void profile_append(profile_list *records, const spyre_activity *record);

bool profile_is_on(const device *d);

// When a task is submitted: gives it a correlation and begins the record of its submission, if
// a profiler runs. profile_submitted() writes that record; the task may be gone by then.
bool profile_begin(const device *d, task *t, spyre_activity *out_submission);
void profile_submitted(const device *d, spyre_activity *submission);

// When a task with a correlation has run.
void profile_of_task(const device *d, const task *t, double host_begin_us);

// What profiles show of launches of a program (profile_kernel_rows.c), by the counters of its
// kernels. Copied: the program may be gone before its last launch has ended.
SPYRE_MUST_CHECK spyre_status profile_outline_create(const isa_program *program,
                                                      const card_counters *kernels,
                                                      profile_outline **out_outline);
void profile_outline_destroy(profile_outline *outline);   // null is allowed

// The records of the kernels of `launch`.
void profile_kernel_rows(const profile_outline *outline, const spyre_activity *launch,
                         profile_list *records);

#endif
