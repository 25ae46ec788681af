// SPDX-License-Identifier: Apache-2.0
//
// A program of a SpyreCode directory, for those of its files that make and those that run it.
// Internal to src/compile.
#ifndef COMPILE_PROGRAM_STATE_H
#define COMPILE_PROGRAM_STATE_H

#include "bundle/model.h"
#include "runtime/spyrecode_job.h"
#include "spyre/profile.h"
#include "spyre/program.h"

struct spyre_program {
    arena *memory;
    const spyrecode *code;              // null: the program waits for sizes
    const char *bundle;                 // its directory where sizes may need it, or null
    bool pool_first;
    const bundle *waiting;              // what is in it, where the program waits
    const char *foreign;                // null, or why `code` is listed and not launched
    const isa_program *image;           // of `code`
    const spyrecode_argument *arguments;    // of `image`
    spyre_program *compiled;            // for sizes of the last launches, the latest first
    spyre_program *next;                // among them
    int64_t *sized_bytes;               // one among them: the arguments it was made for
    spyre_program *tiled;               // for larger arguments of the last launches, likewise
    uint32_t rounds;                    // one among them: how many times as large, and from
    int64_t *steps;                     // one launch to the next by argument
    job *job;                           // null: launches choose sizes
    char name[SPYRE_PROFILE_NAME];      // of the job
    uint8_t *host_buffer;               // of them: what ComputeOnHost writes, pinned; or null
    uint32_t argument_count;
    int64_t *argument_bytes, *stored_bytes;
    const spyrecode_operand **operands; // of launch arguments, or null
    const spyre_kernel_counters *counters;
    uint32_t kernel_count;
};

// An empty program, or null when memory is short.
spyre_program *program_new(void);

// Puts the program in front of a list of those of one program, which keeps the last
// PROGRAM_MOST_KEPT that launches took; others are made anew when a launch wants them.
enum { PROGRAM_MOST_KEPT = 32 };
void program_keep(spyre_program **list, spyre_program *latest);

// The correction that the code begins with, or null.
const spyrecode_command *program_host_of(const spyrecode *code);

// The sizes that launches choose by it, or null.
const spyrecode_sizes *program_sizes_of(const spyre_program *program);

// Makes the program that of `image`, which follows from `code`: a job.
SPYRE_MUST_CHECK spyre_status program_take_image(spyre_program *program, const spyrecode *code,
                                                 const isa_program *image,
                                                 const spyrecode_argument *arguments);

// Makes the program that of `code`: a job, unless launches choose sizes.
SPYRE_MUST_CHECK spyre_status program_take_code(spyre_program *program, const spyrecode *code);

// The bundle in a directory of SpyreCode, if there is one.
SPYRE_MUST_CHECK spyre_status program_find_bundle(spyre_program *program, const char *directory);

// Makes the program one that waits for sizes of the bundle that was found.
SPYRE_MUST_CHECK spyre_status program_open_waiting(spyre_program *program);

// Whether a tensor has the dims that the program walks along.
SPYRE_MUST_CHECK spyre_status program_check_walks(const spyrecode_operand *operand,
                                                  uint32_t argument, const spyre_layout *layout);

#endif
