// SPDX-License-Identifier: Apache-2.0
//
// Running values (tensor/running_value.h): the elements along the scanned dims in the order of N_;
// masked ones neither count nor get a result.
#include "bundle/execution.h"
#include "tensor/running_value.h"

typedef struct {
    uint8_t kept[BUNDLE_MAX_DIMS], scanned[BUNDLE_MAX_DIMS];
    uint32_t kept_count, scanned_count;
} scan_dims;

static scan_dims dims_of(const execution *x)
{
    scan_dims dims = {.kept_count = 0};
    for (uint32_t i = 0; i < x->kept_count; i++) {
        uint8_t d = x->kept[i];
        if (x->step->scanned[d]) dims.scanned[dims.scanned_count++] = d;
        else dims.kept[dims.kept_count++] = d;
    }
    return dims;
}

static spyre_status scan_all(const execution *x, const scan_dims *dims, uint32_t core,
                             int64_t *index)
{
    const bundle_step *step = x->step;
    spyre_format from = step->tensors[step->inputs[0]].format;
    int64_t state;
    int32_t position = 0;
    element_store(&state, SPYRE_FORMAT_IEEE_INT64, (double)running_start(step->op, from));
    do {
        uint8_t *element;
        if (execution_masked(x, core, index)) continue;
        TRY(execution_place(x, step->inputs[0], core, index, 0, &element));
        state = running_next(step->op, state, element, from, position++);
        TRY(execution_place(x, step->output, core, index, 0, &element));
        running_store(step->op, state, element, step->tensors[step->output].format);
    } while (odometer_next_of(dims->scanned, dims->scanned_count, x->local, index));
    return NULL;
}

spyre_status interpret_scan(execution *x)
{
    scan_dims dims = dims_of(x);
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        do TRY(scan_all(x, &dims, core, index));
        while (odometer_next_of(dims.kept, dims.kept_count, x->local, index));
    }
    return NULL;
}
