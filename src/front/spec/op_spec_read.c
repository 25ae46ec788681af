// SPDX-License-Identifier: Apache-2.0
//
// From OpSpecs back to the loop IR behind the last pass.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "front/check/invariant.h"
#include "front/ir/core_numbers.h"
#include "front/ir/division.h"
#include "front/spec/op_spec_reader.h"
#include "graph/build.h"

// --- Ops

static spyre_status add_symbol(const json_node *at, symbols *s, const char *name, int64_t extent)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0) return json_error_at(at, "%.20s occurs twice", name);
    s->names[s->count] = name;
    s->extent[s->count++] = extent;
    return NULL;
}

static spyre_status read_space(spec_reader *r, const json_node *spec, symbols *s, loop_op *op)
{
    static const char *const loops[] = {"i_0", "i_1", "i_2", "i_3"};
    json_node space, member, item;
    void *cursor = NULL;
    TRY(json_get_object(spec, "iteration_space", &space));
    while (json_next_member(&space, &cursor, &member)) {
        int64_t extent, split;
        if (op->var_count == LOOP_MAX_VARS) return json_error_at(&space, "more than 8 loops");
        TRY(json_expect_array_of(&member, 2));
        TRY(json_item(&member, 0, &item));
        TRY(json_as_int(&item, 2, MOST_EXTENT, &extent));
        TRY(json_item(&member, 1, &item));
        TRY(json_as_int(&item, 1, r->loops->cores, &split));
        op->extent[op->var_count] = extent;
        op->split[op->var_count++] = (int32_t)split;
        TRY(add_symbol(&space, s, member.key, extent));
    }
    s->loops = op->var_count;
    op->tile_depth = r->depth;
    for (uint32_t t = 0; t < r->depth; t++) {
        op->tiles[t] = r->tiles[t];
        TRY(add_symbol(&space, s, loops[t], r->loops->tiles.items[r->tiles[t]].count));
    }
    return NULL;
}

static spyre_status read_loop_symbol(const json_node *at, const symbols *s, uint32_t *out_loop)
{
    const char *name;
    TRY(json_as_string(at, &name));
    for (*out_loop = 0; *out_loop < s->loops; ++*out_loop)
        if (strcmp(s->names[*out_loop], name) == 0) return NULL;
    return json_error_at(at, "%.20s is no loop of the op", name);
}

// torch-spyre's tiled_symbols have a list a counted loop, innermost first: what the loop cuts into
// tiles, which the coordinates leave out. A plain list of symbols is for the reader only.
static spyre_status read_tiled_symbols(const spec_reader *r, const json_node *spec, symbols *s)
{
    json_node levels, level, item;
    int64_t tile[LOOP_MAX_VARS];
    memcpy(tile, s->extent, sizeof tile);
    if (!json_find(spec, "tiled_symbols", &levels)) return NULL;
    TRY(json_expect_array(&levels));
    for (uint32_t i = 0; i < json_count(&levels); i++) {
        TRY(json_item(&levels, i, &level));
        if (json_is_string(level.value)) continue;
        TRY(json_expect_array(&level));
        if (i >= r->depth)
            return json_error_at(&level, "the op is inside of %u counted loops", r->depth);
        uint32_t t = r->depth - 1 - i, v;
        int64_t count = r->loops->tiles.items[r->tiles[t]].count;
        for (size_t k = 0; k < json_count(&level); k++) {
            TRY(json_item(&level, k, &item));
            TRY(read_loop_symbol(&item, s, &v));
            if (tile[v] > MOST_EXTENT / count)
                return json_error_at(&item, "%" PRId64 " tiles of %" PRId64, count, tile[v]);
            s->advance[t][v] = tile[v];
            tile[v] *= count;
        }
    }
    return NULL;
}

static spyre_status read_parameters(const json_node *info, uint32_t inputs, loop_op *op)
{
    const opfunc_info *about = opfunc_describe(op->op);
    uint32_t count = opfunc_constant_count(op->op, inputs);
    json_node constants = {0};
    if (count == 0) return NULL;
    TRY(json_get_object(info, "constants", &constants));
    for (uint32_t i = 0; i < count; i++) {
        json_node member;
        double value;
        TRY(json_member(&constants, about->parameter[i], &member));
        if (json_is_string(member.value)) {
            const char *word = json_string_value(member.value);
            value = word[0] == '-' ? -INFINITY : word[0] == 'i' ? INFINITY : NAN;
        } else {
            TRY(json_as_real(&member, &value));
        }
        op->parameter[i] = (float)value;
    }
    return NULL;
}

static spyre_status read_scanned(const json_node *list, const symbols *s, loop_op *op)
{
    json_node item;
    uint32_t v;
    TRY(json_expect_array(list));
    for (uint32_t i = 0; i < json_count(list); i++) {
        TRY(json_item(list, i, &item));
        TRY(read_loop_symbol(&item, s, &v));
        op->scanned |= (uint8_t)(1u << v);
    }
    return NULL;
}

static spyre_status read_accumulator(const json_node *node, loop_op *op)
{
    const char *name;
    TRY(json_as_string(node, &name));
    op->accumulator = opfunc_named(name);
    if (op->table == 2 && opfunc_accumulates(op->accumulator)) return NULL;
    return json_error_at(node, "rows are not joined by '%s'", name);
}

static spyre_status read_info(spec_reader *r, const json_node *spec, symbols *s, loop_op *op)
{
    json_node info, member, of, strides, arguments;
    const char *location;
    TRY(json_get_array(spec, "args", &arguments));
    TRY(json_get_object(spec, "op_info", &info));
    TRY(read_parameters(&info, (uint32_t)json_count(&arguments) - 1, op));
    if (json_find(&info, "location", &member)) {
        TRY(json_as_string(&member, &location));
        op->location = arena_strdup(r->memory, location);
        TRY_ALLOC(op->location);
    }
    if (json_find(&info, "rows", &member)) {
        int64_t table = 1;
        if (json_find(&info, "rows_of", &of)) TRY(json_as_int(&of, 1, 2, &table));
        op->table = (uint8_t)table;
        if (json_find(&info, "row_accumulator", &of)) TRY(read_accumulator(&of, op));
        TRY(json_as_int(&member, 1, MOST_EXTENT, &op->row_count));
        TRY(add_symbol(&info, s, "row", op->row_count));
    }
    if (json_find(&info, "scanned", &member)) TRY(read_scanned(&member, s, op));
    if (!json_find(&info, "core_strides", &strides)) return NULL;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t stride = 0;
        if (op->split[v] > 1) TRY(json_get_int(&strides, s->names[v], 1, 1024, &stride));
        op->core_stride[v] = (int32_t)stride;
    }
    return NULL;
}

static spyre_status read_op(spec_reader *r, const json_node *spec)
{
    const char *name;
    json_node arguments, argument;
    symbols s = {0};
    loop_op op = {.stick = LOOP_NO_DIM};
    TRY(json_get_string(spec, "op", &name));
    op.op = opfunc_named(name);
    if (op.op == OPFUNC_NONE) return json_error_at(spec, "no opfunc is named '%.40s'", name);
    if (!loop_has_opfunc(op.op))
        return json_error_at(spec, "'%s' is for bundles only", name);
    TRY(read_space(r, spec, &s, &op));
    TRY(read_tiled_symbols(r, spec, &s));
    TRY(read_info(r, spec, &s, &op));
    TRY(json_get_array(spec, "args", &arguments));
    size_t count = json_count(&arguments);
    if (count < 2 || count > LOOP_MAX_OPERANDS)
        return json_error_at(&arguments, "2 to %d arguments are possible", LOOP_MAX_OPERANDS);
    for (size_t i = 0; i < count; i++) {
        TRY(json_item(&arguments, i, &argument));
        TRY(op_spec_read_argument(r, &argument, &s, i + 1 == count, &op));
    }
    op.name = r->loops->buffers.items[loop_output_of(&op)->buffer].name;
    if (!json_object_get(json_object_get(spec->value, "op_info"), "core_strides")) {
        division d = division_get(&op);
        core_numbers_as_published(&op, &d);
        for (uint32_t v = 0; v < op.var_count; v++) op.core_stride[v] = d.core_stride[v];
    }
    return VEC_PUSH(r->memory, &r->loops->ops, op);
}

static spyre_status read_list(spec_reader *r, const json_node *array);

static spyre_status read_loop(spec_reader *r, const json_node *spec)
{
    json_node body;
    int64_t count;
    TRY(json_get_int(spec, "count", 2, MOST_EXTENT, &count));
    TRY(json_get_array(spec, "body", &body));
    if (r->depth == LOOP_MAX_TILES)
        return json_error_at(spec, "more than %d counted loops", LOOP_MAX_TILES);
    r->tiles[r->depth++] = r->loops->tiles.count;
    TRY(VEC_PUSH(r->memory, &r->loops->tiles, ((loop_tiles){.count = count, .name = "i"})));
    TRY(read_list(r, &body));
    r->depth--;
    return NULL;
}

static spyre_status read_list(spec_reader *r, const json_node *array)
{
    json_node spec, member;
    TRY(json_expect_array(array));
    for (size_t i = 0; i < json_count(array); i++) {
        TRY(json_item(array, i, &spec));
        TRY(json_expect_object(&spec));
        TRY(json_find(&spec, "body", &member) ? read_loop(r, &spec) : read_op(r, &spec));
    }
    return NULL;
}

// --- The whole

static spyre_status begin(const spyre_settings *settings, arena *memory, spec_reader *r)
{
    spyre_graph *graph = graph_create(memory);
    loop_graph *loops = ARENA_NEW(memory, loop_graph, 1);
    TRY_ALLOC(graph);
    TRY_ALLOC(loops);
    *r = (spec_reader){.memory = memory, .loops = loops};
    TRY(VEC_PUSH(memory, &graph->nodes, (graph_node){0}));
    loops->memory = memory;
    loops->graph = graph;
    loops->settings = *settings;
    loops->cores = settings->sencores;
    TRY_NEW(memory, loops->at_node, 1);
    return NULL;
}

static spyre_layout layout_of(const device_form *form, spyre_format format)
{
    spyre_layout layout = {.rank = form->rank, .format = format};
    memcpy(layout.device_size, form->device_size, sizeof layout.device_size);
    memcpy(layout.stride_map, form->stride_map, sizeof layout.stride_map);
    return layout;
}

// Inputs and output buffers keep their order among the launch arguments. One that no op names is an
// input that nothing reads.
static spyre_status number_arguments(spec_reader *r, op_spec_list *out)
{
    loop_graph *loops = r->loops;
    spyre_graph *graph = (spyre_graph *)(uintptr_t)loops->graph; // made by begin()
    uint32_t count = loops->buffers.count;
    for (uint32_t b = 0; b < count; b++)
        if (r->forms.items[b].argument >= (int32_t)out->argument_count)
            out->argument_count = (uint32_t)r->forms.items[b].argument + 1;
    TRY_NEW(r->memory, out->arguments, out->argument_count);
    for (uint32_t k = 0; k < out->argument_count; k++) out->arguments[k].buffer = LOOP_UNUSED;
    for (uint32_t b = 0; b < count; b++) {
        const device_form *form = &r->forms.items[b];
        if (form->argument < 0) continue;
        op_spec_argument_use *use = &out->arguments[form->argument];
        if (use->buffer != LOOP_UNUSED)
            return status_new(SPYRE_INVALID_FORMAT, "%s and %s are both argument %d",
                              loops->buffers.items[use->buffer].name, loops->buffers.items[b].name,
                              form->argument);
        *use = (op_spec_argument_use){.written = loops->buffers.items[b].kind == LOOP_LOCAL,
                                      .buffer = b,
                                      .layout = layout_of(form, loops->buffers.items[b].format)};
    }
    for (uint32_t k = 0; k < out->argument_count; k++) {
        op_spec_argument_use *use = &out->arguments[k];
        use->place = use->written ? loops->output_buffer_count++ : graph->inputs.count;
        if (!use->written) TRY(VEC_PUSH(r->memory, &graph->inputs, (graph_input){0}));
        if (use->buffer == LOOP_UNUSED) continue;
        loop_buffer *buffer = &loops->buffers.items[use->buffer];
        buffer->index = use->place;
        if (!use->written) continue;
        buffer->output = (int32_t)use->place;
        TRY(VEC_PUSH(r->memory, &loops->outputs, ((loop_output){.buffer = use->buffer})));
    }
    return NULL;
}

static void finish_buffer(loop_graph *loops, loop_buffer *buffer)
{
    if (buffer->stick != LOOP_NO_DIM && buffer->dim[buffer->stick].extent < 2)
        buffer->dim[buffer->stick].extent = 2;
    buffer->storage = loop_plain_storage(buffer);
    buffer->bytes = loop_device_bytes(buffer);
    int64_t end = buffer->memory_offset + buffer->bytes;
    bool pooled = buffer->kind == LOOP_LOCAL && buffer->output < 0 && !buffer->in_lx;
    if (pooled && end > loops->pool_bytes) loops->pool_bytes = end;
}

static spyre_status finish(spec_reader *r, op_spec_list *out)
{
    loop_graph *loops = r->loops;
    TRY(number_arguments(r, out));
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        finish_buffer(loops, &loops->buffers.items[b]);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        loop_location place;
        if (!loop_locate(loops, op, loop_output_of(op), &place)) op->stick = place.stick_var;
        if (op->stick == LOOP_ROWS) op->stick = LOOP_NO_DIM;
    }
    loop_find_live_ranges(loops);
    loops->stage = FRONT_PASS_COUNT;
    return front_fault_of_input(loop_verify(loops));
}

spyre_status op_spec_read(const json_node *array, const spyre_settings *settings, arena *memory,
                          op_spec_list *out)
{
    spec_reader r;
    *out = (op_spec_list){0};
    TRY(begin(settings, memory, &r));
    TRY(read_list(&r, array));
    TRY(finish(&r, out));
    out->loops = r.loops;
    return NULL;
}
