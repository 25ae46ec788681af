// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a step: scheduleTree_[i] and labeledDs_[i] describe tensor i, primaryDsInfo_ the
// layout that tensors of one label share. scale_ and maxDimSizes_ follow the order of that shared
// layout, not the tensor's own.
#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/read.h"

static const int64_t most_gap = 1LL << 40;

static spyre_status read_order(const json_node *object, const char *key, const bundle_step *step,
                               uint8_t out_order[BUNDLE_MAX_DIMS], uint32_t *out_count)
{
    json_node list, item;
    TRY(json_get_array(object, key, &list));
    if (json_count(&list) > step->dim_count) {
        return json_error_at(&list, "%zu dims, N_ has %u", json_count(&list), step->dim_count);
    }
    *out_count = (uint32_t)json_count(&list);
    for (uint32_t i = 0; i < *out_count; i++) {
        TRY(json_item(&list, i, &item));
        TRY(read_dim(&item, step, &out_order[i]));
    }
    return NULL;
}

// Copies a string into a field of fixed length.
static spyre_status read_name(const json_node *object, const char *key, char *out_name,
                              size_t capacity)
{
    const char *name;
    TRY(json_get_string(object, key, &name));
    if (strlen(name) >= capacity) {
        return json_error_at(object, "%s is longer than %zu characters", key, capacity - 1);
    }
    memcpy(out_name, name, strlen(name) + 1);
    return NULL;
}

// stickDimOrder_ and stickSize_, the fastest first: one dim, or the digits of several.
static spyre_status read_stick(const json_node *layout, const bundle_step *step,
                               bundle_tensor *tensor)
{
    json_node names, sizes, node;
    int64_t most = 0;
    TRY(json_get_array(layout, "stickDimOrder_", &names));
    TRY(json_get_array(layout, "stickSize_", &sizes));
    size_t count = json_count(&names);
    if (count < 1 || count > BUNDLE_MAX_DIGITS) {
        return json_error_at(&names, "%zu dims, 1 to %d are possible", count, BUNDLE_MAX_DIGITS);
    }
    TRY(json_expect_array_of(&sizes, count));
    tensor->stick_elements = 1;
    for (size_t n = 0; n < count; n++) {
        int64_t size;
        bundle_digit *digit = &tensor->digits[n];
        TRY(json_item(&names, n, &node));
        TRY(read_dim(&node, step, &digit->dim));
        TRY(json_item(&sizes, n, &node));
        TRY(json_as_int(&node, 1, SPYRE_STICK_BYTES * 2, &size));
        digit->size = (uint16_t)size;
        tensor->stick_elements *= (uint32_t)size;
    }
    tensor->digit_count = (uint32_t)count;
    for (uint32_t n = 0; n < count; n++) {
        int64_t span = bundle_stick_span(tensor, tensor->digits[n].dim);
        if (span > most) tensor->stick_dim = tensor->digits[n].dim;
        if (span > most) most = span;
    }
    if (count == 1) tensor->digit_count = 0, tensor->digits[0] = (bundle_digit){0};
    return NULL;
}

static spyre_status read_shared_layout(const json_node *dsc, const bundle_step *step,
                                       bundle_tensor *tensor)
{
    json_node layouts, layout;
    TRY(json_get_object(dsc, "primaryDsInfo_", &layouts));
    TRY(json_get_object(&layouts, tensor->label, &layout));
    TRY(read_order(&layout, "layoutDimOrder_", step, tensor->label_order,
                   &tensor->label_order_count));
    return read_stick(&layout, step, tensor);
}

static spyre_status read_label(const json_node *node, const json_node *dsc,
                               const bundle_step *step, bundle_tensor *tensor)
{
    json_node scales, item;
    int64_t value;
    TRY(read_name(node, "dsName_", tensor->name, sizeof tensor->name));
    TRY(read_name(node, "dsType_", tensor->label, sizeof tensor->label));
    TRY(read_shared_layout(dsc, step, tensor));
    TRY(read_format(node, "dataFormat_", &tensor->format));
    TRY(json_get_int(node, "wordLength", 0, 8, &value));
    tensor->element_bytes = (uint32_t)value;
    TRY(json_get_array(node, "scale_", &scales));
    TRY(json_expect_array_of(&scales, tensor->label_order_count));
    for (uint32_t i = 0; i < tensor->label_order_count; i++) {
        TRY(json_item(&scales, i, &item));
        TRY(json_as_int(&item, -2, 1, &value));
        if (value == 0) return json_error_at(&item, "a scale is 1, -1 or -2");
        tensor->scale[tensor->label_order[i]] = (int8_t)value;
    }
    return NULL;
}

// --- The allocate node

static spyre_status read_max_sizes(const json_node *node, bundle_tensor *tensor)
{
    json_node sizes, item;
    int64_t size;
    TRY(json_get_array(node, "maxDimSizes_", &sizes));
    TRY(json_expect_array_of(&sizes, tensor->label_order_count));
    for (uint32_t i = 0; i < tensor->label_order_count; i++) {
        TRY(json_item(&sizes, i, &item));
        TRY(json_as_int(&item, -1, INT32_MAX, &size));
        tensor->max_size[tensor->label_order[i]] = (int32_t)size;
    }
    return NULL;
}

// {"mb": {"-1": "28"}}; in LX one entry a core, which all say the same.
static spyre_status read_gaps(const json_node *node, const bundle_step *step,
                              bundle_tensor *tensor)
{
    json_node gaps, dim_node, gap_node;
    void *cursor = NULL;
    if (!json_find(node, "backGapCore_", &gaps)) return NULL;
    TRY(json_expect_object(&gaps));
    while (json_next_member(&gaps, &cursor, &dim_node)) {
        uint8_t d;
        bool first = true;
        void *cores = NULL;
        TRY(read_key_dim(&dim_node, step, &d));
        TRY(json_expect_object(&dim_node));
        while (json_next_member(&dim_node, &cores, &gap_node)) {
            int64_t core, gap;
            TRY(json_key_decimal(&gap_node, -1, step->cores->core_count - 1, &core));
            TRY(json_as_number(&gap_node, -most_gap, most_gap, &gap));
            if (!first && gap != tensor->gap[d]) {
                return json_error_at(&gap_node, "gaps that differ between cores are not supported");
            }
            tensor->gap[d] = gap;
            first = false;
        }
    }
    return NULL;
}

// *out_open for a symbol whose value is a bare 0: torch-spyre writes this where the address follows
// from a size that a launch chooses.
static spyre_status read_address(step_source *source, const json_node *node,
                                 const bundle_tensor *tensor, mlir_value *out_address,
                                 bool *out_open)
{
    int64_t value;
    *out_address = (mlir_value){.arg = MLIR_NO_ARG};
    TRY(json_as_number(node, INT64_MIN, INT64_MAX, &out_address->offset));
    bool symbolic = out_address->offset < 0;
    if (symbolic) TRY(read_symbol(source, node, out_address->offset, out_address));
    if (out_address->symbol) return json_error_at(node, "an address that is a size");
    value = out_address->offset;
    *out_open = symbolic && out_address->arg == MLIR_NO_ARG && value == 0;
    if (tensor->in_lx) {
        if (out_address->arg == MLIR_NO_ARG && value >= 0) return NULL;
        return json_error_at(node, "an address in LX is not relative to a launch argument");
    }
    if (out_address->arg == MLIR_NO_ARG) {
        const int64_t segments = 7;             // the last of 8 holds programs
        if (value < 0 || value >= segments * (int64_t)BUNDLE_SEGMENT_BYTES) {
            return json_error_at(node, "address %lld is outside of the %lld segments of launch "
                                       "arguments", (long long)value, (long long)segments);
        }
        out_address->arg = (int32_t)(value / (int64_t)BUNDLE_SEGMENT_BYTES);
        out_address->offset = value % (int64_t)BUNDLE_SEGMENT_BYTES;
    }
    if (out_address->arg >= 0 && (uint32_t)out_address->arg >= source->arg_count) {
        source->arg_count = (uint32_t)out_address->arg + 1;
    }
    return NULL;
}

// Whether a tensor's slices begin where a size says.
static bool has_symbolic_slices(const bundle_step *step, const bundle_tensor *tensor)
{
    for (uint32_t i = 0; i < tensor->order_count; i++) {
        uint32_t d = tensor->order[i];
        if (step->symbol[d] && step->cores->slices[d] > 1 && tensor->scale[d] > 0) return true;
    }
    return false;
}

// The verifier names a dim without slices later.
static bool has_no_slices(const bundle_step *step)
{
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (step->cores->slices[d] < 1) return true;
    return false;
}

// Gives cores of `open` the addresses that follow from core 0's, and checks the others.
static spyre_status place_slices(const json_node *data, const bundle_step *step, uint32_t open,
                                 bundle_tensor *tensor, int64_t *starts)
{
    if (tensor->in_lx || has_no_slices(step) || !has_symbolic_slices(step, tensor)) return NULL;
    if (tensor->index_kind == BUNDLE_INDEX_VALUE)
        return json_error_at(data, "the table of a gather with sizes that a launch chooses");
    bundle_geometry geometry;
    bundle_step alone = *step;
    alone.tensors = tensor;
    TRY(bundle_tensor_geometry(NULL, &alone, 0, &geometry));
    int64_t base = starts[0] - bundle_slice_offset(step, tensor, &geometry, 0);
    for (uint32_t core = 1; core < step->cores->core_count; core++) {
        int64_t start = base + bundle_slice_offset(step, tensor, &geometry, core);
        if (open >> core & 1) starts[core] = start;
        if (starts[core] != start)
            return json_error_at(data, "core %u begins at byte %lld, its slice at %lld", core,
                                 (long long)starts[core], (long long)start);
    }
    return NULL;
}

// Cores differ by where they start, in nothing else.
static spyre_status take_address(const json_node *node, const mlir_value *address, bool first,
                                 bundle_tensor *tensor, int64_t *out_start)
{
    *out_start = address->offset;
    if (first) {
        tensor->arg = address->arg;
        memcpy(tensor->loop_stride, address->loop_stride, sizeof tensor->loop_stride);
        return NULL;
    }
    if (tensor->arg != address->arg) {
        return json_error_at(node, "launch argument %d, other cores use %d", address->arg,
                             tensor->arg);
    }
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        if (tensor->loop_stride[loop] == address->loop_stride[loop]) continue;
        return json_error_at(node, "loop %u adds %lld bytes, for other cores %lld", loop,
                             (long long)address->loop_stride[loop],
                             (long long)tensor->loop_stride[loop]);
    }
    return NULL;
}

static spyre_status read_starts(step_source *source, const json_node *node,
                                const bundle_step *step, bundle_tensor *tensor, int64_t *starts)
{
    json_node folds, data, member;
    void *cursor = NULL;
    uint32_t seen = 0, open = 0;
    bool slices = has_symbolic_slices(step, tensor);
    TRY(json_get_object(node, "startAddressCoreCorelet_", &folds));
    TRY(json_get_object(&folds, "data_", &data));
    while (json_next_member(&data, &cursor, &member)) {
        uint32_t core;
        mlir_value address;
        bool is_open = false;
        TRY(read_fold_key(&member, step->cores->core_count, &core));
        bool again = seen >> core & 1;
        int64_t start = starts[core];
        TRY(read_address(source, &member, tensor, &address, &is_open));
        if (is_open && slices && core > 0) open |= 1u << core;
        else TRY(take_address(&member, &address, seen == open, tensor, &starts[core]));
        if (again && starts[core] != start)
            return json_error_at(&member, "corelets of core %u begin in different places", core);
        seen |= 1u << core;
    }
    // One address for all cores.
    for (uint32_t core = 1; core < step->cores->core_count && seen == 1 &&
                            read_is_const(&folds); core++)
        starts[core] = starts[0];
    if (seen == 1 && read_is_const(&folds)) return place_slices(&data, step, open, tensor, starts);
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        if (!(seen & 1u << core)) return json_error_at(&data, "core %u has no address", core);
    }
    return place_slices(&data, step, open, tensor, starts);
}

static spyre_status read_addresses(step_source *source, const json_node *node,
                                   const bundle_step *step, bundle_tensor *tensor)
{
    int64_t starts[BUNDLE_MAX_CORES] = {0};
    TRY(read_starts(source, node, step, tensor, starts));
    return bundle_set_starts(source->memory, step->cores->core_count, starts, tensor);
}

// Finds the number of the node of that name.
static spyre_status read_peer(const json_node *node, const json_node *tree, int32_t *out_peer)
{
    json_node wanted, other;
    const char *name, *candidate;
    TRY(json_member(node, "relatedIndirectAccessAlloc_", &wanted));
    TRY(json_as_string(&wanted, &name));
    for (size_t i = 0; i < json_count(tree); i++) {
        TRY(json_item(tree, i, &other));
        TRY(json_get_string(&other, "name_", &candidate));
        *out_peer = (int32_t)i;
        if (strcmp(candidate, name) == 0) return NULL;
    }
    return json_error_at(&wanted, "no node is named \"%.40s\"", name);
}

static spyre_status read_indirection(const json_node *node, const json_node *tree,
                                     bundle_tensor *tensor)
{
    json_node member;
    const char *kind;
    tensor->index_peer = -1;
    if (!json_find(node, "indirectAllocType_", &member)) return NULL;
    TRY(json_as_string(&member, &kind));
    if (strcmp(kind, "no_indirection") == 0) return NULL;
    bool index = strcmp(kind, "index_tensor") == 0;
    if (!index && strcmp(kind, "value_tensor") != 0) {
        return json_error_at(&member, "unknown kind of indirection \"%.20s\"", kind);
    }
    tensor->index_kind = index ? BUNDLE_INDEX_INDEX : BUNDLE_INDEX_VALUE;
    if (json_find(node, "indexedDimSize_", &member)) {
        TRY(json_as_int(&member, 1, most_gap, &tensor->indexed_extent));
    }
    return read_peer(node, tree, &tensor->index_peer);
}

// coordinates_.coreIdToWkSlice_, which a tensor has when its owners are not those of the step.
static spyre_status read_owners(step_source *source, const json_node *node,
                                const bundle_step *step, bundle_tensor *tensor)
{
    json_node coordinates, all;
    if (!json_find(node, "coordinates_", &coordinates)) return NULL;
    TRY(json_expect_object(&coordinates));
    if (!json_find(&coordinates, "coreIdToWkSlice_", &all)) return NULL;
    TRY(json_expect_object(&all));
    size_t count = json_object_size(all.value);
    if (count == 0) return NULL;
    if (count > BUNDLE_MAX_CORES) return json_error_at(&all, "%zu cores", count);
    bundle_division *owners = ARENA_NEW(source->memory, bundle_division, 1);
    TRY_ALLOC(owners);
    owners->core_count = (uint32_t)count;
    TRY(read_core_slices(&all, step, owners->core_count, owners->core_slice));
    bool same = owners->core_count == step->cores->core_count;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        for (uint32_t core = 0; core < owners->core_count; core++) {
            int32_t slice = owners->core_slice[core][d];
            if (slice >= owners->slices[d]) owners->slices[d] = slice + 1;
            same = same && slice == step->cores->core_slice[core][d];
        }
    }
    if (!same) tensor->owners = owners;
    return NULL;
}

// {"first": 5, "steps": {"mb": 1, "out": -1}, "loops": [64], "signs": 0}
static spyre_status read_count(step_source *source, const json_node *node,
                               const bundle_step *step, bundle_tensor *tensor)
{
    const int64_t most = (int64_t)1 << 32;
    json_node counted, steps, loops, item;
    void *cursor = NULL;
    int64_t signs;
    if (!json_find(node, "countedFrom_", &counted)) return NULL;
    TRY(json_expect_object(&counted));
    bundle_count *count = ARENA_NEW(source->memory, bundle_count, 1);
    TRY_ALLOC(count);
    TRY(json_get_int(&counted, "first", -most, most, &count->first));
    TRY(json_get_object(&counted, "steps", &steps));
    while (json_next_member(&steps, &cursor, &item)) {
        uint8_t d;
        TRY(read_key_dim(&item, step, &d));
        TRY(json_as_int(&item, -most, most, &count->step[d]));
    }
    TRY(json_get_array(&counted, "loops", &loops));
    if (json_count(&loops) > BUNDLE_MAX_LOOPS)
        return json_error_at(&loops, "%zu loops, at most %d are possible", json_count(&loops),
                             BUNDLE_MAX_LOOPS);
    for (size_t l = 0; l < json_count(&loops); l++) {
        TRY(json_item(&loops, l, &item));
        TRY(json_as_int(&item, -most, most, &count->loop_step[l]));
    }
    TRY(json_get_int(&counted, "signs", 0, 1, &signs));
    count->signs = signs;
    tensor->count = count;
    return NULL;
}

static spyre_status read_node(step_source *source, const json_node *node, const json_node *tree,
                              const bundle_step *step, bundle_tensor *tensor)
{
    json_node member;
    const char *text_value;
    TRY(json_member(node, "nodeType_", &member));
    TRY(json_as_string(&member, &text_value));
    if (strcmp(text_value, "allocate") != 0) {
        return json_error_at(&member, "node \"%.20s\" is not supported", text_value);
    }
    TRY(json_member(node, "component_", &member));
    TRY(json_as_string(&member, &text_value));
    tensor->in_lx = strcmp(text_value, "lx") == 0;
    if (!tensor->in_lx && strcmp(text_value, "hbm") != 0) {
        return json_error_at(&member, "component \"%.20s\" is neither hbm nor lx", text_value);
    }
    TRY(read_order(node, "layoutDimOrder_", step, tensor->order, &tensor->order_count));
    TRY(read_max_sizes(node, tensor));
    TRY(read_gaps(node, step, tensor));
    TRY(read_indirection(node, tree, tensor));
    TRY(read_owners(source, node, step, tensor));
    TRY(read_count(source, node, step, tensor));
    return read_addresses(source, node, step, tensor);
}

spyre_status read_tensors(step_source *source, const json_node *dsc, bundle_step *step)
{
    json_node tree, labels, node, label;
    int64_t number;
    TRY(json_get_array(dsc, "scheduleTree_", &tree));
    size_t count = json_count(&tree);
    if (count < 1 || count > BUNDLE_MAX_TENSORS) {
        return json_error_at(&tree, "%zu tensors, 1 to %d are possible", count, BUNDLE_MAX_TENSORS);
    }
    TRY(json_get_array(dsc, "labeledDs_", &labels));
    TRY(json_expect_array_of(&labels, count));
    step->tensors = ARENA_NEW(source->memory, bundle_tensor, count);
    TRY_ALLOC(step->tensors);
    step->tensor_count = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        bundle_tensor *tensor = &step->tensors[i];
        for (uint32_t d = 0; d < BUNDLE_MAX_DIMS; d++) tensor->max_size[d] = -1;
        TRY(json_item(&tree, i, &node));
        TRY(json_item(&labels, i, &label));
        TRY(json_get_int(&node, "ldsIdx_", i, i, &number));
        TRY(json_get_int(&label, "ldsIdx_", i, i, &number));
        TRY(read_label(&label, dsc, step, tensor));
        TRY(read_node(source, &node, &tree, step, tensor));
    }
    return NULL;
}
