// SPDX-License-Identifier: Apache-2.0
//
// The builder. Every value and node of every graph, parsed and rewritten ones included, passes
// through the checks here; what needs knowledge of an op is checked by graph_verify.
#include "graph/build.h"

#include <string.h>

#include "base/scanner.h"
#include "graph/aten.h"
#include "graph/view.h"

spyre_graph *graph_create(arena *memory)
{
    spyre_graph *graph = ARENA_NEW(memory, spyre_graph, 1);
    if (!graph) return NULL;
    graph->memory = memory;
    graph->exprs = expr_table_create(memory);
    if (!graph->exprs) return NULL;
    spyre_status status = VEC_PUSH(memory, &graph->locations, "unknown");
    spyre_status_free(status);
    return status ? NULL : graph;
}

static bool is_name(const char *name)
{
    if (!*name) return false;
    for (const char *c = name; *c; c++) {
        if (!scan_is_name_character(*c)) return false;
    }
    return true;
}

spyre_status graph_view_from(spyre_graph *graph, const spyre_view *view, graph_view *out_view)
{
    *out_view = (graph_view){.rank = view->rank};
    for (uint32_t i = 0; i < view->rank; i++) {
        out_view->size[i] = expr_constant(graph->exprs, view->size[i]);
        out_view->stride[i] = expr_constant(graph->exprs, view->stride[i]);
        if (out_view->size[i] == EXPR_NONE || out_view->stride[i] == EXPR_NONE) {
            return status_no_memory();
        }
    }
    out_view->offset = expr_constant(graph->exprs, view->offset);
    return out_view->offset == EXPR_NONE ? status_no_memory() : NULL;
}

// Bounds the byte range that a view reaches, so that no later arithmetic on it overflows.
static spyre_status check_view_range(const graph_view *view, const expr_table *exprs)
{
    int64_t count = 1, last = 0, step = 0, value = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        if (expr_is_constant(exprs, view->size[i], &value)) {
            if (value < 0) {
                return status_new(SPYRE_INVALID_ARGUMENT,
                                  "size %u is %lld, it must not be negative", i, (long long)value);
            }
        }
        if (expr_is_constant(exprs, view->stride[i], &step) && step < 0) {
            return status_new(SPYRE_INVALID_ARGUMENT, "stride %u is %lld, it must not be negative",
                              i, (long long)step);
        }
        int64_t size = value > 1 ? value : 1, reach = 0;
        bool overflow = __builtin_mul_overflow(count, size, &count) ||
                        __builtin_mul_overflow(size - 1, step, &reach) ||
                        __builtin_add_overflow(last, reach, &last);
        if (overflow || count > INT64_MAX / 256 || last > INT64_MAX / 256) {
            return status_new(SPYRE_INVALID_ARGUMENT, "the view reaches beyond 2^55 elements");
        }
        value = step = 0;
    }
    if (!expr_is_constant(exprs, view->offset, &value)) return NULL;
    if (value < 0) {
        return status_new(SPYRE_INVALID_ARGUMENT, "offset is %lld, it must not be negative",
                          (long long)value);
    }
    if (value <= INT64_MAX / 256) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "the view reaches beyond 2^55 elements");
}

static spyre_status check_type(const spyre_graph *graph, const graph_type *type)
{
    if ((uint32_t)type->dtype >= SPYRE_DTYPE_COUNT) {
        return status_new(SPYRE_INVALID_ARGUMENT, "dtype %d is none of the %d", (int)type->dtype,
                          (int)SPYRE_DTYPE_COUNT);
    }
    return check_view_range(&type->view, graph->exprs);
}

spyre_status graph_check_rank(uint32_t rank)
{
    if (rank <= SPYRE_MAX_RANK) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "rank %u, at most %d is supported", rank, SPYRE_MAX_RANK);
}

// The map also holds names of values that a failed call took back.
bool graph_is_name_taken(const spyre_graph *graph, const char *name)
{
    uint32_t id;
    return map_string_get(&graph->value_names, name, &id) && id < graph->values.count &&
           strcmp(graph->values.items[id].name, name) == 0;
}

static spyre_status name_for(spyre_graph *graph, const char *name, char **out_name)
{
    for (uint32_t serial = graph->values.count; !name; serial++) {
        *out_name = arena_printf(graph->memory, "v%u", serial);
        TRY_ALLOC(*out_name);
        if (!graph_is_name_taken(graph, *out_name)) return NULL;
    }
    if (!is_name(name)) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "name \"%.60s\" has characters other than letters, digits, _ . $", name);
    }
    if (graph_is_name_taken(graph, name)) {
        return status_new(SPYRE_INVALID_ARGUMENT, "name \"%.60s\" is already in use", name);
    }
    *out_name = arena_strdup(graph->memory, name);
    TRY_ALLOC(*out_name);
    return NULL;
}

spyre_status graph_add_value(spyre_graph *graph, const char *name, const graph_type *type,
                             uint32_t *out_value)
{
    TRY(check_type(graph, type));
    char *own_name = NULL;
    TRY(name_for(graph, name, &own_name));
    uint32_t id = graph->values.count;
    graph_value value = {.dtype = type->dtype,
                         .on_card = type->on_card,
                         .view = type->view,
                         .node = SPYRE_NO_ID,
                         .name = own_name};
    TRY(VEC_PUSH(graph->memory, &graph->values, value));
    TRY(map_string_put(graph->memory, &graph->value_names, own_name, id));
    *out_value = id;
    return NULL;
}

spyre_status graph_default_storage(const spyre_graph *graph, const graph_value *value,
                                   graph_view *out_storage, spyre_layout *out_layout)
{
    *out_storage = value->view;
    *out_layout = (spyre_layout){0};
    if (!value->on_card) return NULL;
    if (spyre_dtype_card_format(value->dtype) == SPYRE_FORMAT_INVALID) return NULL;
    spyre_view view;
    spyre_status status = graph_view_constant(graph, &value->view, &view);
    if (spyre_status_code(status) == SPYRE_UNSUPPORTED) {
        spyre_status_free(status);
        return NULL;
    }
    TRY(status);
    uint32_t empty = 0;
    while (empty < view.rank && view.size[empty]) empty++;
    if (empty < view.rank) {
        uint32_t zero = value->view.size[empty];
        *out_storage = (graph_view){.rank = 1, .size = {zero}, .stride = {zero}, .offset = zero};
        return spyre_layout_default((int64_t[]){0}, 1, value->dtype, out_layout);
    }
    if (!view_is_dense(&view)) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "a view that does not cover its storage needs storage and layout");
    }
    return spyre_layout_dense(&view, value->dtype, out_layout);
}

// The storage must be dense and hold every element of the view.
static spyre_status check_storage(const spyre_graph *graph, const graph_view *view,
                                  const graph_view *storage)
{
    TRY(graph_check_rank(storage->rank));
    TRY(status_at(check_view_range(storage, graph->exprs), "storage"));
    spyre_view inner, outer;
    spyre_status status = graph_view_constant(graph, storage, &outer);
    if (!status) status = graph_view_constant(graph, view, &inner);
    if (spyre_status_code(status) == SPYRE_UNSUPPORTED) {
        spyre_status_free(status);
        return NULL;
    }
    TRY(status);
    if (!view_is_dense(&outer)) {
        return status_new(SPYRE_INVALID_ARGUMENT, "storage: not dense from element 0");
    }
    int64_t last = view_last_element(&inner), count = view_element_count(&outer);
    if (last < count) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "reaches element %lld of a storage of %lld",
                      (long long)last, (long long)count);
}

// A layout that every element of the storage has room in.
static spyre_status check_layout(const spyre_graph *graph, const graph_view *storage,
                                 const spyre_layout *layout)
{
    spyre_view view;
    int64_t room = 1;
    TRY(spyre_layout_check(layout));
    TRY(graph_view_constant(graph, storage, &view));
    for (uint32_t i = 0; i < layout->rank; i++) {
        // Room beyond 2^63 elements is room enough.
        if (__builtin_mul_overflow(room, layout->device_size[i], &room)) return NULL;
    }
    int64_t count = view_element_count(&view);
    if (room >= count) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "has room for %lld elements of %lld", (long long)room,
                      (long long)count);
}

spyre_status graph_add_input(spyre_graph *graph, uint32_t value, const graph_view *storage,
                             const spyre_layout *layout)
{
    const graph_value *v = &graph->values.items[value];
    graph_input input = {.value = value};
    if (storage) {
        TRY(check_storage(graph, &v->view, storage));
        if (layout) TRY(status_at(check_layout(graph, storage, layout), "layout"));
        if (layout) input.layout = *layout;
        input.storage = *storage;
    } else {
        TRY(graph_default_storage(graph, v, &input.storage, &input.layout));
    }
    return VEC_PUSH(graph->memory, &graph->inputs, input);
}

static spyre_status copy_arg(spyre_graph *graph, const spyre_arg *from, uint32_t depth,
                             spyre_arg *out_arg);

static spyre_status copy_list(spyre_graph *graph, const spyre_arg *from, uint32_t depth,
                              spyre_arg *out_arg)
{
    uint32_t count = from->of.list.count;
    if (depth == GRAPH_DEEPEST_LIST) {
        return status_new(SPYRE_INVALID_ARGUMENT, "lists lie more than %d deep",
                          GRAPH_DEEPEST_LIST);
    }
    if (count > GRAPH_MOST_ITEMS) {
        return status_new(SPYRE_INVALID_ARGUMENT, "a list of %u items, at most %d are allowed",
                          count, GRAPH_MOST_ITEMS);
    }
    if (count && !from->of.list.items) {
        return status_new(SPYRE_INVALID_ARGUMENT, "a list of %u items without items", count);
    }
    spyre_arg *items = ARENA_NEW(graph->memory, spyre_arg, count);
    TRY_ALLOC(items);
    for (uint32_t i = 0; i < count; i++) {
        TRY(status_at(copy_arg(graph, &from->of.list.items[i], depth + 1, &items[i]), "item %u",
                      i));
    }
    out_arg->of.list.items = items;
    return NULL;
}

static spyre_status copy_arg(spyre_graph *graph, const spyre_arg *from, uint32_t depth,
                             spyre_arg *out_arg)
{
    *out_arg = *from;
    switch (from->kind) {
    case SPYRE_ARG_NONE:
    case SPYRE_ARG_INT:
    case SPYRE_ARG_FLOAT:
    case SPYRE_ARG_BOOL: return NULL;
    case SPYRE_ARG_SCALAR:
        if (from->of.scalar.index < GRAPH_MOST_SCALARS &&
            (uint32_t)from->of.scalar.form < SPYRE_SCALAR_FORM_COUNT)
            return NULL;
        return status_new(SPYRE_INVALID_ARGUMENT, "scalar %u, form %d: at most %d scalars",
                          from->of.scalar.index, (int)from->of.scalar.form, GRAPH_MOST_SCALARS);
    case SPYRE_ARG_VALUE:
        if (from->of.value < graph->values.count) return NULL;
        return status_new(SPYRE_INVALID_ARGUMENT, "value %u does not exist, the graph has %u",
                          from->of.value, graph->values.count);
    case SPYRE_ARG_DTYPE:
        if ((uint32_t)from->of.dtype < SPYRE_DTYPE_COUNT) return NULL;
        return status_new(SPYRE_INVALID_ARGUMENT, "dtype %d is none of the %d", (int)from->of.dtype,
                          (int)SPYRE_DTYPE_COUNT);
    case SPYRE_ARG_STRING:
        if (!from->of.string) return status_new(SPYRE_INVALID_ARGUMENT, "a string without text");
        out_arg->of.string = arena_strdup(graph->memory, from->of.string);
        TRY_ALLOC(out_arg->of.string);
        return NULL;
    case SPYRE_ARG_LIST: return copy_list(graph, from, depth, out_arg);
    }
    return status_new(SPYRE_INVALID_ARGUMENT, "argument kind %d is unknown", (int)from->kind);
}

// The entry of an op name, made on first use.
static spyre_status find_op(spyre_graph *graph, const char *name, const struct graph_op **out_op)
{
    uint32_t index = 0;
    if (!map_string_get(&graph->op_ids, name, &index)) {
        if (!is_name(name)) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "op \"%.60s\" has characters other than letters, digits, _ . $",
                              name);
        }
        aten_op row = ATEN_COUNT;
        struct graph_op op = {arena_strdup(graph->memory, name), SPYRE_NO_ID};
        TRY_ALLOC(op.name);
        if (aten_named(name, &row)) op.row = row;
        index = graph->ops.count;
        TRY(VEC_PUSH(graph->memory, &graph->ops, op));
        TRY(map_string_put(graph->memory, &graph->op_ids, op.name, index));
    }
    *out_op = &graph->ops.items[index];
    return NULL;
}

spyre_status graph_copy_args(spyre_graph *graph, const spyre_arg *from, uint32_t count,
                             const spyre_arg **out_args)
{
    spyre_arg *args = ARENA_NEW(graph->memory, spyre_arg, count);
    TRY_ALLOC(args);
    for (uint32_t i = 0; i < count; i++) {
        TRY(status_at(copy_arg(graph, &from[i], 0, &args[i]), "argument %u", i));
    }
    *out_args = args;
    return NULL;
}

// The values among the arguments, into `out` where that is not null.
static uint32_t find_reads(const spyre_arg *args, uint32_t count, uint32_t *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *next = out ? out + found : NULL;
        if (args[i].kind == SPYRE_ARG_LIST)
            found += find_reads(args[i].of.list.items, args[i].of.list.count, next);
        if (args[i].kind != SPYRE_ARG_VALUE) continue;
        if (next) *next = args[i].of.value;
        found++;
    }
    return found;
}

spyre_status graph_set_args(arena *memory, graph_node *node, const spyre_arg *args, uint32_t count)
{
    uint32_t *reads = ARENA_NEW(memory, uint32_t, find_reads(args, count, NULL));
    TRY_ALLOC(reads);
    node->args = args;
    node->arg_count = count;
    node->reads = reads;
    node->read_count = find_reads(args, count, reads);
    return NULL;
}

spyre_status graph_append_node(spyre_graph *graph, const graph_new_node *from,
                               const spyre_arg *args, uint32_t *out_node)
{
    const struct graph_op *op = NULL;
    TRY(find_op(graph, from->op_name, &op));
    graph_node node = {.op = op->row,
                       .op_name = op->name,
                       .layer = GRAPH_LAYER_HOST,
                       .reason = "the card has no lowering for it",
                       .result_count = from->result_count,
                       .location = from->location,
                       .hint = from->hint,
                       .origin = from->origin};
    if (op->row != SPYRE_NO_ID) {
        const aten_row *row = aten_describe((aten_op)op->row);
        node.layer = row->layer;
        node.reason = row->layer == GRAPH_LAYER_HOST ? row->doc : NULL;
    }
    TRY(graph_set_args(graph->memory, &node, args, from->arg_count));
    uint32_t *results = ARENA_NEW(graph->memory, uint32_t, from->result_count);
    TRY_ALLOC(results);
    for (uint32_t i = 0; i < from->result_count; i++) results[i] = from->results[i];
    node.results = results;
    *out_node = graph->nodes.count;
    TRY(VEC_PUSH(graph->memory, &graph->nodes, node));
    for (uint32_t i = 0; i < from->result_count; i++) {
        graph_value *value = &graph->values.items[results[i]];
        value->node = *out_node;
        value->result = i;
    }
    return NULL;
}

spyre_status graph_add_node(spyre_graph *graph, const graph_new_node *node, uint32_t *out_node)
{
    const spyre_arg *args = NULL;
    TRY(graph_copy_args(graph, node->args, node->arg_count, &args));
    return graph_append_node(graph, node, args, out_node);
}

spyre_status graph_add_location(spyre_graph *graph, const char *location, uint32_t *out_location)
{
    *out_location = 0;
    if (!location || strcmp(location, "unknown") == 0) return NULL;
    uint32_t fresh = graph->locations.count;
    TRY(map_string_intern(graph->memory, &graph->location_ids, location, fresh, out_location));
    if (*out_location != fresh) return NULL;
    const char *own = arena_strdup(graph->memory, location);
    TRY_ALLOC(own);
    return VEC_PUSH(graph->memory, &graph->locations, own);
}
