// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of the writer.
#ifndef BUNDLE_WRITE_H
#define BUNDLE_WRITE_H

#include <jansson.h>

#include "base/text.h"
#include "bundle/model.h"

typedef enum {
    BUNDLE_FORM_ABSOLUTE,       // address = segment of the launch argument + offset
    BUNDLE_FORM_SYMBOLIC,       // address = symbol, its value is computed in bundle.mlir
} bundle_form;

enum { BUNDLE_MOST_ABSOLUTE_ARGS = 7 };

// What the files say about launch arguments: the pool comes first, the others follow in order.
typedef struct {
    const bundle *b;
    bundle_form form;
    int32_t pool;               // launch argument of the pool, or -1
    VEC(int64_t) first_symbol;  // by statement: ids count on from here (1-based, written negative)
} bundle_writer;

// bundle_write with a form of the caller's choice.
SPYRE_MUST_CHECK spyre_status bundle_write_form(const bundle *b, const char *directory,
                                                bundle_form form);

// The launch argument's place when the pool comes first.
int32_t writer_segment(const bundle_writer *w, int32_t arg);

// The distinct address of every tensor and core of a step, in the order of first use: its symbols
// in the symbolic form. ids[tensor][core] is 0-based within the step, -1 in LX; returns how many.
uint32_t writer_number_addresses(const bundle_step *step,
                                 int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES]);

// Symbols of a step: those of its addresses, if they have some, then one for every dim whose size a
// launch chooses, in the order of dims. *out_sizes is the number of the first of these.
uint32_t writer_count_symbols(const bundle_writer *w, const bundle_step *step,
                              uint32_t *out_sizes);

// The JSON of one step under the name "<number>_<opfunc>"; a new reference, or null when memory is
// short. `first_symbol` is the id of the step's first symbol.
json_t *writer_step_json(const bundle_writer *w, const bundle_step *step, uint32_t number,
                         int64_t first_symbol);

// The coordinates_ of one tensor, which restate sizes and slices as folds.
json_t *writer_coordinates(const bundle_step *step, const bundle_tensor *tensor);

// Appends the text of bundle.mlir.
SPYRE_MUST_CHECK spyre_status writer_mlir(const bundle_writer *w, text *out);

#endif
