// SPDX-License-Identifier: Apache-2.0
//
// Running a SpyreCode directory on an emulated card without the program that compiled it, on raw
// bytes of the card: what a debugger, a test of another front-end or `spyre run` needs.
#ifndef SPYRE_PROGRAM_H
#define SPYRE_PROGRAM_H

#include <stdint.h>

#include "spyre/counters.h"
#include "spyre/layout.h"
#include "spyre/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// A checked SpyreCode directory. Read only once opened, but for spyre_program_sized(). Code of
// another back-end opens, too, for its steps and sizes; spyre_program_sized() and
// spyre_program_run() refuse it with SPYRE_UNSUPPORTED and what it lacks, because its programs have
// no public meaning.
typedef struct spyre_program spyre_program;

SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_program_open(const char *directory,
                                                           spyre_program **out_program);
SPYRE_API void spyre_program_close(spyre_program *program);

// What records of launches call the program (spyre/profile.h), "program" otherwise. Copied, cut
// where a record would be. Before its first launch.
SPYRE_API void spyre_program_set_name(spyre_program *program, const char *name);

// The program of launches whose arguments have these sizes: bytes on the card, and layouts there
// where they are known (null otherwise), one an argument. Code whose sizes launches choose is
// corrected here for those of this one, once for each; a bundle that gathers rows of a table of
// unknown size (torch-spyre's do), or whose conversions touch padding that these arguments lack,
// is compiled. Both belong to `program`; any other program is itself. Not from several threads at
// once. Sizes that the code does not allow are SPYRE_INVALID_ARGUMENT with argument and rule,
// other errors those of compiling.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_program_sized(spyre_program *program,
                                                            const int64_t *argument_bytes,
                                                            const spyre_layout *const *layouts,
                                                            spyre_program **out_program);

// Launch arguments: the tensors that a launch binds, inputs and outputs alike.
SPYRE_API uint32_t spyre_program_argument_count(const spyre_program *program);

// Card bytes of a launch argument; 0 when the code does not say (bundles of other front-ends).
SPYRE_API int64_t spyre_program_argument_bytes(const spyre_program *program, uint32_t argument);

// Bytes from where a launch takes the argument that the program may touch; 0 when the code does not
// say. They may be more than those of the elements that it computes, and fewer than the tensor's.
SPYRE_API int64_t spyre_program_argument_reach(const spyre_program *program, uint32_t argument);

// Bytes that the program stores into a launch argument, those that it stores twice counted twice; 0
// for one that it only reads.
SPYRE_API int64_t spyre_program_argument_stored(const spyre_program *program, uint32_t argument);

// Whether a tensor that lies on the card as `layout` says fits launch argument `argument`: its
// format, its size, and the steps in which the program walks along it. SPYRE_INVALID_ARGUMENT names
// argument, value and rule. A tensor of bytes (SENINT8, SENUINT32) may be scratch memory of any
// format, and formats of 32 bits stand for each other (torch-spyre calls int32 that is only moved
// IEEE_FP32). What the code does not say is not checked: two shapes that lie in the same places
// pass.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_program_check_argument(const spyre_program *program,
                                                                     uint32_t argument,
                                                                     const spyre_layout *layout);

// How many launches take tensors that lie on the card as `layouts` say, one an argument, through
// the program: 1 when all have the size that it was compiled for. Some may be n times as large,
// along one dim of the device layout each. If n launches compute the whole, launch r of
// *out_program with these arguments r * out_steps[argument] bytes further on, *out_rounds is n; the
// steps of the others are 0. *out_program is `program`, or belongs to it: its accesses are as far
// apart as the larger tensors need. These are the conditions of "tiled execution" in torch-spyre's
// specification of program execution: sizes are multiples, and strides stay. Errors are those of
// spyre_program_check_argument(), and SPYRE_INVALID_ARGUMENT with argument, sizes and rule.
// `skipped_bytes`, one an argument: how far inside of its tensor the launch takes a part of it, of
// the size that the program was compiled for, or -1 where it takes all; null stands for these.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_program_rounds(spyre_program *program,
                                                             const spyre_layout *const *layouts,
                                                             const int64_t *skipped_bytes,
                                                             uint32_t *out_rounds,
                                                             int64_t *out_steps,
                                                             spyre_program **out_program);

// The steps of a launch, in order, and the bytes of card memory that the program's code asks for.
typedef enum {
    SPYRE_STEP_HOST_COMPUTE,    // the host computes what a transfer takes to the card
    SPYRE_STEP_TO_CARD,
    SPYRE_STEP_TO_HOST,
    SPYRE_STEP_COMPUTE,         // the card runs the program
} spyre_program_step;

SPYRE_API uint32_t spyre_program_step_count(const spyre_program *program);
// `index` is below the count.
SPYRE_API spyre_program_step spyre_program_step_at(const spyre_program *program, uint32_t index);
// What the code itself calls a step of computation, or null. Owned by the program.
SPYRE_API const char *spyre_program_step_name(const spyre_program *program, uint32_t index);
SPYRE_API int64_t spyre_program_allocation_bytes(const spyre_program *program);

// Buffers of pinned host memory that the program keeps for its steps: one, that of its host
// computation, when launches choose sizes, else none.
SPYRE_API uint32_t spyre_program_pinned_buffers(const spyre_program *program);

// Counters of the kernels of one run, *out_count of them. Owned by the program.
SPYRE_API const spyre_kernel_counters *spyre_program_counters(const spyre_program *program,
                                                              uint32_t *out_count);

// The memory of a launch argument as the card lays it out. `bytes` is read before and written after
// the run; null stands for zeros that are not read afterwards. Runs of zeros on both sides are
// neither sent nor written, so lazily mapped memory stays so. The size is that of the argument when
// the code knows it, and at most a segment of the card (16 GiB).
typedef struct {
    void *bytes;
    int64_t byte_count;         // >= 1
} spyre_program_buffer;

// Runs once on stream 0 of a card and waits. There is a buffer for every launch argument. A fault
// of the program is SPYRE_DEVICE_FAULT and leaves the buffers as they were.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_program_run(spyre_context *context, uint32_t card,
                                                          spyre_program *program,
                                                          const spyre_program_buffer *buffers);

// Enqueues one run on a stream, in the order of its work. `addresses` are card addresses of the
// launch arguments, as spyre_memory_allocate() gives them; two may be the same. A fault becomes the
// stream's error. `program` must live until the stream is synchronised.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_program_launch(spyre_context *context, uint32_t card,
                                                             uint32_t stream,
                                                             const spyre_program *program,
                                                             const uint64_t *addresses);

#ifdef __cplusplus
}
#endif
#endif
