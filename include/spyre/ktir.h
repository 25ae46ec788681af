// SPDX-License-Identifier: Apache-2.0
//
// KTIR kernels (torch-spyre RFC 0682): read a module, look at its functions, run one of them: by
// definition in an interpreter, or as a program of the card. A module is read only once it is open
// and may be used by many threads.
#ifndef SPYRE_KTIR_H
#define SPYRE_KTIR_H

#include "spyre/counters.h"
#include "spyre/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_KTIR_MOST_RANK = 8, SPYRE_KTIR_MOST_GRID = 4 };

typedef struct spyre_ktir spyre_ktir;

// Parses and verifies the null-terminated `source`; `file` names it in errors, whose messages begin
// with file:line:column.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_parse(const char *source, const char *file,
                                                         spyre_ktir **out_kernel);
SPYRE_API void spyre_ktir_destroy(spyre_ktir *kernel);

// The module as text, which parses to the same; freed with spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_print(const spyre_ktir *kernel,
                                                         char **out_text);

SPYRE_API uint32_t spyre_ktir_function_count(const spyre_ktir *kernel);
SPYRE_API const char *spyre_ktir_function_name(const spyre_ktir *kernel, uint32_t function);

// The grid that the function states; rank 0 when it states none (one compute tile).
SPYRE_API uint32_t spyre_ktir_function_grid(const spyre_ktir *kernel, uint32_t function,
                                            int64_t out_grid[SPYRE_KTIR_MOST_GRID]);

// What a function is called with: its arguments in order, numbers or addresses of memory, then the
// views at constant addresses, named as in the text without '%'. The shape of memory is that of the
// first view of it, unknown sizes -1.
typedef struct {
    const char *name;
    bool is_memory, is_view;
    bool is_written;                            // memory that the function stores into; a run
                                                // leaves other memory as it is, to the bit
    spyre_dtype dtype;
    uint32_t rank;
    int64_t size[SPYRE_KTIR_MOST_RANK];
} spyre_ktir_parameter;

SPYRE_API uint32_t spyre_ktir_parameter_count(const spyre_ktir *kernel, uint32_t function);
SPYRE_API void spyre_ktir_describe_parameter(const spyre_ktir *kernel, uint32_t function,
                                             uint32_t index, spyre_ktir_parameter *out_parameter);

// One of them: the host memory of an array of the parameter's dtype, which is read before and
// written after the run (null for a view: zeros), or a number, in the member of its kind.
typedef struct {
    void *bytes;
    int64_t byte_count;
    int64_t integer;
    double real;
} spyre_ktir_value;

typedef struct {
    uint32_t function;
    uint32_t grid_rank;                         // 0: what the function states
    int64_t grid[SPYRE_KTIR_MOST_GRID];
    uint64_t most_steps;                        // operations of a compute tile; 0: 10^9
} spyre_ktir_options;

// Runs the function in the interpreter. A kernel that breaks a rule is SPYRE_DEVICE_FAULT and names
// file, line, column, operation and compute tile; memory is left as it was. values[parameters].
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_interpret(const spyre_ktir *kernel,
                                                             const spyre_ktir_options *options,
                                                             const spyre_ktir_value *values);

// A function as a program of the card, for these numbers; of arrays the byte counts are read, 0
// for unknown ones. Compute tiles are cores, 32 at a time. SPYRE_UNSUPPORTED names the operation
// that the card has no instruction, or no room, for. Belongs to one thread; the kernel may go
// before it.
typedef struct spyre_ktir_program spyre_ktir_program;
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_lower(const spyre_ktir *kernel,
                                                         const spyre_ktir_options *options,
                                                         const spyre_ktir_value *values,
                                                         spyre_ktir_program **out_program);
SPYRE_API void spyre_ktir_program_destroy(spyre_ktir_program *program);

// The program as text (docs/isa.md); freed with spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_program_listing(
    const spyre_ktir_program *program, char **out_text);

// How the emulated card will execute it: its plan after every pass (docs/card.md), for
// SPYRE_THREADS host threads; freed with spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_program_plan(const spyre_ktir_program *program,
                                                                char **out_text);

// Counters of its kernels, *out_count of them, and their sum behind. Owned by the program.
SPYRE_API const spyre_kernel_counters *spyre_ktir_program_counters(
    const spyre_ktir_program *program, uint32_t *out_count);

// Where the time goes: kernels, counters, roofline, as text; freed with spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_why(const spyre_ktir_program *program,
                                                       char **out_text);

// Enqueues one run on card memory. addresses[arguments]: of every parameter that is memory of all
// compute tiles, in order; arrays lie there densely, in the card's formats. A fault becomes the
// stream's sticky error.
SPYRE_API uint32_t spyre_ktir_program_argument_count(const spyre_ktir_program *program);
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_launch(spyre_context *context, uint32_t card,
                                                          uint32_t stream,
                                                          const spyre_ktir_program *program,
                                                          const uint64_t *addresses);

// Runs once on host arrays and waits: takes them to the card, launches, brings them back.
// values[parameters].
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_ktir_program_run(spyre_context *context,
                                                               uint32_t card,
                                                               const spyre_ktir_program *program,
                                                               const spyre_ktir_value *values);

#ifdef __cplusplus
}
#endif
#endif
