// SPDX-License-Identifier: Apache-2.0
//
// coordinates_ of an allocate node: for every dim a chain of folds core, corelet, row, (stick,)
// element, each with a factor (how many) and alpha (how far one moves). They restate N_, the slices
// and the scale, and no reader here uses them; other tools of the format may. coreIdToWkSlice_ says
// who holds the tensors of a shuffle.
#include <stdio.h>

#include "base/integer.h"
#include "bundle/step_facts.h"
#include "bundle/write.h"

enum { MOST_FOLDS = 5 };

typedef struct {
    int64_t alpha[MOST_FOLDS], factor[MOST_FOLDS];
    uint32_t count;
} fold_chain;

static fold_chain folds_of(const bundle_step *step, const bundle_tensor *tensor, uint32_t d)
{
    int64_t local = bundle_held_size(step, tensor, d), lanes = bundle_stick_span(tensor, d);
    bool stick = d == tensor->stick_dim || lanes > 1, absent = tensor->scale[d] < 0;
    if (stick && absent) return (fold_chain){{lanes, 0, 0, lanes, 0}, {1, 1, 1, 1, lanes}, 5};
    if (absent) return (fold_chain){{1, 0, 0, 1}, {1, 1, 1, 1}, 4};
    int64_t cores = tensor->owners ? tensor->owners->slices[d] : step->cores->slices[d];
    int64_t sticks = divide_up(local, lanes);
    if (stick) return (fold_chain){{local, 0, 0, lanes, 1}, {cores, 1, 1, sticks, lanes}, 5};
    return (fold_chain){{local, 0, 0, 1}, {cores, 1, 1, local}, 4};
}

static json_t *coordinate(const fold_chain *chain)
{
    static const char *const labels[2][MOST_FOLDS] = {
        {"core_fold", "corelet_fold", "row_fold", "elem_arr_0", NULL},
        {"core_fold", "corelet_fold", "row_fold", "elem_arr_1", "elem_arr_0"},
    };
    bool stick = chain->count == MOST_FOLDS;
    json_t *functions = json_array(), *attributes = json_array();
    for (uint32_t i = 0; i < chain->count; i++) {
        json_array_append_new(functions,
                              json_pack("{s:{s:I, s:i}}", "Affine", "alpha_",
                                        (json_int_t)chain->alpha[i], "beta_", 0));
        json_array_append_new(attributes,
                              json_pack("{s:I, s:s}", "factor_", (json_int_t)chain->factor[i],
                                        "label_", labels[stick][i]));
    }
    bool complete = json_array_size(functions) == chain->count &&
                    json_array_size(attributes) == chain->count;
    json_t *folds =
        json_pack("{s:o, s:o}", "dim_prop_func", functions, "dim_prop_attr", attributes);
    if (complete) {
        return json_pack("{s:i, s:i, s:i, s:s, s:o}", "spatial", 3, "temporal", 0, "elemArr",
                         stick ? 2 : 1, "padding", "nopad", "folds", folds);
    }
    json_decref(folds);
    return NULL;
}

// The owners of a shuffle's tensors; those of others are the step's and not repeated.
static json_t *owners_of(const bundle_step *step, const bundle_tensor *tensor)
{
    json_t *all = json_object();
    bool complete = true;
    const bundle_division *o = tensor->owners;
    uint32_t count = step->op != OPFUNC_SHUFFLE ? 0 : o ? o->core_count : step->cores->core_count;
    for (uint32_t core = 0; core < count; core++) {
        const uint8_t *slices = o ? o->core_slice[core] : step->cores->core_slice[core];
        char key[16];
        json_t *dims = json_object();
        for (uint32_t d = 0; d < step->dim_count; d++)
            complete &= json_object_set_new(dims, step->dim_name[d], json_integer(slices[d])) == 0;
        snprintf(key, sizeof key, "%u", core);
        complete &= json_object_set_new(all, key, dims) == 0;
    }
    if (complete) return all;
    json_decref(all);
    return NULL;
}

json_t *writer_coordinates(const bundle_step *step, const bundle_tensor *tensor)
{
    json_t *dims = json_object();
    bool complete = true;
    for (uint32_t i = 0; i < tensor->label_order_count; i++) {
        uint32_t d = tensor->label_order[i];
        fold_chain chain = folds_of(step, tensor, d);
        complete &= json_object_set_new(dims, step->dim_name[d], coordinate(&chain)) == 0;
    }
    json_t *owners = owners_of(step, tensor);
    if (complete && owners)
        return json_pack("{s:o, s:o}", "coordInfo", dims, "coreIdToWkSlice_", owners);
    json_decref(dims);
    json_decref(owners);
    return NULL;
}
