// SPDX-License-Identifier: Apache-2.0
//
// The JSON of one step, field by field in the order of torch-spyre. jansson's *_new setters take
// null for a failed allocation and report it; `put` and `add` collect such failures.
#include <stdio.h>
#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/write.h"

typedef struct {
    const bundle_writer *w;
    const bundle_step *step;
    int64_t first_symbol;
    int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES];
    char opfunc_name[48];
    bool failed;
} step_writer;

static void put(step_writer *s, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) s->failed = true;
}

static void add(step_writer *s, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) s->failed = true;
}

static json_t *number(int64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *decimal(int64_t value)
{
    return json_sprintf("%lld", (long long)value);
}

static const char *decimal_key(char buffer[24], int64_t value)
{
    snprintf(buffer, 24, "%lld", (long long)value);
    return buffer;
}

// --- Folds, which say nothing that other fields do not say

static json_t *fold(int64_t factor, const char *label)
{
    return json_pack("{s:I, s:s}", "factor_", (json_int_t)factor, "label_", label);
}

static json_t *core_folds(const step_writer *s)
{
    return json_pack("[o, o, o]", fold(s->step->cores->core_count, "core"), fold(1, "corelet"),
                     fold(1, "time"));
}

// --- Work division

static json_t *dim_sizes(step_writer *s, const char *name, const int64_t *sizes)
{
    json_t *object = json_pack("{s:s}", "name_", name);
    for (uint32_t d = 0; d < s->step->dim_count; d++) {
        char key[16];
        snprintf(key, sizeof key, "%.7s_", s->step->dim_name[d]);
        put(s, object, key, number(sizes[d]));
    }
    return object;
}

static json_t *slices_of_core(step_writer *s, uint32_t core)
{
    json_t *object = json_object();
    for (uint32_t d = 0; d < s->step->dim_count; d++) {
        put(s, object, s->step->dim_name[d], number(s->step->cores->core_slice[core][d]));
    }
    return object;
}

static void put_division(step_writer *s, json_t *sdsc)
{
    const bundle_step *step = s->step;
    json_t *dscs = json_object(), *counts = json_object(), *slices = json_object();
    json_t *schedules = json_object(), *sizes = json_object();
    for (uint32_t d = 0; d < step->dim_count; d++) {
        put(s, counts, step->dim_name[d], number(step->cores->slices[d]));
        int64_t length = step->cores->slice_size[d];
        if (length) put(s, sizes, step->dim_name[d], number(length));
    }
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        char key[24];
        decimal_key(key, core);
        put(s, dscs, key, number(0));
        put(s, slices, key, slices_of_core(s, core));
        put(s, schedules, key, json_pack("[[i, i, i, i]]", -1, 0, 0, 0));
    }
    put(s, sdsc, "coreFoldProp_", fold(step->cores->core_count, "core"));
    put(s, sdsc, "coreletFoldProp_", fold(1, "corelet"));
    put(s, sdsc, "numCoresUsed_", number(step->cores->core_count));
    put(s, sdsc, "coreIdToDsc_", dscs);
    put(s, sdsc, "numWkSlicesPerDim_", counts);
    if (json_object_size(sizes))
        put(s, sdsc, "wkSliceSizePerDim_", sizes);
    else
        json_decref(sizes);
    put(s, sdsc, "coreIdToWkSlice_", slices);
    put(s, sdsc, "coreIdToDscSchedule", schedules);
}

// --- Iteration space, masks, layouts

// Of a core's part, where its dim is split, padding is -1: only some have it.
static json_t *windows(step_writer *s, bool of_core)
{
    json_t *all = json_object();
    for (uint32_t n = 0; n < s->step->window_count; n++) {
        const bundle_window *w = &s->step->windows[n];
        char kernel[16];
        snprintf(kernel, sizeof kernel, "%.7s_", s->step->dim_name[w->kernel]);
        bool some = of_core && s->step->cores->slices[w->dim] > 1;
        put(s, all, s->step->dim_name[w->dim],
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "padFront_",
                      some ? (json_int_t)-1 : (json_int_t)w->front, "padBack_",
                      some ? (json_int_t)-1 : (json_int_t)w->back, "totalSize_",
                      (json_int_t)w->total, "stride_", (json_int_t)w->stride, "dilation_",
                      (json_int_t)w->dilation, "windowDim_", kernel));
    }
    return all;
}

// Of a core's part: how large a dim can be there, and what it is a multiple of.
static json_t *symbolic_dims(step_writer *s)
{
    const bundle_step *step = s->step;
    json_t *all = json_object();
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (!step->symbol[d]) continue;
        const bundle_symbol *symbol = &s->w->b->symbols.items[step->symbol[d] - 1];
        int64_t slices = step->cores->slices[d];
        put(s, all, step->dim_name[d],
            json_pack("{s:I, s:I}", "maxSize_", (json_int_t)(symbol->most / slices),
                      "granularity_", (json_int_t)(symbol->granularity / slices)));
    }
    return all;
}

static json_t *stage(step_writer *s, const char *name, const int64_t *sizes)
{
    bool of_core = sizes != s->step->size;
    json_t *object = dim_sizes(s, name, sizes), *symbolic = symbolic_dims(s);
    if (s->step->window_count) put(s, object, "paddingSizes_", windows(s, of_core));
    if (of_core && json_object_size(symbolic) > 0) put(s, object, "symbolicDimInfo_", symbolic);
    else json_decref(symbolic);
    return object;
}

// Which symbol of bundle.mlir is the size of a dim.
static void put_symbolic_sizes(step_writer *s, json_t *dsc)
{
    uint32_t next;
    json_t *mapping = json_object();
    (void)writer_count_symbols(s->w, s->step, &next);
    for (uint32_t d = 0; d < s->step->dim_count; d++)
        if (s->step->symbol[d])
            put(s, mapping, s->step->dim_name[d], json_pack("[I]", -(s->first_symbol + next++)));
    if (json_object_size(mapping) > 0) put(s, dsc, "dimToSymbolMapping_", mapping);
    else json_decref(mapping);
}

static void put_space(step_writer *s, json_t *dsc)
{
    const bundle_step *step = s->step;
    json_t *cores = json_array(), *masks = json_object();
    int64_t local[BUNDLE_MAX_DIMS];
    for (uint32_t core = 0; core < step->cores->core_count; core++) add(s, cores, number(core));
    for (uint32_t d = 0; d < step->dim_count; d++) local[d] = bundle_local_size(step, d);
    for (uint32_t i = 0; i < step->mask_count; i++) {
        const bundle_mask *mask = &step->masks[i];
        put(s, masks, step->dim_name[mask->dim],
            json_pack("[[I, I]]", (json_int_t)mask->start, (json_int_t)mask->length));
    }
    put(s, dsc, "numCoresUsed_", number(step->cores->core_count));
    put(s, dsc, "numCoreletsUsed_", number(1));
    put(s, dsc, "coreIdsUsed_", cores);
    put(s, dsc, "N_", stage(s, "n", step->size));
    put_symbolic_sizes(s, dsc);
    put(s, dsc, "coordinateMasking_", masks);
    bool fills = step->mask_count > 0 && step->mask_constant >= 0;
    put(s, dsc, "maskingConstId_", number(fills ? step->mask_constant : -1));
    if (step->live_lanes) put(s, dsc, "liveLanes_", number(step->live_lanes));
    put(s, dsc, "dataStageParam_",
        json_pack("{s:{s:o, s:o}}", "0", "ss_", stage(s, "core", local), "el_",
                  stage(s, "core", local)));
}

static json_t *dim_names(step_writer *s, const uint8_t *order, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) add(s, list, json_string(s->step->dim_name[order[i]]));
    return list;
}

static json_t *stick_dims(step_writer *s, const bundle_tensor *tensor)
{
    if (tensor->digit_count == 0) return dim_names(s, &tensor->stick_dim, 1);
    uint8_t dims[BUNDLE_MAX_DIGITS];
    for (uint32_t n = 0; n < tensor->digit_count; n++) dims[n] = tensor->digits[n].dim;
    return dim_names(s, dims, tensor->digit_count);
}

static json_t *stick_sizes(step_writer *s, const bundle_tensor *tensor)
{
    json_t *list = json_array();
    if (tensor->digit_count == 0) add(s, list, number(tensor->stick_elements));
    for (uint32_t n = 0; n < tensor->digit_count; n++)
        add(s, list, number(tensor->digits[n].size));
    return list;
}

static json_t *shared_layouts(step_writer *s)
{
    json_t *layouts = json_object();
    for (uint32_t t = 0; t < s->step->tensor_count; t++) {
        const bundle_tensor *tensor = &s->step->tensors[t];
        if (json_object_get(layouts, tensor->label)) continue;
        put(s, layouts, tensor->label,
            json_pack("{s:o, s:o, s:o}", "layoutDimOrder_",
                      dim_names(s, tensor->label_order, tensor->label_order_count),
                      "stickDimOrder_", stick_dims(s, tensor), "stickSize_",
                      stick_sizes(s, tensor)));
    }
    return layouts;
}

// --- Tensors

static json_t *node_name(const bundle_tensor *tensor)
{
    return json_sprintf("allocate-%s_%s", tensor->name, tensor->in_lx ? "lx" : "hbm");
}

static json_t *start_address(const step_writer *s, uint32_t t, uint32_t core)
{
    const bundle_tensor *tensor = &s->step->tensors[t];
    if (tensor->in_lx) return decimal(bundle_start(tensor, core));
    if (s->w->form == BUNDLE_FORM_SYMBOLIC) return decimal(-(s->first_symbol + s->ids[t][core]));
    int64_t segment = writer_segment(s->w, tensor->arg);
    return decimal(segment * (int64_t)BUNDLE_SEGMENT_BYTES + bundle_start(tensor, core));
}

static json_t *start_addresses(step_writer *s, uint32_t t)
{
    json_t *data = json_object();
    for (uint32_t core = 0; core < s->step->cores->core_count; core++) {
        char key[24];
        snprintf(key, sizeof key, "[%u, 0, 0]", core);
        put(s, data, key, start_address(s, t, core));
    }
    return json_pack("{s:[{s:{}}, {s:{}}, {s:{}}], s:o, s:o}", "dim_prop_func", "Map", "Const",
                     "Const", "dim_prop_attr", core_folds(s), "data_", data);
}

static void put_gaps(step_writer *s, json_t *node, const bundle_tensor *tensor)
{
    json_t *gaps = json_object();
    for (uint32_t i = 0; i < tensor->order_count; i++) {
        uint32_t d = tensor->order[i];
        if (tensor->gap[d] == 0) continue;
        json_t *cores = json_object();
        if (!tensor->in_lx) put(s, cores, "-1", decimal(tensor->gap[d]));
        for (uint32_t core = 0; tensor->in_lx && core < s->step->cores->core_count; core++) {
            char key[24];
            put(s, cores, decimal_key(key, core), decimal(tensor->gap[d]));
        }
        put(s, gaps, s->step->dim_name[d], cores);
    }
    if (json_object_size(gaps) > 0) put(s, node, "backGapCore_", gaps);
    else json_decref(gaps);
}

static void put_indirection(step_writer *s, json_t *node, const bundle_tensor *tensor)
{
    static const char *const kinds[] = {
        [BUNDLE_INDEX_NONE] = "no_indirection",
        [BUNDLE_INDEX_INDEX] = "index_tensor",
        [BUNDLE_INDEX_VALUE] = "value_tensor",
    };
    put(s, node, "indirectAllocType_", json_string(kinds[tensor->index_kind]));
    if (tensor->index_kind == BUNDLE_INDEX_NONE) return;
    put(s, node, "relatedIndirectAccessAlloc_",
        node_name(&s->step->tensors[tensor->index_peer]));
    if (tensor->index_kind == BUNDLE_INDEX_INDEX) {
        put(s, node, "indexTensorType_", json_string("index"));
    } else if (tensor->indexed_extent > 0) {
        put(s, node, "indexedDimSize_", number(tensor->indexed_extent));
    }
}

static void put_count(step_writer *s, json_t *node, const bundle_count *count)
{
    if (!count) return;
    uint32_t depth = BUNDLE_MAX_LOOPS;
    json_t *steps = json_object(), *loops = json_array();
    while (depth && !count->loop_step[depth - 1]) depth--;
    for (uint32_t d = 0; d < s->step->dim_count; d++)
        if (count->step[d]) put(s, steps, s->step->dim_name[d], number(count->step[d]));
    for (uint32_t l = 0; l < depth; l++) add(s, loops, number(count->loop_step[l]));
    put(s, node, "countedFrom_",
        json_pack("{s:I, s:o, s:o, s:i}", "first", (json_int_t)count->first, "steps", steps,
                  "loops", loops, "signs", (int)count->signs));
}

static json_t *allocate_node(step_writer *s, uint32_t t)
{
    const bundle_tensor *tensor = &s->step->tensors[t];
    json_t *sizes = json_array(), *node = json_object();
    for (uint32_t i = 0; i < tensor->label_order_count; i++) {
        int64_t size = tensor->max_size[tensor->label_order[i]];
        add(s, sizes, number(size > 0 ? size : -1));
    }
    put(s, node, "nodeType_", json_string("allocate"));
    put(s, node, "name_", node_name(tensor));
    put(s, node, "prev_", json_string(""));
    put(s, node, "ldsIdx_", number(t));
    put(s, node, "component_", json_string(tensor->in_lx ? "lx" : "hbm"));
    bool symbolic = s->w->form == BUNDLE_FORM_SYMBOLIC && !tensor->in_lx;
    if (symbolic) put(s, node, "isStartAddrSymbolic_", number(1));
    put(s, node, "layoutDimOrder_", dim_names(s, tensor->order, tensor->order_count));
    put(s, node, "maxDimSizes_", sizes);
    put_indirection(s, node, tensor);
    put(s, node, "startAddressCoreCorelet_", start_addresses(s, t));
    put_gaps(s, node, tensor);
    put_count(s, node, tensor->count);
    put(s, node, "coordinates_", writer_coordinates(s->step, tensor));
    return node;
}

static json_t *labeled_tensor(step_writer *s, uint32_t t)
{
    const bundle_tensor *tensor = &s->step->tensors[t];
    json_t *scales = json_array(), *memory = json_object();
    for (uint32_t i = 0; i < tensor->label_order_count; i++) {
        add(s, scales, number(tensor->scale[tensor->label_order[i]]));
    }
    if (!tensor->in_lx) put(s, memory, "hbm", json_pack("{s:i}", "isPresent", 1));
    if (tensor->index_kind != BUNDLE_INDEX_INDEX) {
        put(s, memory, "lx", json_pack("{s:i}", "isPresent", 1));
    }
    return json_pack("{s:I, s:s, s:s, s:o, s:I, s:s, s:o}", "ldsIdx_", (json_int_t)t, "dsName_",
                     tensor->name, "dsType_", tensor->label, "scale_", scales, "wordLength",
                     (json_int_t)tensor->element_bytes, "dataFormat_",
                     spyre_format_name(tensor->format), "memOrg_", memory);
}

static void put_tensors(step_writer *s, json_t *dsc)
{
    json_t *tree = json_array(), *labels = json_array();
    for (uint32_t t = 0; t < s->step->tensor_count; t++) {
        add(s, tree, allocate_node(s, t));
        add(s, labels, labeled_tensor(s, t));
    }
    put(s, dsc, "primaryDsInfo_", shared_layouts(s));
    put(s, dsc, "scheduleTree_", tree);
    put(s, dsc, "labeledDs_", labels);
}

// --- Constants and the operation

static json_t *constants(step_writer *s)
{
    const bundle_step *step = s->step;
    if (step->constant_count == 0) return json_string("{}");
    json_t *all = json_object();
    for (uint32_t i = 0; i < step->constant_count; i++) {
        const bundle_constant *constant = &step->constants[i];
        char key[24];
        put(s, all, decimal_key(key, i),
            json_pack("{s:s, s:s, s:{s:[{s:{}}, {s:{}}, {s:{}}], s:o, s:{s:[I]}}}", "dataFormat_",
                      spyre_format_name(constant->format), "name_", constant->name, "data_",
                      "dim_prop_func", "Const", "Const", "Map", "dim_prop_attr", core_folds(s),
                      "data_", "[0, 0, 0]", (json_int_t)constant->bits));
    }
    return all;
}

static void add_operand(step_writer *s, json_t *list, uint32_t t)
{
    add(s, list, json_sprintf("%s-idx%u", s->step->tensors[t].name, t));
}

static json_t *scanned_dims(step_writer *s)
{
    json_t *dims = json_array();
    for (uint32_t d = 0; d < s->step->dim_count; d++)
        if (s->step->scanned[d]) add(s, dims, json_string(s->step->dim_name[d]));
    return dims;
}

static json_t *operation(step_writer *s)
{
    const bundle_step *step = s->step;
    opfunc_kind kind = opfunc_describe(step->op)->kind;
    json_t *inputs = json_array(), *outputs = json_array(), *indices = json_array();
    for (uint32_t i = 0; i < step->input_count; i++) add_operand(s, inputs, step->inputs[i]);
    bool repeats = kind == OPFUNC_KIND_REDUCTION || step->op == OPFUNC_DEPTHWISECONV2D;
    if (repeats) add_operand(s, inputs, step->output);
    add_operand(s, outputs, step->output);
    for (uint32_t i = 0; i < step->index_count; i++) add_operand(s, indices, step->indices[i]);
    json_t *compute = json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:s, s:o, s:o}", "exUnit",
        kind == OPFUNC_KIND_MATMUL ? "pt" : "sfp", "opFuncName", s->opfunc_name, "attributes_",
        "dataFormat_", spyre_format_name(step->compute_format), "fidelity_", "regular", "location",
        "Inner", "inputLabeledDs", inputs, "outputLabeledDs", outputs);
    if (step->index_count > 0) put(s, compute, "indirectAccessIndexLabeledDs", indices);
    else json_decref(indices);
    if (opfunc_accumulates(step->accumulator))
        put(s, compute, "rowAccumulator_", json_string(opfunc_describe(step->accumulator)->name));
    if (kind == OPFUNC_KIND_SCAN) put(s, compute, "scannedDims_", scanned_dims(s));
    return json_pack("[o]", compute);
}

// --- The whole

static json_t *step_json(step_writer *s)
{
    json_t *sdsc = json_object(), *dsc = json_object();
    put(s, sdsc, "sdscFoldProps_", json_pack("[o]", fold(1, "time")));
    put(s, sdsc, "sdscFolds_",
        json_pack("{s:[{s:{s:i, s:i}}], s:[o], s:{s:s}}", "dim_prop_func", "Affine", "alpha_", 1,
                  "beta_", 0, "dim_prop_attr", fold(1, "time"), "data_", "[0]", "0"));
    put_division(s, sdsc);
    put_space(s, dsc);
    put_tensors(s, dsc);
    put(s, dsc, "constantInfo_", constants(s));
    put(s, dsc, "computeOp_", operation(s));
    put(s, sdsc, "dscs_", json_pack("[{s:o}]", s->opfunc_name, dsc));
    return sdsc;
}

json_t *writer_step_json(const bundle_writer *w, const bundle_step *step, uint32_t step_number,
                         int64_t first_symbol)
{
    step_writer s = {.w = w, .step = step, .first_symbol = first_symbol};
    (void)writer_number_addresses(step, s.ids);
    snprintf(s.opfunc_name, sizeof s.opfunc_name, "%s%s", opfunc_describe(step->op)->name,
             step->nonstick ? "nonstick" : "");
    char key[72];
    snprintf(key, sizeof key, "%u_%s", step_number, s.opfunc_name);
    json_t *json = json_pack("{s:o}", key, step_json(&s));
    if (!s.failed) return json;
    json_decref(json);
    return NULL;
}
