// SPDX-License-Identifier: Apache-2.0
//
// One sdsc_<n>.json: iteration space, work division, constants, masks and operands. Fields that
// only restate others (folds, schedules) are not read; those that could say something that this
// stack does not do are checked.
#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/read.h"

enum { MOST_ELEMENTS_LOG2 = 40 };
static const int64_t most_elements = 1LL << MOST_ELEMENTS_LOG2;

// The only member of an object.
static spyre_status only_member(const json_node *object, json_node *out_member)
{
    void *cursor = NULL;
    TRY(json_expect_object(object));
    if (json_count(object) != 1) {
        return json_error_at(object, "expected one member, found %zu", json_count(object));
    }
    json_next_member(object, &cursor, out_member);
    return NULL;
}

// --- Iteration space and work division

static spyre_status read_dims(const json_node *dsc, bundle_step *step)
{
    json_node sizes, member;
    void *cursor = NULL;
    TRY(json_get_object(dsc, "N_", &sizes));
    while (json_next_member(&sizes, &cursor, &member)) {
        size_t length = strlen(member.key);
        if (strcmp(member.key, "name_") == 0 || strcmp(member.key, "paddingSizes_") == 0) continue;
        if (length < 2 || member.key[length - 1] != '_' || length > sizeof step->dim_name[0]) {
            return json_error_at(&member, "the name of a dim is 1 to %zu characters and '_'",
                                 sizeof step->dim_name[0] - 1);
        }
        if (step->dim_count == BUNDLE_MAX_DIMS) {
            return json_error_at(&member, "more than %d dims", BUNDLE_MAX_DIMS);
        }
        uint32_t d = step->dim_count++;
        memcpy(step->dim_name[d], member.key, length - 1);
        step->cores->slices[d] = 1;
        if (read_is_open(dsc, &member, step->dim_name[d])) continue;
        TRY(json_as_int(&member, 1, most_elements, &step->size[d]));
    }
    return NULL;
}

static spyre_status read_slices(const json_node *sdsc, bundle_step *step)
{
    json_node counts, member;
    void *cursor = NULL;
    TRY(json_get_object(sdsc, "numWkSlicesPerDim_", &counts));
    while (json_next_member(&counts, &cursor, &member)) {
        int64_t slices;
        uint8_t d;
        TRY(json_as_int(&member, 0, BUNDLE_MAX_CORES, &slices));
        if (slices <= 1 && !read_names_dim(step, member.key)) continue;
        TRY(read_key_dim(&member, step, &d));
        step->cores->slices[d] = (int32_t)slices;
    }
    return NULL;
}

// Extension: present where slices are not equal.
static spyre_status read_slice_sizes(const json_node *sdsc, bundle_step *step)
{
    json_node sizes, member;
    void *cursor = NULL;
    if (!json_find(sdsc, "wkSliceSizePerDim_", &sizes)) return NULL;
    TRY(json_expect_object(&sizes));
    while (json_next_member(&sizes, &cursor, &member)) {
        uint8_t d;
        TRY(read_key_dim(&member, step, &d));
        TRY(json_as_int(&member, 1, most_elements, &step->cores->slice_size[d]));
    }
    return NULL;
}

static spyre_status read_cores(const json_node *sdsc, bundle_step *step)
{
    json_node all;
    TRY(json_get_object(sdsc, "coreIdToWkSlice_", &all));
    return read_core_slices(&all, step, step->cores->core_count, step->cores->core_slice);
}

// --- Constants and masks

static spyre_status read_constant(const json_node *node, bundle_step *step)
{
    json_node data, values, bits_node;
    const char *name;
    int64_t bits;
    bundle_constant *constant = &step->constants[step->constant_count++];
    TRY(json_get_string(node, "name_", &name));
    if (strlen(name) >= sizeof constant->name) {
        return json_error_at(node, "the name of a constant is longer than %zu characters",
                             sizeof constant->name - 1);
    }
    memcpy(constant->name, name, strlen(name));
    TRY(read_format(node, "dataFormat_", &constant->format));
    TRY(json_get_object(node, "data_", &data));
    TRY(json_get_object(&data, "data_", &values));
    json_node list;
    bool of_two = json_find(&values, "[0, 0]", &list);  // folds of cores and corelets alone
    TRY(json_get_array(&values, of_two ? "[0, 0]" : "[0, 0, 0]", &list));
    TRY(json_expect_array_of(&list, 1));
    TRY(json_item(&list, 0, &bits_node));
    TRY(json_as_int(&bits_node, 0, UINT32_MAX, &bits));
    constant->bits = (uint32_t)bits;
    return NULL;
}

// An empty constantInfo_ is the string "{}".
static spyre_status read_constants(const json_node *dsc, bundle_step *step)
{
    json_node all, member;
    void *cursor = NULL;
    TRY(json_member(dsc, "constantInfo_", &all));
    if (json_is_string(all.value) && strcmp(json_string_value(all.value), "{}") == 0) return NULL;
    TRY(json_expect_object(&all));
    while (json_next_member(&all, &cursor, &member)) {
        int64_t number;
        if (step->constant_count == BUNDLE_MAX_CONSTANTS) {
            return json_error_at(&member, "more than %d constants", BUNDLE_MAX_CONSTANTS);
        }
        TRY(json_key_decimal(&member, step->constant_count, step->constant_count, &number));
        TRY(read_constant(&member, step));
    }
    return NULL;
}

// torch-spyre writes 0 for maskingConstId_ even where other constants come first: the one of this
// name is what it means.
static void choose_mask_constant(bundle_step *step)
{
    int32_t named = bundle_find_constant(step, "samv-maskvalue");
    if (named < 0 || named == step->mask_constant || step->mask_constant < 0 ||
        step->mask_constant >= (int32_t)step->constant_count)
        return;
    step->mask_constant = named;
    step->mask_by_name = true;
}

static spyre_status read_masks(const json_node *dsc, bundle_step *step)
{
    json_node all, member, range, start, length;
    void *cursor = NULL;
    int64_t constant;
    TRY(json_get_int(dsc, "maskingConstId_", -1, INT32_MAX, &constant));
    step->mask_constant = (int32_t)constant;
    choose_mask_constant(step);
    TRY(json_get_object(dsc, "coordinateMasking_", &all));
    while (json_next_member(&all, &cursor, &member)) {
        bundle_mask *mask = &step->masks[step->mask_count++];    // at most one a dim
        TRY(read_key_dim(&member, step, &mask->dim));
        TRY(json_expect_array_of(&member, 1));
        TRY(json_item(&member, 0, &range));
        TRY(json_expect_array_of(&range, 2));
        TRY(json_item(&range, 0, &start));
        TRY(json_item(&range, 1, &length));
        TRY(json_as_int(&start, 0, most_elements, &mask->start));
        TRY(json_as_int(&length, 1, most_elements, &mask->length));
    }
    return NULL;
}

// The project's own: bundles of others have none.
static spyre_status read_live_lanes(const json_node *dsc, bundle_step *step)
{
    json_node member;
    if (!json_find(dsc, "liveLanes_", &member)) return NULL;
    return json_as_int(&member, 1, most_elements, &step->live_lanes);
}

// --- The operation

// "Tensor1-idx1" names tensor 1: what follows the last "-idx", as a tensor's name may have one.
static spyre_status read_operand(const json_node *node, const bundle_step *step,
                                 uint8_t *out_tensor)
{
    const char *name;
    TRY(json_as_string(node, &name));
    const char *digits = NULL;
    int64_t number = -1;
    for (const char *at = name; (at = strstr(at, "-idx")) != NULL;) digits = at += strlen("-idx");
    if (!digits || !json_parse_decimal(digits, strlen(digits), &number) || number < 0 ||
        number >= step->tensor_count) {
        return json_error_at(node, "\"%.40s\" is not one of the %u tensors", name,
                             step->tensor_count);
    }
    *out_tensor = (uint8_t)number;
    return NULL;
}

static spyre_status read_operands(const json_node *compute, const char *key,
                                  const bundle_step *step, uint32_t most, uint8_t *out_tensors,
                                  uint32_t *out_count)
{
    json_node list, item;
    TRY(json_get_array(compute, key, &list));
    if (json_count(&list) > most) {
        return json_error_at(&list, "%zu tensors, at most %u are possible", json_count(&list),
                             most);
    }
    *out_count = (uint32_t)json_count(&list);
    for (uint32_t i = 0; i < *out_count; i++) {
        TRY(json_item(&list, i, &item));
        TRY(read_operand(&item, step, &out_tensors[i]));
    }
    return NULL;
}

static spyre_status read_scanned(const json_node *dims, bundle_step *step)
{
    json_node item;
    uint8_t dim;
    TRY(json_expect_array(dims));
    for (uint32_t i = 0; i < json_count(dims); i++) {
        TRY(json_item(dims, i, &item));
        TRY(read_dim(&item, step, &dim));
        step->scanned[dim] = true;
    }
    return NULL;
}

static spyre_status read_accumulator(const json_node *node, bundle_step *step)
{
    const char *name;
    TRY(json_as_string(node, &name));
    step->accumulator = opfunc_named(name);
    if (opfunc_accumulates(step->accumulator)) return NULL;
    return json_error_at(node, "'%s' does not accumulate", name);
}

static spyre_status read_operation(const json_node *dsc, const char *name, bundle_step *step)
{
    json_node list, compute, attributes, member;
    const char *function;
    uint32_t outputs;
    TRY(json_get_array(dsc, "computeOp_", &list));
    TRY(json_expect_array_of(&list, 1));
    TRY(json_item(&list, 0, &compute));
    TRY(json_get_string(&compute, "opFuncName", &function));
    if (strcmp(function, name) != 0) {
        return json_error_at(&compute, "opFuncName is \"%.40s\", the dsc is named \"%.40s\"",
                             function, name);
    }
    TRY(json_get_object(&compute, "attributes_", &attributes));
    TRY(read_format(&attributes, "dataFormat_", &step->compute_format));
    TRY(read_operands(&compute, "inputLabeledDs", step, BUNDLE_MAX_TENSORS, step->inputs,
                      &step->input_count));
    TRY(read_operands(&compute, "outputLabeledDs", step, 1, &step->output, &outputs));
    if (outputs != 1) return json_error_at(&compute, "outputLabeledDs has no tensor");
    if (json_find(&compute, "rowAccumulator_", &member)) TRY(read_accumulator(&member, step));
    if (json_find(&compute, "scannedDims_", &member)) TRY(read_scanned(&member, step));
    if (json_find(&compute, "indirectAccessIndexLabeledDs", &member)) {
        TRY(read_operands(&compute, "indirectAccessIndexLabeledDs", step, 2, step->indices,
                          &step->index_count));
    }
    // Reductions list their output once more as last input, and so does a depthwise convolution.
    bool reduces = opfunc_describe(step->op)->kind == OPFUNC_KIND_REDUCTION ||
                   step->op == OPFUNC_DEPTHWISECONV2D;
    if (reduces && step->input_count > 1 && step->inputs[step->input_count - 1] == step->output) {
        step->input_count--;
    }
    return NULL;
}

// --- The whole

static spyre_status read_core_count(const json_node *sdsc, const json_node *dsc, bundle_step *step)
{
    int64_t cores, again;
    json_node map, member;
    void *cursor = NULL;
    TRY(json_get_int(sdsc, "numCoresUsed_", 1, BUNDLE_MAX_CORES, &cores));
    TRY(json_get_int(dsc, "numCoresUsed_", cores, cores, &again));
    step->cores->core_count = (uint32_t)cores;
    if (!json_find(sdsc, "coreIdToDsc_", &map)) return NULL;
    while (json_next_member(&map, &cursor, &member)) TRY(json_as_int(&member, 0, 0, &again));
    return NULL;
}

// The number of the dim of a name, which may end with '_'.
static spyre_status find_dim(const json_node *node, const char *name, const bundle_step *step,
                             uint8_t *out_dim)
{
    size_t length = strlen(name);
    for (uint32_t d = 0; d < step->dim_count && length; d++) {
        size_t own = strlen(step->dim_name[d]);
        bool ends = length == own || (length == own + 1 && name[own] == '_');
        *out_dim = (uint8_t)d;
        if (ends && memcmp(name, step->dim_name[d], own) == 0) return NULL;
    }
    return json_error_at(node, "no dim is named \"%.20s\"", name);
}

static spyre_status read_window(const json_node *node, bundle_step *step)
{
    json_node member;
    const char *kernel;
    if (step->window_count == BUNDLE_MAX_WINDOWS) {
        return json_error_at(node, "more than %d windows", BUNDLE_MAX_WINDOWS);
    }
    bundle_window *w = &step->windows[step->window_count++];
    TRY(find_dim(node, node->key, step, &w->dim));
    TRY(json_get_int(node, "padFront_", 0, most_elements, &w->front));
    TRY(json_get_int(node, "padBack_", 0, most_elements, &w->back));
    TRY(json_get_int(node, "totalSize_", 1, most_elements, &w->total));
    TRY(json_get_int(node, "stride_", 1, most_elements, &w->stride));
    w->dilation = 1;
    if (json_find(node, "dilation_", &member))
        TRY(json_as_int(&member, 1, most_elements, &w->dilation));
    TRY(json_get_string(node, "windowDim_", &kernel));
    return find_dim(node, kernel, step, &w->kernel);
}

// paddingSizes_ of N_: the windows of a pooling or convolution.
static spyre_status read_windows(const json_node *dsc, bundle_step *step)
{
    json_node sizes, all, member;
    void *cursor = NULL;
    TRY(json_get_object(dsc, "N_", &sizes));
    if (!json_find(&sizes, "paddingSizes_", &all)) return NULL;
    TRY(json_expect_object(&all));
    while (json_next_member(&all, &cursor, &member)) {
        TRY(json_expect_object(&member));
        TRY(read_window(&member, step));
    }
    return NULL;
}

static spyre_status read_dsc(step_source *source, const json_node *sdsc, const json_node *dsc,
                             bundle_step *step)
{
    TRY(json_expect_object(dsc));
    step->op = opfunc_named(dsc->key);
    if (step->op == OPFUNC_NONE) return json_error_at(dsc, "unknown opfunc");
    step->nonstick = strcmp(dsc->key, opfunc_describe(step->op)->name) != 0;
    TRY(read_core_count(sdsc, dsc, step));
    TRY(read_dims(dsc, step));
    TRY(read_windows(dsc, step));
    TRY(read_slices(sdsc, step));
    TRY(read_symbolic_sizes(source, dsc, step));
    TRY(read_slice_sizes(sdsc, step));
    TRY(read_cores(sdsc, step));
    TRY(read_constants(dsc, step));
    TRY(read_masks(dsc, step));
    TRY(read_live_lanes(dsc, step));
    TRY(read_tensors(source, dsc, step));
    TRY(read_operation(dsc, dsc->key, step));
    if (step->index_count == 1 && step->input_count) read_table(step);
    return read_check_schema(source, sdsc, dsc, step);
}

// debug_handle_: which nodes of a graph became the step. Its source is the user's line.
static spyre_status read_location(arena *memory, const json_node *sdsc, bundle_step *step)
{
    json_node handle, place, file, line;
    const char *path;
    int64_t number;
    if (!json_find(sdsc, "debug_handle_", &handle) || !json_find(&handle, "source", &place) ||
        !json_find(&place, "file", &file) || !json_find(&place, "start_line", &line))
        return NULL;
    TRY(json_as_string(&file, &path));
    TRY(json_as_int(&line, 0, INT32_MAX, &number));
    step->location = arena_printf(memory, "%s:%lld", path, (long long)number);
    TRY_ALLOC(step->location);
    return NULL;
}

spyre_status read_step(step_source *source, const json_node *root, bundle_step *out_step)
{
    json_node sdsc, list, item, dsc;
    TRY(only_member(root, &sdsc));
    out_step->name = arena_strdup(source->memory, sdsc.key);
    out_step->cores = ARENA_NEW(source->memory, bundle_division, 1);
    TRY_ALLOC(out_step->name);
    TRY_ALLOC(out_step->cores);
    TRY(read_location(source->memory, &sdsc, out_step));
    TRY(json_get_array(&sdsc, "dscs_", &list));
    TRY(json_expect_array_of(&list, 1));
    TRY(json_item(&list, 0, &item));
    TRY(only_member(&item, &dsc));
    return read_dsc(source, &sdsc, &dsc, out_step);
}
