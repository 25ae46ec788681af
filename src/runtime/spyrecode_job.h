// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode on the emulated card.
#ifndef RUNTIME_SPYRECODE_JOB_H
#define RUNTIME_SPYRECODE_JOB_H

#include "runtime/job.h"
#include "spyrecode/model.h"

// A job of what spyrecode_program() gave: launch argument k becomes input k, whose count goes to
// *out_inputs. What the code keeps in segment 7 is placed by the card's allocator instead, so that
// any number of jobs fit. `program`, its code and `memory` must outlive the job.
SPYRE_MUST_CHECK spyre_status code_create_job(arena *memory, const isa_program *program,
                                              const spyrecode_argument *arguments,
                                              const char *name, job **out_job,
                                              uint32_t *out_inputs);

#endif
