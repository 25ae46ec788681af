// SPDX-License-Identifier: Apache-2.0
//
// The card's counters in the form of the public interface. Internal to src/compile.
#ifndef COMPILE_KERNEL_COUNTERS_H
#define COMPILE_KERNEL_COUNTERS_H

#include "isa/isa.h"
#include "runtime/job.h"
#include "spyre/counters.h"

// One entry a kernel of the program and their sum behind, in `memory`. Names are the program's own
// strings.
SPYRE_MUST_CHECK spyre_status counters_describe(arena *memory, const isa_program *program,
                                                const card_counters *kernels,
                                                const spyre_kernel_counters **out_kernels);

#endif
