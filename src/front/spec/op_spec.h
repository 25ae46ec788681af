// SPDX-License-Identifier: Apache-2.0
//
// OpSpecs: the final loop IR as data that a person reads and may change, in the fields of
// torch-spyre's torch_spyre/_inductor/op_spec.py (docs/op-spec.md). One JSON array:
//     [{"op": "add", "is_reduction": false, "iteration_space": {"c0": [64, 4], "c1": [128, 1]},
//       "args": [{"is_input": true, "arg_index": 0, "device_dtype": "SEN169_FP16",
//                 "device_size": [2, 64, 64], "device_coordinates": ["floor(c1/64)", "c0",
//                 "Mod(c1, 64)"], "allocation": {"hbm": 0}, "stride_map": [64, 128, 1],
//                 "per_tile_fixed": false, "name": "b0"}, ..], "op_info": {}, "tiled_symbols": []},
//      {"count": 8, "body": [..], "tiled_symbols": [..]}]
#ifndef FRONT_OP_SPEC_H
#define FRONT_OP_SPEC_H

#include "base/json.h"
#include "front/front.h"

// Number of the launch argument that a buffer is part of: inputs, output buffers, then a constant
// each; -1 for intermediates.
int32_t op_spec_argument(const loop_graph *loops, uint32_t buffer);

// A number, or "inf", "-inf", "nan", for which JSON has none.
json_t *op_spec_real(double value);

// The array, a new reference in *out.
SPYRE_MUST_CHECK spyre_status op_spec_print(const loop_graph *loops, json_t **out);

// What launch argument k of a list is.
typedef struct {
    bool written;
    uint32_t buffer; // of the loop graph; LOOP_UNUSED when no op names the argument
    uint32_t place;  // number among the inputs, or among the output buffers
    spyre_layout layout;
} op_spec_argument_use;

typedef struct {
    loop_graph *loops; // as behind the last pass: front_emit() takes it
    uint32_t argument_count;
    op_spec_argument_use *arguments;
} op_spec_list;

// Reads an array in the form above into `memory`. SPYRE_INVALID_FORMAT names spec, argument and
// rule; the invariants of the loop IR hold afterwards.
SPYRE_MUST_CHECK spyre_status op_spec_read(const json_node *array, const spyre_settings *settings,
                                           arena *memory, op_spec_list *out);

// A coordinate at one point: whole numbers, symbols, + - * /, floor(x), Mod(x, n),
// IndirectAccess(b), which stands for the symbol "row". SPYRE_INVALID_FORMAT says at which
// character the text ends to make sense, or that the value is no whole number.
SPYRE_MUST_CHECK spyre_status op_spec_evaluate(const char *coordinate, const char *const *names,
                                               const int64_t *values, uint32_t count,
                                               int64_t *out_value);

#endif
