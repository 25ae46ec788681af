// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of the reader.
#ifndef BUNDLE_READ_H
#define BUNDLE_READ_H

#include "base/json.h"
#include "bundle/files.h"
#include "bundle/mlir.h"

// Where a step's start addresses come from.
typedef struct {
    arena *memory;
    const mlir_program *program;
    const mlir_statement *statement;        // values of negative addresses
    bundle_warnings *warnings;              // or null: not collected
    uint32_t arg_count;                     // grows to one more than the highest launch argument
} step_source;

// Reads one sdsc_<n>.json; messages start with the name of `root`.
SPYRE_MUST_CHECK spyre_status read_step(step_source *source, const json_node *root,
                                        bundle_step *out_step);

// Checks the fields that the reader takes nothing from: those that restate others must agree; for
// an unknown name there is a warning in the source, one for each name.
SPYRE_MUST_CHECK spyre_status read_check_schema(step_source *source, const json_node *sdsc,
                                                const json_node *dsc, const bundle_step *step);

// The value that bundle.mlir gives to a negative number of `node`.
SPYRE_MUST_CHECK spyre_status read_symbol(const step_source *source, const json_node *node,
                                          int64_t id, mlir_value *out_value);

// True for a size of N_ that says nothing (-1, {}) because the dim has a symbol.
bool read_is_open(const json_node *dsc, const json_node *size, const char *dim);

// Sizes that a launch chooses (dimToSymbolMapping_, symbolicDimInfo_), of a step whose slices have
// been read: gives dims their symbol and, as their size, its largest value.
SPYRE_MUST_CHECK spyre_status read_symbolic_sizes(const step_source *source, const json_node *dsc,
                                                  bundle_step *step);

// The tensors of a step whose dims, slices and cores have been read: scheduleTree_, labeledDs_ and
// primaryDsInfo_.
SPYRE_MUST_CHECK spyre_status read_tensors(step_source *source, const json_node *dsc,
                                           bundle_step *step);

// A coreIdToWkSlice_: the slices of `core_count` cores, dims without an entry are slice 0.
SPYRE_MUST_CHECK spyre_status read_core_slices(const json_node *all, const bundle_step *step,
                                               uint32_t core_count,
                                               uint8_t (*out_core_slice)[BUNDLE_MAX_DIMS]);

// A key of a fold's data, "[core, corelet]" or "[core, corelet, time]": two corelets, one time.
SPYRE_MUST_CHECK spyre_status read_fold_key(const json_node *member, uint32_t core_count,
                                            uint32_t *out_core);

// True for a fold whose value is the same for all cores, and stands for core 0.
bool read_is_const(const json_node *fold);

// True when the step has a dim of this name.
bool read_names_dim(const bundle_step *step, const char *name);

// The dim that a string names.
SPYRE_MUST_CHECK spyre_status read_dim(const json_node *name, const bundle_step *step,
                                       uint8_t *out_dim);

// The dim that a member's key names.
SPYRE_MUST_CHECK spyre_status read_key_dim(const json_node *member, const bundle_step *step,
                                           uint8_t *out_dim);

// The format that a member names.
SPYRE_MUST_CHECK spyre_status read_format(const json_node *object, const char *key,
                                          spyre_format *out_format);

// Puts right which dim of its table the index of a gather or scatter moves (read_table.c).
void read_table(bundle_step *step);

// Takes from N_ of conversions what no step reads of a result that N_ leaves (read_trim.c).
void read_trim_conversions(bundle *b);

#endif
