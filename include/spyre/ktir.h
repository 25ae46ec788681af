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

#ifdef __cplusplus
}
#endif
#endif
